"""Chunking of a parsed document: leaves that tile its text, and extracts that summarise longer sections.

document   the chunks of a document, in order
sections   the tree of headings
leaves     the leaves of a section
siblings   joining of small sections
segments   joining of neighbouring segments
cut        splitting of oversized segments
sentences  sentence boundaries
extract    the summary of a section
limits     sizes of chunks
overlap    the text before a chunk
headers    header rows of tables that go on
windows    windows of text for late chunking
"""

from freki.operators.chunk.document import chunk_document, chunker_fingerprint
from freki.operators.chunk.leaves import Similarities
from freki.operators.chunk.limits import ChunkLimits
from freki.operators.chunk.sections import shortened
from freki.operators.chunk.sentences import sentence_ends
from freki.operators.chunk.windows import Windowed, late_windows

__all__ = [
    "ChunkLimits",
    "Similarities",
    "Windowed",
    "chunk_document",
    "chunker_fingerprint",
    "late_windows",
    "sentence_ends",
    "shortened",
]
