"""Names of all settings, and the one closest to a wrong name."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

EXACT = "compared letter by letter"
ExactName = Annotated[str, EXACT]
"""Key of a table whose case counts, which the name of a variable does not have."""
Names = tuple[str, ...]
"""Path of a setting from the outermost section, such as `("retrieval", "top_k")`."""


def names_of(kind: Any, path: Sequence[str] = ()) -> Iterator[Names]:  # noqa: ANN401 - any type
    """Yield the paths of all sections and settings below a type.

    path: supplies the keys of tables and lists, whose keys the user chooses, by depth.
    """
    for name, inner in _inner(kind, path[0] if path else ""):
        yield (name,)
        for rest in names_of(inner, path[1:]):
            yield (name, *rest)


def has_ambiguous_key(kind: Any, path: Sequence[str]) -> bool:  # noqa: ANN401 - any type
    """Return whether a path, as a variable spells it, has a key with capitals where the case of keys counts."""
    if not path:
        return False
    name, *rest = path
    if get_origin(kind) is Mapping and EXACT in getattr(get_args(kind)[0], "__metadata__", ()) and name != name.lower():
        return True
    found = dict(_inner(kind, name.lower())).get(name.lower())
    return found is not None and has_ambiguous_key(found, rest)


def nearest(path: Names, kind: type[BaseModel]) -> Names | None:
    """Return the setting whose name is most similar to a wrong one, or None."""
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
