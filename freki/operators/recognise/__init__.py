"""Recognition of the format of content.

content   by the content
markdown  of Markdown in plain text
kinds     by name and media type
decode    decoding of text
"""

from freki.operators.recognise.content import Recognised, recognise, scan_type
from freki.operators.recognise.kinds import Profile

__all__ = ["Profile", "Recognised", "recognise", "scan_type"]
