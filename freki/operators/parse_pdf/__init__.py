"""Parsing of PDF into headings, paragraphs, lists, tables and pages.

document  opening of the file, and errors
lines     the lines of a page, by PDFium
fields    contents of form fields
tables    tables with rules between their cells
rows      rows of tables without rules
styles    styles of body and headings
layout    grouping of lines and tables into blocks
blocks    blocks as parts of an outline
"""

from freki.operators.parse_pdf.document import parse_pdf

__all__ = ["parse_pdf"]
