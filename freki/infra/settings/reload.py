"""What differs between two settings: which of it running processes take over, and which needs a restart."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from freki.infra.settings.names import Names
from freki.infra.settings.section import RELOADS_WHILE_ON

_PREFIX = "FREKI_"


class Leaf(NamedTuple):
    """One setting of a section or of a section in it."""

    path: Names
    value: object
    field: FieldInfo

    @property
    def variable(self) -> str:
        """Name in the environment."""
        return _PREFIX + "__".join(self.path).upper()


class Differences(NamedTuple):
    """Settings whose values differ, by their names in the environment."""

    reloading: tuple[str, ...]
    """Running processes take them over."""
    restarting: tuple[str, ...]
    """Are read at the start only."""


def leaves(section: BaseModel, path: Names = ()) -> Iterator[Leaf]:
    """Yield all settings below a section, in the order of the sections."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, (*path, name))
        else:
            yield Leaf((*path, name), value, field)


def reloads_of(field: FieldInfo) -> str:
    """Return when running processes take a setting over; empty: never."""
    extra = field.json_schema_extra
    return str(extra.get("reloads", "")) if isinstance(extra, dict) else ""


def differences(before: BaseModel, after: BaseModel, *, sections: Collection[str] | None = None) -> Differences:
    """Compare settings; sections: the outermost names that count, None: all."""
    reloading: list[str] = []
    restarting: list[str] = []
    for old, new in zip(leaves(before), leaves(after), strict=True):
        if old.value == new.value or (sections is not None and old.path[0] not in sections):
            continue
        (reloading if _takes_over(old, new) else restarting).append(new.variable)
    return Differences(tuple(reloading), tuple(restarting))


def _takes_over(old: Leaf, new: Leaf) -> bool:
    reloads = reloads_of(new.field)
    if reloads == RELOADS_WHILE_ON["reloads"]:
        return bool(old.value) == bool(new.value)
    return bool(reloads)
