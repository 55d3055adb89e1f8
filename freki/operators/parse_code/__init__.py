"""Parsing of source code by its definitions.

document  headings and blocks of definitions and the code between them
grammar   definitions by the grammar of a language
sql       definitions in any dialect of SQL
words     definitions by keywords, for languages without grammar
lines     lines of a text, and the comments above them
"""

from freki.operators.parse_code.document import parse_code

__all__ = ["parse_code"]
