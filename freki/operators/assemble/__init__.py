"""Assembly of hits and expansions into one text for a prompt.

assemble   selection within the token budget
cut        the part of a text that has room, around the words of the query
layout     arrangement by document, in reading order, each text below its citation
units      boundaries at which a text may be cut
cite       citations, and protection against forged ones
"""

from freki.operators.assemble.assemble import Assembly, Omitted, SurroundingChunks, assemble
from freki.operators.assemble.cite import cite, place_of

__all__ = ["Assembly", "Omitted", "SurroundingChunks", "assemble", "cite", "place_of"]
