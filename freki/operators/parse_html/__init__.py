"""The readable text and outline of an HTML page.

document  the page as a whole
readable  what of it a reader sees, and came for
writer    nodes become text and blocks
"""

from freki.operators.parse_html.document import parse_html

__all__ = ["parse_html"]
