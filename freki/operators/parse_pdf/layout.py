"""Grouping of the lines and tables of a PDF into headings, paragraphs, lists, tables and code."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from freki.operators.parse_pdf.blocks import (
    BULLET,
    BULLET_ITEM,
    NUMBER_ITEM,
    PARAGRAPH_STEP,
    BlockGroup,
    is_item,
    part_of,
)
from freki.operators.parse_pdf.lines import TextLine, extended, vocabulary
from freki.operators.parse_pdf.rows import ALIGNED, runs, with_whole_rows
from freki.operators.parse_pdf.styles import MAX_LEVELS, Typography, style_of, typography_of
from freki.operators.parse_pdf.tables import Table
from freki.schemas.outline import BlockKind, Part, stacked

_HEADING_STEP = 1.6
"""Maximum line step within a heading, relative to the font size."""
_MAX_FIXED_SHARE = 0.9
"""Maximum share of monospaced characters for code; above it the whole document is typewritten."""
_LARGEST_CODE_STEP = 4.0
"""Maximum line step within code, relative to the font size."""
_LEAST_RUNNING_PAGES = 3
_EDGE_SHARE = 0.15
"""Maximum distance of running heads from the first or last line of a page, relative to the height of its text."""
_COUNTED_DIGITS = 9
"""Number of last digits by which pages are counted."""
_TITLE_LINES = 3
_LARGEST_DIFFERENCE = 1.5
"""Maximum difference of font sizes within a paragraph, in points."""
_DIGITS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"[-–—]\s?(\d{1,4})\s?[-–—]|(?:Seite|Page)\s(\d{1,4})(?:\s?(?:von|of|/)\s?\d{1,4})?")
_NO_WORD = re.compile(r"\W+")
_CLOSED = frozenset(".:;!?,")
_SENTENCE_ENDS = frozenset(".:;!?")


class Bookmark(NamedTuple):
    """A bookmark of a PDF."""

    title: str
    page: int
    """0-based."""
    level: int
    """1 is outermost."""


def layout(items: Iterable[TextLine | Table], bookmarks: Iterable[Bookmark], *, pages: int) -> Iterator[Part]:
    """Yield the parts of all pages, in reading order."""
    shown = with_whole_rows(_without_running_heads(list(items), pages))
    known = vocabulary(item.text for item in shown if isinstance(item, TextLine))
    parts = [part_of(group, known) for group in _groups(shown, bookmarks)]
    for kind, same in groupby(parts, key=lambda part: part.kind):
        run = list(same)
        yield from [stacked(kind, run)] if kind is BlockKind.LIST else run


def _groups(items: Sequence[TextLine | Table], bookmarks: Iterable[Bookmark]) -> list[BlockGroup]:
    typography = typography_of([item for item in items if isinstance(item, TextLine)])
    code, titles = _code(items, typography.step), _titles(items, bookmarks)
    in_table = {index: run for index, run in runs(items).items() if index not in code}
    groups: list[BlockGroup] = []
    for index, item in enumerate(items):
        level = 0 if isinstance(item, Table) else titles.get(index, typography.levels.get(style_of(item), 0))
        if isinstance(item, Table) or index in in_table:
            kind, number = BlockKind.TABLE, in_table.get(index, 0)
        elif index in code and index not in titles:
            kind, number = BlockKind.CODE, 0
        else:
            kind, number = (BlockKind.HEADING if level else BlockKind.PROSE), level
        if groups and groups[-1][:2] == (kind, number) and _continues(groups[-1], item, typography):
            groups[-1].items.append(item)
        else:
            groups.append(BlockGroup(kind, number, [item]))
    return groups


def _without_running_heads(items: Sequence[TextLine | Table], pages: int) -> list[TextLine | Table]:
    """Remove lines at the same height of most pages that are equal, or differ in numbers that count the pages.

    They are near the first or last line of their pages, or larger than the body. Other numbers differ in forms that
    were filled in several times. Lines that only say which page this is are removed from documents of any size. Copies
    of a page count as one, and where nothing would be left, all is kept.
    """
    edges = _edges(items)
    lines = [item for item in items if isinstance(item, TextLine)]
    body = _body_size(lines)
    copies = _copies(items, edges)
    met: defaultdict[tuple[str, int], dict[int, TextLine]] = defaultdict(dict)
    for line in lines:
        # What is larger may be across the page, such as `ENTWURF`.
        if line.page not in copies and (line.size > body or _is_at_edge(line, edges[line.page])):
            met[_running_key(line)].setdefault(line.page, line)
    most = max((pages - len(copies)) / 2, _LEAST_RUNNING_PAGES - 1)
    running = {key for key, found in met.items() if len(found) > most and _is_running(list(found.values()), body)}
    left = [
        item
        for item in items
        if isinstance(item, Table) or not (_running_key(item) in running or _is_page_number(item, edges[item.page]))
    ]
    return left or list(items)


def _copies(items: Iterable[TextLine | Table], edges: Mapping[int, tuple[float, float]]) -> set[int]:
    """Return the pages that are equal to an earlier one, except for numbers in lines at the edge."""
    contents: defaultdict[int, list[object]] = defaultdict(list)
    for item in items:
        if isinstance(item, Table):
            contents[item.page].append(item.rows)
        else:
            contents[item.page].append(_running_key(item) if _is_at_edge(item, edges[item.page]) else item.text)
    first = {tuple(content): page for page, content in reversed(contents.items())}
    return {page for page, content in contents.items() if first[tuple(content)] != page}


def _is_page_number(line: TextLine, edges: tuple[float, float]) -> bool:
    """Return whether a line at the edge of its page says which page this is, as `- 2 -` or `Seite 2 von 5` does."""
    number = _PAGE_NUMBER.fullmatch(line.text.strip())
    return number is not None and _number(number[1] or number[2]) == line.page + 1 and _is_at_edge(line, edges)


def _is_at_edge(line: TextLine, edges: tuple[float, float]) -> bool:
    bottom, top = edges
    return min(top - line.top, line.bottom - bottom) <= _EDGE_SHARE * (top - bottom)


def _edges(items: Iterable[TextLine | Table]) -> dict[int, tuple[float, float]]:
    """Return bottom and top of the lines of each page."""
    edges: dict[int, tuple[float, float]] = {}
    for item in items:
        if isinstance(item, TextLine):
            bottom, top = edges.get(item.page, (item.bottom, item.top))
            edges[item.page] = min(bottom, item.bottom), max(top, item.top)
    return edges


def _body_size(lines: Iterable[TextLine]) -> float:
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return max(sizes, key=lambda size: (sizes[size], size), default=0.0)


def _running_key(line: TextLine) -> tuple[str, int]:
    return _DIGITS.sub("0", line.text), round(line.top)


def _is_running(lines: Sequence[TextLine], body: float) -> bool:
    """Return whether lines of ascending pages are equal, or no larger than the body and their numbers count."""
    if len({line.text for line in lines}) == 1:
        return True
    if max(line.size for line in lines) > body:
        return False  # `Schritt 1`, `Schritt 2` are titles of slides
    rows = [(line.page, _DIGITS.findall(line.text)) for line in lines]
    steps = [
        all(0 <= _number(after) - _number(before) <= later - page for before, after in zip(one, other, strict=True))
        for (page, one), (later, other) in pairwise(rows)
    ]
    return sum(steps) >= len(steps) / 2


def _number(digits: str) -> int:
    return int(digits[-_COUNTED_DIGITS:])


def _code(items: Sequence[TextLine | Table], step: float) -> set[int]:
    """Return the indices of code lines: monospaced lines that are not words within a paragraph."""
    lines = [item for item in items if isinstance(item, TextLine)]
    share = sum(len(line.text) for line in lines if line.pitch) / max(sum(len(line.text) for line in lines), 1)
    code: set[int] = set()
    for is_fixed, run in groupby(range(len(items)), key=lambda index: _is_fixed(items[index])):
        indices = list(run)
        if is_fixed and share <= _MAX_FIXED_SHARE and (len(indices) > 1 or _stands_alone(items, indices[0], step)):
            code.update(indices)
    return code


def _is_fixed(item: TextLine | Table) -> bool:
    return isinstance(item, TextLine) and item.pitch > 0


def _stands_alone(items: Sequence[TextLine | Table], index: int, step: float) -> bool:
    """Return whether a line is a paragraph of its own."""
    return not any(
        isinstance(upper, TextLine)
        and isinstance(lower, TextLine)
        and upper.page == lower.page
        and 0 <= upper.top - lower.top <= PARAGRAPH_STEP * step
        for upper, lower in pairwise(items[max(0, index - 1) : index + 2])
    )


def _titles(items: Sequence[TextLine | Table], bookmarks: Iterable[Bookmark]) -> dict[int, int]:
    """Return the level of each line that, alone or with the next ones, is the title of a bookmark of its page."""
    waiting = {(bookmark.page, _folded(bookmark.title)): min(bookmark.level, MAX_LEVELS) for bookmark in bookmarks}
    levels: dict[int, int] = {}
    for index, item in enumerate(items):
        title = ""
        for end, line in enumerate(items[index : index + _TITLE_LINES], start=index + 1):
            if isinstance(line, Table) or line.page != item.page:
                break
            title = extended(title, line.text)
            level = waiting.pop((item.page, _folded(title)), 0)
            if level:
                levels |= dict.fromkeys(range(index, end), level)
                break
    return levels


def _folded(title: str) -> str:
    return _NO_WORD.sub("", title).casefold()


def _continues(group: BlockGroup, item: TextLine | Table, typography: Typography) -> bool:
    """Return whether an item of the same kind continues a group."""
    before = group.items[-1]
    if isinstance(before, Table) or isinstance(item, Table):
        return isinstance(before, Table) and isinstance(item, Table) and _is_continued(before, item)
    step = before.top - item.top
    if group.kind in {BlockKind.TABLE, BlockKind.CODE}:
        return group.kind is BlockKind.TABLE or item.page != before.page or 0 <= step <= _LARGEST_CODE_STEP * item.size
    if group.kind is BlockKind.HEADING:
        return item.page == before.page and item.size == before.size and 0 <= step < _HEADING_STEP * item.size
    if _begins_item(item.text, before.text, group):
        return False
    if item.page != before.page or step < 0:
        # Across a page or column, a paragraph continues with a lower-case letter.
        return item.text[:1].islower() and before.text[-1:] not in _SENTENCE_ENDS
    usual = typography.step if item.drawn else typography.scan_step
    return step <= PARAGRAPH_STEP * usual and abs(item.size - before.size) <= _LARGEST_DIFFERENCE


def _is_continued(before: Table, table: Table) -> bool:
    """Return whether a table on the next page has the same columns."""
    edges = zip(before.edges, table.edges, strict=False)
    alike = len(before.edges) == len(table.edges) and all(abs(one - other) < ALIGNED for one, other in edges)
    return table.page == before.page + 1 and alike


def _begins_item(text: str, before: str, group: BlockGroup) -> bool:
    if BULLET.match(text) or BULLET_ITEM.match(text):
        return True
    # A number may also begin a line in the middle of a sentence, as in "until 3. May".
    first = group.items[0]
    in_list = isinstance(first, TextLine) and is_item(first.text)
    return bool(NUMBER_ITEM.match(text)) and (in_list or before[-1:] in _CLOSED)
