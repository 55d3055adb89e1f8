"""The outline of source code."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from freki.operators.parse_code.grammar import by_grammar
from freki.operators.parse_code.lines import SourceLines, Symbol
from freki.operators.parse_code.sql import by_statements
from freki.operators.parse_code.words import by_words
from freki.schemas.outline import Block, BlockKind, ParsedDocument, one_line, tidy

_SQL = "sql"
_LEAST_REST_LETTERS = 120
"""Minimum letters and digits after a definition for a section of their own; fewer stay with the definition."""
_REST_TITLE_CHARS = 80
_VISIBLE = re.compile(r"\S")
_LETTER = re.compile(r"[^\W_]")
_LINE_REST = re.compile(r"[^\w\n]*\n")


def parse_code(source: str, *, language: str = "") -> ParsedDocument:
    """Split source code at its definitions.

    Functions, classes and the like are headings, each one level below its enclosing definition. Classes of up to 600
    characters and functions are not divided. Comments and decorators directly above a definition are part of it. Longer
    code after a definition gets its first line as heading. Headings are empty spans: the line of a definition is part
    of the code below. Seams are the starts of statements.

    language: `sql`, or one of `LANGUAGES`. For other languages, and code with many syntax errors, definitions are found
    by keywords, up to two levels, and seams are the lines after blank ones. Code without definitions is one block.
    """
    lines = SourceLines(tidy(source))
    found = (by_statements(lines) if language == _SQL else by_grammar(lines, language)) or by_words(lines)
    blocks: list[Block] = []
    sections = [None, *_sections(lines.text, found.definitions)]
    edges = [0, *(section.start for section in sections if section), len(lines.text)]
    for section, (start, end) in zip(sections, pairwise(edges), strict=True):
        code = _code(lines, found.seams, start, end)
        if section and code:
            blocks.append(_heading(section, code.start))
        blocks += [code] if code else []
    return ParsedDocument(text=lines.text, blocks=tuple(blocks), title=None, attributes={})


def _heading(section: Symbol, start: int) -> Block:
    return Block(
        kind=BlockKind.HEADING, start=start, end=start, heading_level=section.level, title=one_line(section.name)
    )


def _code(lines: SourceLines, seams: Sequence[int], start: int, end: int) -> Block | None:
    """Return the visible part of a span, with the indentation of its first line."""
    first = _VISIBLE.search(lines.text, start, end)
    if not first:
        return None
    start = max(start, lines.starts[lines.line_at(first.start())])
    end = start + len(lines.text[start:end].rstrip())
    inner = seams[bisect_right(seams, start) : bisect_left(seams, end)]
    return Block(kind=BlockKind.CODE, start=start, end=end, seams=tuple(inner))


def _sections(text: str, definitions: Sequence[Symbol]) -> Iterator[Symbol]:
    """Yield the definitions, and longer code between them."""
    around: list[Symbol] = []
    for definition in [*definitions, None]:
        start = definition.start if definition else len(text)
        while around and around[-1].end <= start:
            ended = around.pop()
            yield from _rest(text, ended, min(start, around[-1].end) if around else start)
        if definition:
            yield definition
            around.append(definition)


def _rest(text: str, ended: Symbol, end: int) -> Iterator[Symbol]:
    """Yield the code after a definition if it is long enough."""
    line_rest = _LINE_REST.match(text, ended.end, end)
    start = line_rest.end() if line_rest else ended.end
    rest = text[start:end]
    if len(_LETTER.findall(rest)) >= _LEAST_REST_LETTERS:
        title = next(line for line in rest.split("\n") if _LETTER.search(line))
        yield Symbol(start, end, ended.level, one_line(title)[:_REST_TITLE_CHARS])
