"""Sizes of chunks."""

from freki.schemas.names import record


@record
class ChunkLimits:
    """Size limits of chunks."""

    min_tokens: int
    """Minimum tokens; smaller neighbours are joined."""
    max_tokens: int
    max_chars: int
    """Maximum characters; lists, tables and code stay whole up to 1.5 times as many."""
    overlap_chars: int
    least_similarity: float | None = None
    """Minimum similarity of joined sentences in long prose, -1..1; None: split at paragraphs."""
    breakpoint_percentile: float | None = None
    """Split long prose where the distance of neighbouring sentences is above this percentile of those in its section,
    0..100, instead of at a similarity; None: do not."""
    min_chars: int = 0
    """Minimum characters, besides the tokens."""
    overlap_tokens: int | None = None
    """Maximum tokens of an overlap, besides the characters."""
