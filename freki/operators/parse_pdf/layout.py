"""What the lines and tables of a PDF are to a reader: headings, paragraphs, lists, tables."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from freki.operators.parse_pdf.lines import Line, extended, joined, vocabulary
from freki.operators.parse_pdf.tables import Table
from freki.schemas.outline import BlockKind, Part, stacked

Style = tuple[float, bool]
"""Size in points, and whether it is bold."""

_MAX_LEVELS = 6
_MAX_HEADING_CHARS = 200
_MAX_HEADING_SHARE = 0.25
"""Of all characters: a style that more of them have is none of headings."""
_LARGER = 0.5
"""Points above the body that make a heading."""
_SMALLEST_BOLD = 0.6
"""Of the body's size: bold text below it is a label in a drawing."""
_PARAGRAPH_STEP = 1.35
"""Times the usual step from line to line: a larger one ends a paragraph."""
_HEADING_STEP = 1.6
"""Times the size of its font, from line to line of one heading."""
_LARGEST_USUAL_STEP = 4
"""Times the body's size."""
_ALIGNED = 2.0
"""Points: cells of one column begin no further apart."""
_LEAST_ROWS = 3
"""Of a table without rules: two lines that align may do so by chance."""
_MAX_FIXED_SHARE = 0.9
"""Of all characters: more of them in fonts of one width are a typewriter's, and no code."""
_LARGEST_CODE_STEP = 4.0
"""Times the size of its font, from line to line of one piece of code."""
_MAX_CODE_INDENT = 80
_LEAST_RUNNING_PAGES = 3
_TITLE_LINES = 3
_LARGEST_DIFFERENCE = 1.5
"""Points, between the fonts of lines of one paragraph."""
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]|§")
_NO_WORD = re.compile(r"\W+")
_BULLET = re.compile(r"[•▪◦‣●○■□\ue000-\uf8ff]\s*")
_BULLET_ITEM = re.compile(r"[-–*]\s")
_NUMBER_ITEM = re.compile(r"(?:\(?\d{1,3}[.)]|\(?[a-z]\))\s")
_CLOSED = frozenset(".:;!?,")


class Bookmark(NamedTuple):
    """A title that a PDF lists for navigation."""

    title: str
    page: int
    """0-based."""
    level: int
    """1 is outermost."""


class _Look(NamedTuple):
    """How the text of a document looks for the most part."""

    levels: Mapping[Style, int]
    """Heading level of each style that is one of headings."""
    step: float
    """Points from line to line."""


class _Group(NamedTuple):
    """Lines or tables that are one block."""

    kind: BlockKind
    number: int
    """Level of a heading, or run of rows without rules; 0 for all else."""
    items: list[Line | Table]


def layout(items: Iterable[Line | Table], bookmarks: Iterable[Bookmark], *, pages: int) -> Iterator[Part]:
    """Yield what the lines and tables of all pages are, in reading order."""
    shown = _without_running_heads(list(items), pages)
    known = vocabulary(item.text for item in shown if isinstance(item, Line))
    parts = [_part(group, known) for group in _groups(shown, bookmarks)]
    for kind, same in groupby(parts, key=lambda part: part.kind):
        run = list(same)
        yield from [stacked(kind, run)] if kind is BlockKind.LIST else run


def _groups(items: Sequence[Line | Table], bookmarks: Iterable[Bookmark]) -> list[_Group]:
    look = _look([item for item in items if isinstance(item, Line)])
    code, titles = _code(items, look.step), _titles(items, bookmarks)
    runs = {index: run for index, run in _runs(items).items() if index not in code}
    groups: list[_Group] = []
    for index, item in enumerate(items):
        level = 0 if isinstance(item, Table) else titles.get(index, look.levels.get(_style(item), 0))
        if isinstance(item, Table) or index in runs:
            kind, number = BlockKind.TABLE, runs.get(index, 0)
        elif index in code and index not in titles:
            kind, number = BlockKind.CODE, 0
        else:
            kind, number = (BlockKind.HEADING if level else BlockKind.PROSE), level
        if groups and groups[-1][:2] == (kind, number) and _continues(groups[-1], item, look):
            groups[-1].items.append(item)
        else:
            groups.append(_Group(kind, number, [item]))
    return groups


def _without_running_heads(items: Sequence[Line | Table], pages: int) -> list[Line | Table]:
    """Leave out lines that stand at the same height of most pages, and differ by numbers at most."""
    keys = [_running_key(item) for item in items]
    met = {(key, item.page) for key, item in zip(keys, items, strict=True) if key}
    seen = Counter(key for key, _ in met)
    most = max(pages / 2, _LEAST_RUNNING_PAGES - 1)
    return [item for key, item in zip(keys, items, strict=True) if not key or seen[key] <= most]


def _running_key(item: Line | Table) -> tuple[str, int] | None:
    return None if isinstance(item, Table) else (_DIGITS.sub("0", item.text), round(item.top))


def _style(line: Line) -> Style:
    return line.size, line.bold


def _look(lines: Sequence[Line]) -> _Look:
    """Find the body, and rank the styles of headings: larger ones, and those as large that are bold."""
    characters: Counter[Style] = Counter()
    for line in lines:
        characters[_style(line)] += len(line.text)
    sizes: Counter[float] = Counter()
    for (size, _), count in characters.items():
        sizes[size] += count
    body = max(sizes, key=lambda size: (sizes[size], size), default=0.0)
    body_bold = characters[body, True] > characters[body, False]
    styles = sorted(
        (
            (size, bold)
            for (size, bold), count in characters.items()
            if count < _MAX_HEADING_SHARE * characters.total()
            and (size > body + _LARGER or (bold and not body_bold and size > _SMALLEST_BOLD * body))
        ),
        reverse=True,
    )
    steps = Counter(
        round(before.top - line.top)
        for before, line in pairwise(lines)
        if before.page == line.page and 0 < before.top - line.top < _LARGEST_USUAL_STEP * body
    )
    step = max(steps, key=lambda step: (steps[step], -step), default=body)
    return _Look({style: min(rank, _MAX_LEVELS) for rank, style in enumerate(styles, start=1)}, step)


def _code(items: Sequence[Line | Table], step: float) -> set[int]:
    """Return the lines that are code: those in fonts of one width, where they are no words within a paragraph."""
    lines = [item for item in items if isinstance(item, Line)]
    share = sum(len(line.text) for line in lines if line.pitch) / max(sum(len(line.text) for line in lines), 1)
    code: set[int] = set()
    for is_fixed, run in groupby(range(len(items)), key=lambda index: _is_fixed(items[index])):
        indices = list(run)
        if is_fixed and share <= _MAX_FIXED_SHARE and (len(indices) > 1 or _stands_alone(items, indices[0], step)):
            code.update(indices)
    return code


def _is_fixed(item: Line | Table) -> bool:
    return isinstance(item, Line) and item.pitch > 0


def _stands_alone(items: Sequence[Line | Table], index: int, step: float) -> bool:
    """Say whether a line is a paragraph of its own."""
    return not any(
        isinstance(upper, Line)
        and isinstance(lower, Line)
        and upper.page == lower.page
        and 0 <= upper.top - lower.top <= _PARAGRAPH_STEP * step
        for upper, lower in pairwise(items[max(0, index - 1) : index + 2])
    )


def _runs(items: Sequence[Line | Table]) -> dict[int, int]:
    """Number the runs of lines that share a column beyond the first, as the rows of a table without rules do."""
    runs: dict[int, int] = {}
    start = 0
    for index in range(1, len(items) + 1):
        if index < len(items) and _aligned(items[index - 1], items[index]):
            continue
        if index - start >= _LEAST_ROWS:
            runs |= dict.fromkeys(range(start, index), index)
        start = index
    return runs


def _aligned(before: Line | Table, line: Line | Table) -> bool:
    if isinstance(before, Table) or isinstance(line, Table) or before.page != line.page:
        return False
    # In justified text no word beyond the first stands below another's beginning but by chance.
    return any(abs(one - other) < _ALIGNED for one in before.starts[1:] for other in line.starts[1:])


def _titles(items: Sequence[Line | Table], bookmarks: Iterable[Bookmark]) -> dict[int, int]:
    """Return the level of each line that is, alone or with the next ones, a title among the bookmarks of its page."""
    waiting = {(bookmark.page, _folded(bookmark.title)): min(bookmark.level, _MAX_LEVELS) for bookmark in bookmarks}
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


def _continues(group: _Group, item: Line | Table, look: _Look) -> bool:
    """Say whether an item of the same kind goes on with a group."""
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
        # Over the end of a page or column a paragraph goes on in a small letter.
        return item.text[:1].islower() and before.text[-1:] not in _CLOSED
    return step <= _PARAGRAPH_STEP * look.step and abs(item.size - before.size) <= _LARGEST_DIFFERENCE


def _is_continued(before: Table, table: Table) -> bool:
    """Say whether a table on the next page has the same columns."""
    edges = zip(before.edges, table.edges, strict=False)
    alike = len(before.edges) == len(table.edges) and all(abs(one - other) < _ALIGNED for one, other in edges)
    return table.page == before.page + 1 and alike


def _begins_item(text: str, before: str, group: _Group) -> bool:
    if _BULLET.match(text) or _BULLET_ITEM.match(text):
        return True
    # A number may also begin a line in the middle of a sentence, as in "until 3. May".
    first = group.items[0]
    in_list = isinstance(first, Line) and _is_item(first.text)
    return bool(_NUMBER_ITEM.match(text)) and (in_list or before[-1:] in _CLOSED)


def _is_item(text: str) -> bool:
    return any(sign.match(text) for sign in (_BULLET, _BULLET_ITEM, _NUMBER_ITEM))


def _part(group: _Group, known: Container[str]) -> Part:
    lines = [item for item in group.items if isinstance(item, Line)]
    if group.kind is BlockKind.TABLE:
        return _table(group.items)
    if group.kind is BlockKind.CODE:
        return stacked(BlockKind.CODE, list(_code_lines(lines)))
    text = joined((line.text for line in lines), known)
    if group.kind is BlockKind.HEADING and len(text) <= _MAX_HEADING_CHARS and _WORD.search(text):
        return Part(kind=BlockKind.HEADING, text=text, heading_level=group.number, page=lines[0].page)
    kind = BlockKind.LIST if _is_item(text) else BlockKind.PROSE
    lines[0] = lines[0]._replace(
        text=_BULLET.sub("- ", lines[0].text, count=1) if _BULLET.match(text) else lines[0].text
    )
    return _paragraph(lines, kind, known)


def _code_lines(lines: Sequence[Line]) -> Iterator[Part]:
    """Yield lines with their indentation, and an empty one where there is room for it."""
    margins: dict[int, float] = {}
    for line in lines:
        margins[line.page] = min(line.left, margins.get(line.page, line.left))
    usual = min((step for step in _steps(lines) if step > 0), default=0.0)
    for before, line in zip([lines[0], *lines], lines, strict=False):
        if before.page == line.page and before.top - line.top > _PARAGRAPH_STEP * usual:
            yield Part(kind=BlockKind.CODE, text="", page=line.page)
        indent = min(round((line.left - margins[line.page]) / line.pitch), _MAX_CODE_INDENT)
        yield Part(kind=BlockKind.CODE, text=" " * indent + line.text, page=line.page)


def _steps(lines: Sequence[Line]) -> Iterator[float]:
    return (before.top - line.top for before, line in pairwise(lines) if before.page == line.page)


def _paragraph(lines: Sequence[Line], kind: BlockKind, known: Container[str]) -> Part:
    text = ""
    breaks: list[int] = []
    page = lines[0].page
    for line in lines:
        text = extended(text, line.text, known)
        breaks += [len(text) - len(line.text)] * (line.page - page)
        page = line.page
    return Part(kind=kind, text=text, page=lines[0].page, page_breaks=tuple(breaks))


def _table(items: Sequence[Line | Table]) -> Part:
    """Write rows below each other; a head that each page repeats is written once."""
    head = items[0].rows[0] if isinstance(items[0], Table) else ""
    rows: list[Part] = []
    for item in items:
        texts = list(item.rows) if isinstance(item, Table) else [" | ".join(item.cells)]
        repeated = int(bool(rows) and texts[0] == head)
        rows += [Part(kind=BlockKind.TABLE, text=text, page=item.page) for text in texts[repeated:]]
    return stacked(BlockKind.TABLE, rows)
