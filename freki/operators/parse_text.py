"""The outline of plain text."""

import re
from collections.abc import Iterator, Sequence

from freki.schemas.outline import Block, BlockKind, ParsedDocument, one_line, tidy

_PARAGRAPH = re.compile(r"\S.*(?:\n.*\S.*)*")
_HEADING = re.compile(r"(?:(\d{1,3}(?:\.\d{1,3}){0,5})\.?|§§? *\d+[a-z]?)[ \t]+[^\W\d_].{0,100}(?<![.,;:!?])\Z")
_TITLE = re.compile(r"[^\n]{1,120}(?<![\s.,;:!?])\Z")
_ITEM = re.compile(r"^[ \t]*(?:[-*+•–]|\d{1,3}[.)])[ \t]", re.MULTILINE)


def parse_text(source: str) -> ParsedDocument:
    """Parse plain text into headings, paragraphs and lists, separated by blank lines.

    A heading is a single numbered line that does not end like a sentence: `1.2 Title` at the level of its number,
    `§ 3 Title` at level 1. Consecutive numbered lines of the same level are a list. A separate first line that does not
    end like a sentence is the title.
    """
    text = tidy(source)
    paragraphs = list(_PARAGRAPH.finditer(text))
    levels = _heading_levels([paragraph.group() for paragraph in paragraphs])
    blocks = tuple(_block(paragraph, level) for paragraph, level in zip(paragraphs, levels, strict=True))
    return ParsedDocument(text=text, blocks=blocks, title=_title(text, blocks), attributes={})


def _title(text: str, blocks: Sequence[Block]) -> str | None:
    first = text[blocks[0].start : blocks[0].end] if len(blocks) > 1 else ""
    return one_line(first) if blocks and blocks[0].kind is BlockKind.PROSE and _TITLE.match(first) else None


def _block(paragraph: re.Match[str], level: int) -> Block:
    start, text = paragraph.start(), paragraph.group().rstrip()
    end = start + len(text)
    if level:
        return Block(kind=BlockKind.HEADING, start=start, end=end, heading_level=level, title=one_line(text))
    if not _ITEM.match(text):
        return Block(kind=BlockKind.PROSE, start=start, end=end)
    seams = tuple(start + item.start() for item in _ITEM.finditer(text) if item.start())
    return Block(kind=BlockKind.LIST, start=start, end=end, seams=seams)


def _heading_levels(paragraphs: Sequence[str]) -> Iterator[int]:
    """Yield the level of each paragraph, 0 for those that are no heading."""
    levels = [_level(paragraph) for paragraph in paragraphs]
    for before, level, after in zip([0, *levels], levels, [*levels[1:], 0], strict=False):
        yield level if level not in (before, after) else 0


def _level(paragraph: str) -> int:
    heading = _HEADING.match(paragraph)
    if not heading:
        return 0
    return heading.group(1).count(".") + 1 if heading.group(1) else 1
