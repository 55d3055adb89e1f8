"""Text files, plain or compressed with Zstandard, and errors with line numbers."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from freki.infra.zstd import opened
from freki.schemas.errors import Rejected

_Model = TypeVar("_Model", bound=BaseModel)


def read_text(path: Path) -> str:
    """Read a file; one that ends in `.zst` is decompressed. Raises Rejected where that fails."""
    try:
        with opened(path) as stream:
            return stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Rejected(f"{path}, line {line}: it is not UTF-8") from error


def refused(error: ValidationError, place: str) -> Rejected:
    """Return the first validation error as one line, with its location."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = "".join(f"{part}: " for part in first["loc"])
    # The parser reports lines relative to this line.
    message = first["msg"].removeprefix("Value error, ").replace("at line 1 column", "at column")
    return Rejected(f"{place}: {field}{message}")


def read_lines(path: Path, kind: type[_Model], *, key: str) -> list[_Model]:
    """Read one JSON object per line, skipping empty lines. Raises Rejected for duplicates of `key`."""
    found: dict[str, _Model] = {}
    # Not `splitlines`, which also splits at Unicode separators.
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        place = f"{path}, line {number}"
        try:
            line = kind.model_validate_json(text)
        except ValidationError as error:
            raise refused(error, place) from error
        name = getattr(line, key)
        if name in found:
            raise Rejected(f"{place}: _id {name!r} is there twice")
        found[name] = line
    if not found:
        raise Rejected(f"{path}: it is empty")
    return list(found.values())
