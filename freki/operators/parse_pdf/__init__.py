"""A PDF becomes text with headings, paragraphs, lists, tables and pages.

document  opens the file, and says what is wrong with it
lines     the lines of a page, by PDFium
tables    tables that have rules between their cells
layout    what lines and tables are to a reader
"""

from freki.operators.parse_pdf.document import parse_pdf

__all__ = ["parse_pdf"]
