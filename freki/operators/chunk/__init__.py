"""A parsed document becomes chunks: leaves that tile its text, and extracts that stand for what is longer.

document   the chunks of a document, in order
sections   the tree of headings
leaves     what of a section becomes a leaf
segments   neighbours that belong together are joined
cut        what is too long is cut
sentences  where sentences end
extract    what stands for a section
windows    what is encoded as a whole, so that chunks know what is around them
"""

from freki.operators.chunk.document import VERSION, ChunkLimits, Identify, chunk_document, chunker_fingerprint
from freki.operators.chunk.leaves import Similarities
from freki.operators.chunk.sentences import sentence_ends
from freki.operators.chunk.windows import Windowed, late_windows

__all__ = [
    "VERSION",
    "ChunkLimits",
    "Identify",
    "Similarities",
    "Windowed",
    "chunk_document",
    "chunker_fingerprint",
    "late_windows",
    "sentence_ends",
]
