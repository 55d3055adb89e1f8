"""The outline of a reStructuredText document."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from freki.schemas.outline import Block, BlockKind, ParsedDocument, as_attributes, one_line, tidy, visible

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\Z")
_HEADER = re.compile(r"\s*((?:[A-Za-z][\w-]*:(?:[ \t].*)?\n(?:[ \t]+\S.*\n)*){2,})(?:[ \t]*\n|\Z)")
_FIELD = re.compile(r"^([A-Za-z][\w-]*):(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)
_ITEM = re.compile(r"(?:[-*+•]|\d{1,4}[.)]|#\.|\(\w{1,4}\)|:[^:\s][^:]*:)(?:\s|\Z)")
_DIRECTIVE = re.compile(r"\.\. ([\w-]+)::")
_LISTED_ROW = re.compile(r"\s+\* - ")
_HEADER_ROWS = re.compile(r"\s+:header-rows:\s*(\d{1,3})\Z", re.ASCII)
_HEADER_FIELD = re.compile(r"\s+:header:\s")
_QUOTE = re.compile(r"\s+:quote:\s*(\S)\Z")
_TABLE_EDGE = re.compile(r"\+[-+]+\+\Z|=+(?: +=+)+\Z")
_HEADER_EDGE = re.compile(r"\+(?:=+\+)+\Z|=+(?: +=+)+\Z")
_MARKUP = re.compile(r"(?::[\w:+-]+:)?`([^`<]+)(?:<[^`>]*>)?`_{0,2}|``([^`]+)``|\*{1,2}([^*]+)\*{1,2}")
_DIRECTIVE_KINDS = dict.fromkeys(
    ("code", "code-block", "sourcecode", "parsed-literal", "doctest", "testcode", "math"), BlockKind.CODE
) | dict.fromkeys(("table", "csv-table", "list-table"), BlockKind.TABLE)
_SURE_ADORNMENT = 4
_LONGEST_MARKED_TITLE = 500


def parse_rst(source: str) -> ParsedDocument:
    """Parse reStructuredText into headings, paragraphs, lists, tables and code.

    The first style of headings is level 1, the next new one level 2, and so on. Directives and comments are blocks
    including their indented content. A header of `Name: value` lines, as in PEPs, is a LIST; its
    `Title` gives the title, the others attributes. Without it the first heading is the title.
    """
    text = visible(tidy(source))
    header = _HEADER.match(text)
    fields = _FIELD.findall(header.group(1)) if header else []
    blocks = [_header_block(header)] if header else []
    blocks += _blocks(text, header.end() if header else 0)
    stated = next((one_line(value) for name, value in fields if name.lower() == "title"), None)
    first = next((block.title for block in blocks if block.kind is BlockKind.HEADING), None)
    attributes = as_attributes((name, value) for name, value in fields if name.lower() != "title")
    return ParsedDocument(text=text, blocks=tuple(blocks), title=stated or first, attributes=attributes)


def _header_block(header: re.Match[str]) -> Block:
    start, end = header.span(1)
    seams = tuple(field.start() for field in _FIELD.finditer(header.string, start, end))[1:]
    return Block(kind=BlockKind.LIST, start=start, end=start + len(header.group(1).rstrip()), seams=seams)


class _Part(NamedTuple):
    """A block as a range of lines, `end` exclusive."""

    kind: BlockKind
    end: int
    seams: list[int]
    header_end: int = 0
    """Line after the header of a table; 0: it has none."""


class _Heading(NamedTuple):
    title: str
    style: str
    end: int


def _blocks(text: str, body_start: int) -> Iterator[Block]:
    body = text[body_start:].split("\n")
    starts = list(accumulate((len(line) + 1 for line in body), initial=body_start))
    lines = [line.rstrip() for line in body]
    styles: list[str] = []
    at, literal = 0, False
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        heading = _heading(lines, at)
        if heading:
            if heading.style not in styles:
                styles.append(heading.style)
            level, title, part = (
                styles.index(heading.style) + 1,
                heading.title,
                _Part(BlockKind.HEADING, heading.end, []),
            )
        else:
            level, title, part = 0, "", _literal(lines, at) if literal and lines[at][0].isspace() else _part(lines, at)
        last = part.end - 1
        literal = part.kind is BlockKind.PROSE and lines[last].endswith("::")
        yield Block(
            kind=part.kind,
            start=starts[at],
            end=starts[last] + len(lines[last]),
            heading_level=level,
            title=title,
            seams=tuple(starts[seam] for seam in part.seams if at < seam < part.end),
            header_end=starts[part.header_end] if part.header_end else 0,
        )
        at = part.end


def _heading(lines: Sequence[str], at: int) -> _Heading | None:
    """Return an underlined title, or one with overline and underline."""
    first, second, third = (lines[line] if line < len(lines) else "" for line in (at, at + 1, at + 2))
    if _adorns(first, second) and second and first == third:
        return _Heading(_plain_title(second), "over" + first[0], at + 3)
    if _adorns(second, first) and not first[0].isspace() and not _ADORNMENT.match(first):
        return _Heading(_plain_title(first), second[0], at + 2)
    return None


def _adorns(line: str, title: str) -> bool:
    return bool(_ADORNMENT.match(line)) and len(line) >= min(len(title), _SURE_ADORNMENT)


def _part(lines: Sequence[str], at: int) -> _Part:
    first = lines[at].lstrip()
    if first == ".." or first.startswith(".. "):
        directive = _DIRECTIVE.match(first)
        name = directive.group(1) if directive else ""
        kind = _DIRECTIVE_KINDS.get(name, BlockKind.PROSE)
        end = _indented_end(lines, at, _indent(lines[at]) + 1)
        return _stated_table(name, lines, at, end) if kind is BlockKind.TABLE else _Part(kind, end, [])
    if _ITEM.match(first):
        return _list(lines, at)
    if _TABLE_EDGE.match(first):
        return _table(lines, at)
    return _Part(BlockKind.CODE if first.startswith(">>> ") else BlockKind.PROSE, _blank_end(lines, at), [])


def _stated_table(name: str, lines: Sequence[str], at: int, end: int) -> _Part:
    """Return the table of a named directive, with the header rows that its options state, or of the grid in it."""
    content = next((line for line in range(at + 1, end) if not lines[line]), end)
    if name == "table":
        first = _next_text(lines, content)
        grid = lines[first:end]
        if not grid or not _TABLE_EDGE.match(grid[0].lstrip()):
            return _Part(BlockKind.TABLE, end, [])
        table = _table(grid, 0)
        seams = [first + row for row in table.seams if row]
        return _Part(BlockKind.TABLE, end, seams, first + table.header_end if table.header_end else 0)
    of_list = name == "list-table"
    rows = _listed_rows(lines, at + 1, end) if of_list else _comma_rows(lines, content, end, options=at + 1)
    stated = next((int(found.group(1)) for line in lines[at + 1 : end] if (found := _HEADER_ROWS.match(line))), 0)
    has_header = stated or (not of_list and any(map(_HEADER_FIELD.match, lines[at + 1 : content])))
    # The first row is not separated from its header.
    return _Part(BlockKind.TABLE, end, rows[stated + 1 :], rows[stated] if has_header and stated < len(rows) else 0)


def _listed_rows(lines: Sequence[str], at: int, end: int) -> list[int]:
    """Return the first lines of rows that are the items of a list."""
    rows = [line for line in range(at, end) if _LISTED_ROW.match(lines[line])]
    return [row for row in rows if _indent(lines[row]) == _indent(lines[rows[0]])]


def _comma_rows(lines: Sequence[str], at: int, end: int, *, options: int) -> list[int]:
    """Return the first lines of rows of separated values; a quoted value may have several lines."""
    quote = next((found.group(1) for line in lines[options:at] if (found := _QUOTE.match(line))), '"')
    rows: list[int] = []
    quoted = False
    for line in range(at, end):
        if lines[line] and not quoted:
            rows.append(line)
        quoted ^= lines[line].count(quote) % 2 == 1
    return rows


def _literal(lines: Sequence[str], at: int) -> _Part:
    return _Part(BlockKind.CODE, _indented_end(lines, at, _indent(lines[at])), [])


def _list(lines: Sequence[str], at: int) -> _Part:
    indent = _indent(lines[at])
    items = [at]
    end = _indented_end(lines, at, indent + 1)
    following = _next_text(lines, end)
    while following < len(lines) and _indent(lines[following]) == indent and _ITEM.match(lines[following].lstrip()):
        items.append(following)
        end = _indented_end(lines, following, indent + 1)
        following = _next_text(lines, end)
    return _Part(BlockKind.LIST, end, items)


def _table(lines: Sequence[str], at: int) -> _Part:
    """Return a table up to the border before a blank line; simple tables may contain blank lines."""
    simple = lines[at].lstrip().startswith("=")
    end = _blank_end(lines, at)
    while simple and end < len(lines) and (not _TABLE_EDGE.match(lines[end - 1].lstrip()) or end == at + 1):
        following = _next_text(lines, end)
        if following == len(lines) or _indent(lines[following]) < _indent(lines[at]):
            break
        end = _blank_end(lines, following)
    rows = [line for line in range(at, end) if lines[line] and _starts_row(lines, line)]
    return _Part(BlockKind.TABLE, end, rows, _header_end(lines, at, end, simple=simple))


def _header_end(lines: Sequence[str], at: int, end: int, *, simple: bool) -> int:
    """Return the line after the border below the header: of equals signs, in a simple table the second of three."""
    borders = [line for line in range(at, end) if _HEADER_EDGE.match(lines[line].lstrip())]
    if simple:
        return borders[1] + 1 if len(borders) > 2 else 0  # noqa: PLR2004 - above, below the header, below the rows
    return borders[0] + 1 if borders and borders[0] + 1 < end else 0


def _starts_row(lines: Sequence[str], line: int) -> bool:
    """Return whether a grid row starts at this line."""
    return not lines[line].lstrip().startswith(("|", "+")) or lines[line - 1].lstrip().startswith("+-")


def _blank_end(lines: Sequence[str], at: int) -> int:
    return next((line for line in range(at, len(lines)) if not lines[line]), len(lines))


def _indented_end(lines: Sequence[str], at: int, indent: int) -> int:
    """Return the end of the line `at` and of all below it that are blank or indented, without blank ones at the end."""
    end = at + 1
    for line in range(at + 1, len(lines)):
        if lines[line]:
            if _indent(lines[line]) < indent:
                break
            end = line + 1
    return end


def _next_text(lines: Sequence[str], at: int) -> int:
    return next((line for line in range(at, len(lines)) if lines[line]), len(lines))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _plain_title(marked: str) -> str:
    if len(marked) > _LONGEST_MARKED_TITLE:
        return one_line(marked)
    return one_line(_MARKUP.sub(lambda match: next(text for text in match.groups() if text), marked))
