"""Conversion of groups of lines or tables to parts of an outline."""

import re
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from freki.operators.parse_pdf.lines import TextLine, joined, with_seams
from freki.operators.parse_pdf.tables import Table
from freki.schemas.outline import BlockKind, Part, header_rows, stacked

_MAX_HEADING_CHARS = 200
"""Maximum characters of a heading."""
PARAGRAPH_STEP = 1.35
"""Maximum line step within a paragraph, relative to the usual one."""
_MAX_CODE_INDENT = 80
"""Maximum spaces of indentation."""
_WORD = re.compile(r"[^\W\d_]|§")
BULLET = re.compile(r"[•▪◦‣●○■□\ue000-\uf8ff]\s*")
BULLET_ITEM = re.compile(r"[-–*]\s")
NUMBER_ITEM = re.compile(r"(?:\(?\d{1,3}[.)]|\(?[a-z]\))\s")


class BlockGroup(NamedTuple):
    """Lines or tables that form one block."""

    kind: BlockKind
    number: int
    """Level of a heading, or run of rows without rules; 0 for all else."""
    items: list[TextLine | Table]


def is_item(text: str) -> bool:
    """Return whether a text begins as an item of a list does."""
    return any(sign.match(text) for sign in (BULLET, BULLET_ITEM, NUMBER_ITEM))


def part_of(group: BlockGroup, known: Container[str]) -> Part:
    """Return the part of a group; `known` words decide whether a hyphen at the end of a line is kept."""
    lines = [item for item in group.items if isinstance(item, TextLine)]
    if group.kind is BlockKind.TABLE:
        return _table(group.items)
    if group.kind is BlockKind.CODE:
        return stacked(BlockKind.CODE, list(_code_lines(lines)))
    text = joined((line.text for line in lines), known)
    if group.kind is BlockKind.HEADING and len(text) <= _MAX_HEADING_CHARS and _WORD.search(text):
        return Part(kind=BlockKind.HEADING, text=text, heading_level=group.number, page=lines[0].page)
    kind = BlockKind.LIST if is_item(text) else BlockKind.PROSE
    lines[0] = lines[0]._replace(text=BULLET.sub("- ", lines[0].text, count=1) if BULLET.match(text) else lines[0].text)
    return _paragraph(lines, kind, known)


def _code_lines(lines: Sequence[TextLine]) -> Iterator[Part]:
    """Yield lines with their indentation, and an empty one for each larger gap."""
    margins: dict[int, float] = {}
    for line in lines:
        margins[line.page] = min(line.left, margins.get(line.page, line.left))
    usual = min((step for step in _steps(lines) if step > 0), default=0.0)
    for before, line in zip([lines[0], *lines], lines, strict=False):
        if before.page == line.page and before.top - line.top > PARAGRAPH_STEP * usual:
            yield Part(kind=BlockKind.CODE, text="", page=line.page)
        indent = min(round((line.left - margins[line.page]) / line.pitch), _MAX_CODE_INDENT)
        yield Part(kind=BlockKind.CODE, text=" " * indent + line.text, page=line.page)


def _steps(lines: Sequence[TextLine]) -> Iterator[float]:
    return (before.top - line.top for before, line in pairwise(lines) if before.page == line.page)


def _paragraph(lines: Sequence[TextLine], kind: BlockKind, known: Container[str]) -> Part:
    texts = with_seams((line.text for line in lines), known)
    starts = accumulate(map(len, texts), initial=0)
    breaks = [
        start
        for (upper, lower), start in zip(pairwise([lines[0], *lines]), starts, strict=False)
        for _ in range(upper.page, lower.page)
    ]
    return Part(kind=kind, text="".join(texts), page=lines[0].page, page_breaks=tuple(breaks))


def _table(items: Sequence[TextLine | Table]) -> Part:
    """Return a table part of all rows; a header repeated on each page is included once."""
    head = items[0].rows[0] if isinstance(items[0], Table) else ""
    rows: list[Part] = []
    for item in items:
        texts = list(item.rows) if isinstance(item, Table) else [" | ".join(item.cells)]
        repeated = int(bool(rows) and texts[0] == head)
        rows += [Part(kind=BlockKind.TABLE, text=text, page=item.page) for text in texts[repeated:]]
    first = [row.text.split(" | ") for row in rows[:3]]
    return stacked(BlockKind.TABLE, rows, header_rows=header_rows(first))
