"""Where the words of a question stand in the hits of its answer."""

from freki.schemas.names import record

Spans = tuple[tuple[int, int], ...]
"""Half-open spans in Unicode code points, in order."""


@record
class HitMarks:
    """Marks of one hit."""

    rank: int
    text: Spans
    """In the text of the hit."""
    around: Spans
    """In `section`."""
    section: str
    """The hit in its section or between its neighbours; empty if nothing stands around it."""
    hit: tuple[int, int]
    """Span of the hit in `section`."""
