"""Source code is split at its definitions.

document  definitions, and what stands between them, become headings and blocks
grammar   definitions by the grammar of a language
sql       definitions in any dialect of SQL
words     definitions by their words, where no grammar is at hand
lines     lines of a text, and the comments above them
"""

from freki.operators.parse_code.document import parse_code
from freki.operators.parse_code.grammar import LANGUAGES

__all__ = ["LANGUAGES", "parse_code"]
