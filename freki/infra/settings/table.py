"""Generate `docs/settings.md`: `python -m freki.infra.settings.table`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from freki.infra.settings.describe import described
from freki.infra.settings.reload import reloads_of
from freki.infra.settings.root import Settings

HEAD = """# Settings

Each setting is an environment variable, or a line in `freki.toml` in the folder where Freki is started:
`FREKI_KAFKA__BOOTSTRAP=kafka:9092` and `[kafka]` with `bootstrap = "kafka:9092"` say the same; the environment wins.
Variables may have any case; a key of a table whose case counts, such as the name of a tenant, is JSON or in small
letters: `FREKI_LIMITS__TENANTS={"HR": {"documents": 2}}`.
Lists and tables are JSON there, and so may be a section: `FREKI_KAFKA={"partitions": 12}`.
An empty value counts as not set, in both places: deployment tools hand it over for what nobody set. `none` is the word
for no value, for settings without a default (–), lists, tables and `FREKI_MODELS__RERANKER`; a secret may read `none`.
A secret may lie in a file, as Docker and Kubernetes hand them over: `FREKI_KAFKA__PASSWORD_FILE=/run/secrets/kafka` in
place of `FREKI_KAFKA__PASSWORD`. It is read without the line break at its end.
`~` at the beginning of a path is the home of the user whose process reads it.
An unknown name, a value out of range or values that contradict each other stop the start with a message that names them
and the fix, such as the setting that may be meant.
Of variables that begin with `FREKI_`, those of the tests (`FREKI_TEST_…`) and those that Kubernetes sets for Services
are no settings and do no harm.
`freki settings show` prints what is set and by what, `freki settings init` writes a `freki.toml` with all settings as
comments, `freki settings schema` a JSON Schema of it for editors, and `freki settings check` says whether all is valid.
Workers and `freki serve` take over changes of `freki.toml` while they run, where the column "reloads" says so
([how](operations.md#change-settings-while-it-runs)); `freki settings check NEW.toml` says before what a change needs.
This page is written by `make docs`.

| variable | default | reloads | what |
| --- | --- | --- | --- |
"""


def table() -> str:
    """Return the page."""
    rows = _rows(Settings, "FREKI_")
    return HEAD + "".join(f"| `{name}` | {default} | {reloads} | {what} |\n" for name, default, reloads, what in rows)


def _rows(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            for sub, default, reloads, what in _rows(inner, f"{prefix}{name.upper()}__"):
                # A nested section may override the defaults of its class.
                shown = _inherited(field, sub.removeprefix(f"{prefix}{name.upper()}__").lower(), default)
                yield sub, shown, reloads, what
        else:
            yield prefix + name.upper(), _shown(field.default), reloads_of(field) or "–", described(name, field)


def _inherited(field: FieldInfo, name: str, default: str) -> str:
    value = getattr(field.default, name, PydanticUndefined)
    return default if value is PydanticUndefined else _shown(value)


def _shown(value: Any) -> str:  # noqa: ANN401 - any default
    if value is None or value is PydanticUndefined or isinstance(value, SecretStr):
        return "–"
    # Lists are shown as in the environment: JSON.
    return f"`{json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, tuple) else value}`"


if __name__ == "__main__":
    Path("docs/settings.md").write_text(table(), encoding="utf-8")
