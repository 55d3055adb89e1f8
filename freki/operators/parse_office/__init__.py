"""The readable text and outline of Office files, and of books, which are packed like them."""

from freki.operators.parse_office.docx import parse_docx
from freki.operators.parse_office.epub import parse_epub
from freki.operators.parse_office.odp import parse_odp
from freki.operators.parse_office.ods import parse_ods
from freki.operators.parse_office.odt import parse_odt
from freki.operators.parse_office.pptx import parse_pptx
from freki.operators.parse_office.xlsx import parse_xlsx

__all__ = ["parse_docx", "parse_epub", "parse_odp", "parse_ods", "parse_odt", "parse_pptx", "parse_xlsx"]
