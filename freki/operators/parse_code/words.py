"""Definitions by keywords, for languages without grammar."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from freki.operators.parse_code.lines import CodeStructure, SourceLines, Symbol

# Each pattern captures the name; indentation is checked separately. Bounded repeats limit the time for long lines.
_MODIFIERS = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|sealed|partial|override|virtual|async|export|default"
    r"|declare|readonly|unsafe|pub(?:\([\w ]{1,20}\))?|extern|const|inline|constexpr|synchronized)[ \t]+){0,6}"
)
_TYPES = re.compile(
    _MODIFIERS
    + r"(?:class|interface|struct|enum|trait|impl(?:<[^>\n]{0,80}>)?|record|namespace|module|mod|object|protocol"
    r"|union|type)[ \t]+([A-Za-z_](?:[\w.]|::){0,100}(?:<[^>\n]{0,80}>)?(?:[ \t]+for[ \t]+\w{1,100})?)"
)
_FUNCTIONS = re.compile(
    _MODIFIERS
    + r"(?:def|fn|func|fun|function\*?|sub|proc)[ \t]+(?:\([^)\n]{0,100}\)[ \t]*)?([A-Za-z_$](?:[\w.$]|::){0,100}[?!]?)"
)
_ARROWS = re.compile(
    r"(?:export[ \t]+)?(?:const|let|var)[ \t]+([A-Za-z_$][\w$]{0,100})(?::[^=\n]{1,100})?[ \t]*=[ \t]*"
    r"(?:async[ \t]*)?(?:function\b|\([^\n]{0,300}=>|\w{1,100}[ \t]*=>)"
)
_STATEMENTS = re.compile(
    r"CREATE[ \t]+(?:OR[ \t]+REPLACE[ \t]+)?(?:(?:UNIQUE|TEMP|TEMPORARY|MATERIALIZED)[ \t]+){0,2}"
    r"(?:TABLE|VIEW|FUNCTION|PROCEDURE|TRIGGER|INDEX|TYPE|SCHEMA|SEQUENCE)[ \t]+(?:IF[ \t]+NOT[ \t]+EXISTS[ \t]+)?"
    r"([\w.\"`\[\]]{1,100})",
    re.IGNORECASE,
)
_SHELL = re.compile(r"([A-Za-z_][\w-]{0,100})[ \t]*\(\)[ \t]*(?:\{|\Z)")
_C_FUNCTIONS = re.compile(
    r"(?!(?:if|else|for|while|switch|return|do|case|catch|using|throw|new|delete|goto|import|from|print|assert)\b)"
    r"(?:[A-Za-z_][\w:<>,&*\[\]]{0,100}[ \t*&]+){1,6}[*&]{0,2}([A-Za-z_~][\w:~]{0,100})[ \t]*\([^;=]{0,400}\Z"
)
_TOP = (_TYPES, _FUNCTIONS, _ARROWS, _STATEMENTS, _SHELL, _C_FUNCTIONS)
_MEMBER = (
    _FUNCTIONS,
    _TYPES,
    re.compile(
        r"(?:(?:public|private|protected|internal|static|final|abstract|override|virtual|async)[ \t]+){1,6}"
        r"(?:[\w<>\[\],.?]{1,100}[ \t]+){0,3}([A-Za-z_]\w{0,100})[ \t]*\([^;=]{0,400}\Z"
    ),
)
_LONGEST_LINE = 500
_MEMBER_INDENT = 4


class _Line(NamedTuple):
    """A line with a definition."""

    number: int
    level: int
    name: str


def by_words(lines: SourceLines) -> CodeStructure:
    """Return lines that look like definitions of common languages, at the margin or within a type at the margin.

    A definition ends at the next one. Seams are the lines after blank ones.
    """
    found = list(_defining(lines.lines))
    starts: list[int] = []
    for line in found:
        starts.append(lines.begin(lines.starts[line.number], starts[-1] + 1 if starts else 0))
    ends = [*starts[1:], len(lines.text)]
    definitions = (
        Symbol(start, end, line.level, line.name) for start, end, line in zip(starts, ends, found, strict=False)
    )
    written = (line for line, text in enumerate(lines.lines) if text.strip())
    seams = (lines.starts[line] for before, line in pairwise(written) if line > before + 1)
    return CodeStructure(tuple(definitions), tuple(seams))


def _defining(lines: Sequence[str]) -> Iterator[_Line]:
    in_type = False
    for line, text in enumerate(lines):
        if not text or len(text) > _LONGEST_LINE:
            continue
        indent = len(text) - len(text.lstrip())
        name = ""
        if indent == 0:
            name = _named(_TOP, text)
            in_type = bool(name and _TYPES.match(text)) or (in_type and not name and not text[0].isalnum())
        elif in_type and indent <= _MEMBER_INDENT:
            name = _named(_MEMBER, text[indent:])
        if name:
            yield _Line(line, 2 if indent else 1, name)


def _named(patterns: Sequence[re.Pattern[str]], text: str) -> str:
    matches = (pattern.match(text) for pattern in patterns)
    return next((match.group(1) for match in matches if match), "")
