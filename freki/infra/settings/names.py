"""Which settings there are, and which one a wrong name is nearest to."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel

Names = tuple[str, ...]
"""A setting by its names from the outermost section on, such as `("retrieval", "top_k")`."""


def names_of(kind: Any, path: Sequence[str] = ()) -> Iterator[Names]:  # noqa: ANN401 - any type
    """List the sections and settings below a type.

    path: where a table or a list has keys of the user's choice, the key to list is the one at the same depth here.
    """
    for name, inner in _inner(kind, path[0] if path else ""):
        yield (name,)
        for rest in names_of(inner, path[1:]):
            yield (name, *rest)


def nearest(path: Names, kind: type[BaseModel]) -> Names | None:
    """Give the setting whose name is most like a wrong one; None where none is like it."""
    by_text = {_text(names): names for names in names_of(kind, path)}
    found = get_close_matches(_text(path), by_text, n=1)
    return by_text[found[0]] if found else None


def _inner(kind: Any, key: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any type
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from ((name, field.annotation) for name, field in kind.model_fields.items())
    elif key and get_origin(kind) is Mapping:
        yield key, get_args(kind)[1]
    elif key.isdigit() and get_origin(kind) is tuple:
        yield key, get_args(kind)[0]


def _text(names: Names) -> str:
    return "__".join(names).lower()
