"""The hits and what stands around them become one text for a prompt.

assemble   what has room, in which order
layout     how it stands in the text: by document, in reading order, each text under its citation
units      where a text may be cut
cite       citations, and what no text may look like
"""

from freki.operators.assemble.assemble import Assembly, Omission, Omitted, assemble
from freki.operators.assemble.cite import cite, place_of

__all__ = ["Assembly", "Omission", "Omitted", "assemble", "cite", "place_of"]
