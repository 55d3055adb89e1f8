"""What a setting means, with the values that it takes."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo


def described(name: str, field: FieldInfo) -> str:
    """Return the description of a setting; where it takes certain values only, with those that it does not name."""
    text = field.description or name.replace("_", " ")
    values = list(_values(field.annotation))
    if all(str(value) in text for value in values):
        return text
    return f"{text} ({', '.join(f'`{value}`' for value in values)})"


def _values(annotation: Any) -> Iterator[object]:  # noqa: ANN401 - any type of a setting
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (each.value for each in annotation)
    else:
        for part in get_args(annotation):
            yield from _values(part)
