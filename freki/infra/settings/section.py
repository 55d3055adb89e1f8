"""Base of all sections of the settings: frozen, no unknown names, secrets from files, and `none` for no value."""

import shlex
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from freki.schemas.masking import masked
from freki.schemas.names import FORBIDDEN_IN_LINE, MAX_ID_BYTES, ambiguous_tenant_reason

NONE = "none"
"""Value that clears a setting: an empty value counts as not set."""
_NOTHING: Mapping[object, object] = {tuple: (), Mapping: {}}

RELOADS: JsonDict = {"reloads": "yes"}
"""`json_schema_extra` of a setting that running processes take over: `reload.py`."""
RELOADS_WHILE_ON: JsonDict = {"reloads": "unless turned on or off"}
"""The same of a setting of which 0 turns something off that is opened at the start."""
_MARK = "names a file that holds another setting"
SecretFile = Annotated[Path | None, _MARK]
"""Path of a file that holds the secret of the same name without `_file`, as Docker and Kubernetes provide them."""
SECRET_TWICE, SECRET_UNUSABLE = "secret_twice", "secret_unusable"
"""Types of the pydantic errors of secret files."""

_MOST = 10**18
"""Largest number of a setting: it fits 64 bits."""
_MOST_BY_UNIT = {"s": 2_000_000, "days": 1_000_000, "mb": 10**12}
"""The same by the unit at the end of a name: Kafka's clients and gRPC count milliseconds in 32 bits, which is 23 days,
and systems bytes in 64."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_LAST_PORT = 65_535


class Clearable(BaseModel):
    """Settings that `none` clears: optional ones except secrets (whose value may be `none`), lists and tables."""

    @model_validator(mode="before")
    @classmethod
    def _clear(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        return {
            name: _nothing_of(cls.model_fields[name].annotation, value)
            if name in cls.model_fields and isinstance(value, str) and value.lower() == NONE
            else value
            for name, value in values.items()
        }

    @field_validator("*")
    @classmethod
    def _at_home(cls, value: object, info: ValidationInfo) -> object:
        """Expand `~` of a path, which a shell does not expand within quotes, nor in files of settings."""
        # A default is expanded where it is used, so that a process needs no home for the rest.
        if not isinstance(value, Path) or value == cls.model_fields[str(info.field_name)].default:
            return value
        try:
            return value.expanduser()
        except RuntimeError as error:
            raise PydanticCustomError("home_unknown", "begins with the home of a user who is not known here") from error

    @field_validator("*")
    @classmethod
    def _is_usable(cls, value: object, info: ValidationInfo) -> object:
        """Refuse numbers that no client, store or system call takes, among them infinity, which `gt=0` lets pass."""
        if not isinstance(value, int | float):
            return value
        most = _MOST_BY_UNIT.get(str(info.field_name).rpartition("_")[2], _MOST)
        if not abs(value) <= most:
            raise PydanticCustomError("too_large", "it is no number up to {most}", {"most": most})
        return value


def _nothing_of(annotation: Any, word: str) -> object:  # noqa: ANN401 - any type
    """Return the cleared value of a setting of this type, or the word itself if the setting cannot be cleared."""
    kinds = get_args(annotation)
    if type(None) in kinds and SecretStr not in kinds:
        return None
    return _NOTHING.get(get_origin(annotation), word)


class SettingsSection(Clearable):
    """Settings of one adapter or stage."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Return the fields with the credentials in URLs masked; pydantic masks secrets itself."""
        return ((name, masked(value) if isinstance(value, str) else value) for name, value in super().__repr_args__())

    @model_validator(mode="before")
    @classmethod
    def _read_secrets(cls, values: object) -> object:
        """Replace the paths of secret files by the secrets in them."""
        if not isinstance(values, dict):
            return values
        files = {name: values[name] for name in cls.model_fields.keys() & values.keys() if cls._names_secret(name)}
        given = {name: Path(path) for name, path in files.items() if path and str(path).lower() != NONE}
        for name in given:
            if values.get(secret_of(name)) is not None:
                raise PydanticCustomError(SECRET_TWICE, "a secret comes from one place", {"setting": name})
        others = {name: value for name, value in values.items() if name not in given}
        return others | {secret_of(name): _read_secret(name, path) for name, path in given.items()}

    @classmethod
    def _names_secret(cls, name: str) -> bool:
        return _MARK in cls.model_fields[name].metadata


def secret_of(name: str) -> str:
    """Return the name of the secret that belongs to a file setting."""
    return name.removesuffix("_file")


def _read_secret(name: str, path: Path) -> str:
    try:
        # Editors and `echo` end a file with a line break, some begin it with a byte order mark: both are no part of it.
        text = path.expanduser().read_text(encoding="utf-8-sig").rstrip("\r\n")
    except OSError as error:
        raise _unusable(name, f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _unusable(name, f"{path} is not UTF-8") from error
    except RuntimeError as error:
        raise _unusable(name, f"{path} begins with the home of a user who is not known here") from error
    if not text:
        raise _unusable(name, f"{path} is empty")
    return text


def _unusable(name: str, problem: str) -> PydanticCustomError:
    return PydanticCustomError(SECRET_UNUSABLE, "{problem}", {"setting": name, "problem": problem})


def check_ascending(settings: Mapping[str, float], *, strictly: bool = False) -> None:
    """Raise ValueError, with both names and the fix, if a value exceeds the next; `strictly`: or equals it."""
    for (low, least), (high, most) in pairwise(settings.items()):
        if least > most or (strictly and least == most):
            how = "not below" if strictly else "above"
            raise ValueError(f"FREKI_{low}={least} is {how} FREKI_{high}={most}: lower the first or raise the second")


def checked_url(text: str) -> str:
    """Return a URL of a server as it is; raise without quoting it, since it may hold a password."""
    try:
        parts = urlsplit(text)
        complete = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:
        complete = False
    if not complete or any(sign.isspace() for sign in text):
        raise PydanticCustomError(
            "server_url",
            "no URL of a server, such as https://host.example.org:8080/path; in a name or password, / ? # and @ are "
            "percent-encoded",
        )
    return text


ServerUrl = Annotated[str, AfterValidator(checked_url)]
"""Base URL of a service that is asked over HTTP."""


def _checked_principal(name: str) -> str:
    tenant, _, principal = name.partition("/")
    if not tenant.strip() or not principal.strip():
        problem = "{name} is not of the form tenant/user or tenant/group, such as acme/editors"
        raise PydanticCustomError("tenant_principal", problem, {"name": repr(name)})
    return name


TenantPrincipal = Annotated[str, AfterValidator(_checked_principal)]
"""A user or group of a tenant: a group of another tenant may have the same name."""


def _checked_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; give an address or a network, such as 10.0.0.7 or 10.0.0.0/24") from error
    return text


Network = Annotated[str, AfterValidator(_checked_network)]
"""An address of the Internet Protocol, or a network of them."""


def _checked_tenant(name: str) -> str:
    """Return a name; raise for what queries and documents refuse: a tenant of this name would have none."""
    size = len(name.encode(errors="surrogatepass"))
    if not name.strip() or ambiguous_tenant_reason(name) or size > MAX_ID_BYTES or FORBIDDEN_IN_LINE.search(name):
        raise PydanticCustomError("tenant", "no name of a tenant: it has 1 to 512 bytes, no '/' and no control")
    return name


TenantName = Annotated[str, AfterValidator(_checked_tenant)]
"""Name of a tenant."""


def _checked_path(path: object) -> object:
    if path == "":
        raise PydanticCustomError("empty_path", "it is empty, which would stand for the current folder; name a path")
    return path


NamedPath = Annotated[Path, BeforeValidator(_checked_path)]
"""Path in a table of a list, where an empty one does not count as not set."""
Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
"""Priority of documents: records hold it in 32 bits."""


def check_command(setting: str, command: str | None) -> None:
    """Raise ValueError, with its name and the fix, if a command cannot be split as a shell would, or has no word."""
    try:
        words = None if command is None else shlex.split(command)
    except ValueError as error:
        raise ValueError(f"FREKI_{setting} is no command: {error}; correct it") from error
    if words == []:
        raise ValueError(f"FREKI_{setting} names no program: correct it or leave it out")


def is_address(text: str) -> bool:
    """Tell whether a text is host:port, not a URL."""
    host, _, port = text.rpartition(":")
    return bool(host) and "/" not in host and port.isdecimal() and 0 < int(port) <= _LAST_PORT
