"""Whether the rows of an archive fit an index."""

from typing import Any, NamedTuple

from freki.schemas.archive import FORMAT, ArchiveStart
from freki.schemas.index import Generation


class Mismatch(NamedTuple):
    """A parameter that differs."""

    parameter: str
    archived: Any
    expected: Any


def mismatches(start: ArchiveStart, generation: Generation, *, layout: int) -> list[Mismatch]:
    """Return the parameters by which vectors, terms or columns of an archive differ from those of an index.

    The name of a generation is none of them. layout: version of the columns of the index.
    """
    theirs = start.generation
    compared = [
        Mismatch("format", start.format, FORMAT),
        Mismatch("layout", start.layout, layout),
        Mismatch("embedder", theirs.embedder, generation.embedder),
        Mismatch("dim", theirs.dim, generation.dim),
        Mismatch("embedders", _apart(theirs), _apart(generation)),
        Mismatch("analyser", theirs.analyser, generation.analyser),
    ]
    return [each for each in compared if each.archived != each.expected]


def _apart(generation: Generation) -> dict[str, tuple[str, int]]:
    return {kind.value: (each.embedder, each.dim) for each in generation.kind_embedders for kind in each.kinds}
