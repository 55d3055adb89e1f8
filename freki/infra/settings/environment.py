"""Sources of settings: the environment and `freki.toml`."""

import os
import re
import tomllib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, TomlConfigSettingsSource

from freki.infra.settings.names import has_ambiguous_key, names_of

UNKNOWN = "$"
"""Prefix that marks a variable without a setting when it is passed to pydantic."""
AMBIGUOUS = "%"
"""The same of one with a key whose case counts, and cannot be told from the name of a variable."""
_OF_TESTS = re.compile("FREKI_TEST_.*", re.IGNORECASE)
_OF_KUBERNETES = re.compile(
    r"FREKI(_[A-Z0-9_]+)?_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)=.*|PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://.*"
    r"|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)"
)
"""Variables that Kubernetes sets in every pod for a Service whose name begins with `freki`, such as `freki-milvus`."""


class Environment(EnvSettingsSource):
    """Non-empty environment variables. Those without a setting are passed on as unknown, so that they are refused."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        self._unknown = [name for name in os.environ if self._is_ours(name) and not self._is_setting(name)]
        self._ambiguous = [
            name
            for name in os.environ
            if self._is_ours(name) and os.environ[name] and has_ambiguous_key(self.settings_cls, self._path_of(name))
        ]
        left_out = {name.lower() for name in (*self._unknown, *self._ambiguous)}
        self.env_vars = {name: value for name, value in self.env_vars.items() if name not in left_out}

    def _is_ours(self, name: str) -> bool:
        """Return whether a variable is meant for Freki."""
        is_foreign = _OF_TESTS.fullmatch(name) or _OF_KUBERNETES.fullmatch(f"{name}={os.environ[name]}")
        return name.upper().startswith(self.env_prefix) and not is_foreign

    def _is_setting(self, name: str) -> bool:
        path = tuple(each.lower() for each in self._path_of(name))
        return path in names_of(self.settings_cls, path)

    def _path_of(self, name: str) -> list[str]:
        return name[len(self.env_prefix) :].split(self.env_nested_delimiter or "")

    def next_field(
        self,
        field: FieldInfo | Any | None,  # noqa: ANN401
        key: str,
        case_sensitive: bool | None = None,  # noqa: FBT001 - pydantic-settings calls it so
    ) -> FieldInfo | None:
        """Resolve the value type of a table, so that a nested table is read as JSON."""
        annotation = field.annotation if isinstance(field, FieldInfo) else field
        if get_origin(annotation) is Mapping:
            value: FieldInfo | None = get_args(annotation)[1]
            return value
        return super().next_field(field, key, case_sensitive)

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:  # noqa: ANN401
        """Read lists and tables as JSON; keep other text, so that validation errors name its variable."""
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value

    def __call__(self) -> dict[str, Any]:
        """Return the given settings and the names of unknown variables, whose values may be secrets."""
        refused = [f"{UNKNOWN}{name}" for name in self._unknown] + [f"{AMBIGUOUS}{name}" for name in self._ambiguous]
        return {**_without_empty(super().__call__()), **dict.fromkeys(refused)}


class File(TomlConfigSettingsSource):
    """Settings of `freki.toml` with a non-empty value."""

    def __call__(self) -> dict[str, Any]:
        """Return the given settings."""
        return _without_empty(super().__call__())

    def _read_file(self, file_path: Path | Traversable) -> dict[str, Any]:
        """Read a file; editors on Windows begin it with a byte order mark, which TOML has not."""
        return tomllib.loads(file_path.read_text(encoding="utf-8-sig"))


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    """Drop empty strings, also in tables: deployment tools pass them for unset values.

    Zero, false and an empty list are values and stay.
    """
    return {
        name: _without_empty(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value != ""
    }
