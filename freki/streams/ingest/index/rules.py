"""Settings of indexing."""

from freki.schemas.names import record
from freki.streams.ports import AnalyseText


@record
class IndexRules:
    """Rules for indexing revisions."""

    generation: str
    """Name of the generation in receipts."""
    analyse_text: AnalyseText
    analyser: str
    """Name and version of `analyse_text`, an input of the metadata hash."""
    slice_tokens: int
    """Maximum tokens per slice."""
