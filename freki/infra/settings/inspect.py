"""What the settings are, where each value comes from, and a commented `freki.toml`. Secrets are masked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_json

from freki.infra.settings.describe import described
from freki.infra.settings.environment import Environment, File
from freki.infra.settings.names import Names
from freki.infra.settings.profiles import PROFILES
from freki.infra.settings.reload import leaves
from freki.infra.settings.root import Settings
from freki.schemas.masking import masked

_WIDTH = 96
"""Columns of a comment in `freki.toml`."""
_HEAD = """# Settings of Freki. Every line is commented out and shows its default: remove the # of those to change.
# An environment variable, such as FREKI_KAFKA__BOOTSTRAP for bootstrap of [kafka], wins over this file.
# An empty value counts as not set; `none` clears a setting that has a default.
# Secrets better lie in files of their own: password_file in place of password.
"""


class Origin(StrEnum):
    """Where the value of a setting comes from."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = "freki.toml"
    PROFILE = "profile"
    """`FREKI_PROFILE`."""
    STACK = "local stack"
    """The broker and store of `freki up`, which is running."""


@dataclass(frozen=True)
class EffectiveSetting:
    """One setting in force."""

    variable: str
    value: object
    """As JSON has it; secrets and credentials in URLs are masked, null: no value."""
    origin: Origin


def given(settings: Settings, *, read: Settings) -> tuple[EffectiveSetting, ...]:
    """Return all settings in force, in the order of the sections.

    read: what environment and file say; where the settings in force differ, the local stack has set them.
    """
    sources: dict[Origin, Mapping[str, Any]] = {
        Origin.ENVIRONMENT: Environment(Settings)(),
        Origin.FILE: File(Settings)(),
        Origin.PROFILE: {} if read.profile is None else PROFILES[read.profile],
    }
    before = {leaf.path: leaf.value for leaf in leaves(read)}
    return tuple(
        EffectiveSetting(
            variable=leaf.variable,
            value=_plain(leaf.value),
            origin=_origin(leaf.path, sources) if before.get(leaf.path) == leaf.value else Origin.STACK,
        )
        for leaf in leaves(settings)
    )


def schema() -> dict[str, Any]:
    """Return a JSON Schema of `freki.toml` for editors; `none` stands for no value, which TOML lacks."""
    found: dict[str, Any] = _without_null(Settings.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def template() -> str:
    """Return a `freki.toml` with all settings as comments."""
    lines = [_HEAD, *_section(Settings(**_none_given()), ())]
    return "\n".join(lines).rstrip() + "\n"


def _none_given() -> dict[str, Any]:
    """Return arguments that keep environment and file out of the defaults: arguments win over both."""
    return {name: field.default for name, field in Settings.model_fields.items()}


def _origin(path: Names, sources: Mapping[Origin, Mapping[str, Any]]) -> Origin:
    names = (path, (*path[:-1], f"{path[-1]}_file"))
    found = (origin for origin, values in sources.items() if any(_has(values, one) for one in names))
    return next(found, Origin.DEFAULT)


def _has(values: Mapping[str, Any], path: Sequence[str]) -> bool:
    name, *rest = path
    if name not in values:
        return False
    return not rest or (isinstance(values[name], Mapping) and _has(values[name], rest))


def _plain(value: object) -> Any:  # noqa: ANN401 - as JSON has it
    # pydantic masks secrets itself.
    return json.loads(masked(to_json(value).decode()))


def _without_null(part: Any) -> Any:  # noqa: ANN401 - any part of a JSON Schema
    if isinstance(part, list):
        return [_without_null(each) for each in part]
    if not isinstance(part, dict):
        return part
    if part == {"type": "null"}:
        return {"const": "none"}
    # A default of null says that there is none.
    return {name: _without_null(each) for name, each in part.items() if (name, each) != ("default", None)}


def _section(section: BaseModel, path: Names) -> Iterator[str]:
    fields = type(section).model_fields
    inner = {name: value for name in fields if isinstance(value := getattr(section, name), BaseModel)}
    if path:
        yield f"\n[{'.'.join(path)}]"
    for name in (one for one in fields if one not in inner):
        yield from _wrapped(described(name, fields[name]))
        yield f"# {name} = {_toml(_plain(getattr(section, name)))}"
    for name, value in inner.items():
        yield from _section(value, (*path, name))


def _wrapped(text: str) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + len(word) >= _WIDTH:
            yield f"## {line}"
            line = ""
        line = f"{line} {word}".strip()
    yield f"## {line}"


def _toml(value: object) -> str:
    if value is None:
        # Empty counts as not set; a secret may read `none`.
        return '""'
    if isinstance(value, Mapping):
        inner = (f"{json.dumps(name)} = {_toml(each)}" for name, each in value.items() if each is not None)
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
