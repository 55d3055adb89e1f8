"""The outline of source code."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from freki.schemas.outline import Block, BlockKind, ParsedDocument, tidy

# Each pattern names what is defined; indentation is looked at apart. Bounded repeats keep a long line cheap.
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
_LEADS = re.compile(r"[ \t]*(?:@\w|#\[|//|/\*|\*|#(?!include|define|if|endif|else|pragma|!)|--)")
_LONGEST_LINE = 500
_MEMBER_INDENT = 4


class _Definition(NamedTuple):
    """A name and the line that its block begins with: its comments and decorators are part of it."""

    line: int
    level: int
    name: str


def parse_code(source: str) -> ParsedDocument:
    """Split source code at its definitions.

    Classes, functions and the like at the margin are headings of level 1, what is defined directly in a class is of
    level 2. They are told by their words in the usual languages, without a grammar. Headings are empty spans: the
    line of a definition stands in the code below it, with the comments and decorators above it. The seams of a
    block are the lines after blank ones. Code without definitions is one block.
    """
    text = tidy(source)
    lines = text.split("\n")
    definitions = list(_definitions(lines))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    edges = [0, *(definition.line for definition in definitions), len(lines)]
    blocks: list[Block] = []
    for definition, (first, end) in zip([None, *definitions], pairwise(edges), strict=True):
        code = _code(lines, starts, first, end)
        if definition and code:
            blocks.append(_heading(definition, code.start))
        blocks += [code] if code else []
    return ParsedDocument(text=text, blocks=tuple(blocks), title=None, attributes={})


def _heading(definition: _Definition, start: int) -> Block:
    return Block(kind=BlockKind.HEADING, start=start, end=start, heading_level=definition.level, title=definition.name)


def _code(lines: Sequence[str], starts: Sequence[int], first: int, end: int) -> Block | None:
    written = [line for line in range(first, end) if lines[line].strip()]
    if not written:
        return None
    seams = tuple(starts[line] for before, line in pairwise(written) if line > before + 1)
    stop = starts[written[-1]] + len(lines[written[-1]].rstrip())
    return Block(kind=BlockKind.CODE, start=starts[written[0]], end=stop, seams=seams)


def _definitions(lines: Sequence[str]) -> Iterator[_Definition]:
    in_type = False
    free = 0
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
            yield _Definition(_lead(lines, line, free), 2 if indent else 1, name)
            free = line + 1


def _named(patterns: Sequence[re.Pattern[str]], text: str) -> str:
    matches = (pattern.match(text) for pattern in patterns)
    return next((match.group(1) for match in matches if match), "")


def _lead(lines: Sequence[str], line: int, free: int) -> int:
    """Return the first of the comments and decorators that stand right above a definition."""
    while line > free and _LEADS.match(lines[line - 1]):
        line -= 1
    return line
