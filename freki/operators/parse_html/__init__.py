"""The readable text and outline of an HTML page.

document  the page as a whole
readable  the visible main content of a page
writer    nodes to text and blocks
columns   where the cells of a table stand
labels    labels of items in numbered lists
formulas  formulas as a line of text
fields    what the fields of forms show
"""

from freki.operators.parse_html.document import parse_html

__all__ = ["parse_html"]
