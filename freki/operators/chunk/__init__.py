"""A parsed document becomes chunks: leaves that tile its text, and extracts that stand for what is longer.

document   the chunks of a document, in order
sections   the tree of headings
leaves     what of a section becomes a leaf
pieces     neighbours that belong together are joined
cut        what is too long is cut
sentences  where sentences end
extract    what stands for a section
"""

from freki.operators.chunk.document import VERSION, ChunkLimits, Identify, chunk_document, chunker_fingerprint

__all__ = ["VERSION", "ChunkLimits", "Identify", "chunk_document", "chunker_fingerprint"]
