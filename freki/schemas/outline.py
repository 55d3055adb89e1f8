"""A parsed document: its text and blocks. It stays within one stage and crosses no topic."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType

from freki.schemas.names import record

MAX_ATTRIBUTE_CHARS = 256
"""Maximum characters of an attribute; longer metadata is kept in the text only."""
MAX_ATTRIBUTES = 32
"""Maximum attributes of a document's own; the store takes 64 KiB, and every chunk has them."""
_MAX_NAME_CHARS = 64
PAGES_WITHOUT_TEXT = "pages_without_text"
"""Attribute that lists pages with unreadable content, as "3, 7-9"."""
ATTACHMENTS = "attachments"
"""Attribute that lists files in a mail or PDF that are not read, by their names."""


class BlockKind(StrEnum):
    """Kind of a block. All except HEADING are kinds of chunks too."""

    HEADING = "HEADING"
    PROSE = "PROSE"
    LIST = "LIST"
    TABLE = "TABLE"
    CODE = "CODE"


@record
class Block:
    """A unit of text: a heading, paragraph, list, table or definition."""

    kind: BlockKind
    start: int
    end: int
    """Half-open span in code points of the text. Only headings may be empty: names of definitions in code."""
    heading_level: int = 0
    """Level of a heading, 1 is outermost, gaps are allowed; 0 for other blocks."""
    title: str = ""
    """Heading as plain text on one line; empty for other blocks."""
    seams: tuple[int, ...] = ()
    """Preferred boundaries within the span, ascending: starts of items, rows, definitions."""
    header_end: int = 0
    """End of the header rows of a table, in the text; 0 where there are none, and for other blocks."""


@record
class ParsedDocument:
    """A document as disjoint blocks in reading order, with white space between them."""

    text: str
    """The text that spans refer to: the source with `\\n` line ends, plain text also with broken words joined, Markdown
    with blanks for comments, or the readable text of a page."""
    blocks: tuple[Block, ...]
    title: str | None
    """Title stated by the document; None where it has none."""
    attributes: Mapping[str, str]
    """Metadata of the document, with names in lower case; visible metadata is also part of the text."""
    page_starts: tuple[int, ...] = ()
    """Start of each page, slide or sheet in the text, ascending; a page without text has the offset of the next.
    Empty for formats without pages."""


@record
class Part:
    """A block with its text, without position in a document."""

    kind: BlockKind
    text: str
    heading_level: int = 0
    seams: tuple[int, ...] = ()
    """Preferred boundaries as offsets in this text."""
    header: int = 0
    """Characters of the header rows of a table, with the line end after them; 0: it has none."""
    page: int = 0
    """First page, 0-based."""
    page_breaks: tuple[int, ...] = ()
    """Start of each following page in this text, ascending."""


def stacked(kind: BlockKind, parts: Sequence[Part], *, header_rows: int = 0) -> Part:
    """Return one part of at least one item or row, separated by line ends, with a seam between each two.

    header_rows: so many parts at the beginning are the header of a table; all of them: it has none.
    """
    starts = list(accumulate((len(part.text) + 1 for part in parts), initial=0))
    breaks: list[int] = []
    page = parts[0].page
    for start, part in zip(starts, parts, strict=False):
        breaks += [start] * (part.page - page)
        breaks += [start + offset for offset in part.page_breaks]
        page = part.page + len(part.page_breaks)
    text = "\n".join(part.text for part in parts)
    return Part(
        kind=kind,
        text=text,
        seams=tuple(starts[1:-1]),
        header=starts[header_rows] if header_rows < len(parts) else 0,
        page=parts[0].page,
        page_breaks=tuple(breaks),
    )


def assemble(
    parts: Iterable[Part], *, pages: int = 0, title: str = "", attributes: Mapping[str, str] = MappingProxyType({})
) -> ParsedDocument:
    """Return the document of parts, separated by blank lines; parts without visible text are left out.

    Pages must ascend and be below `pages`. Control characters and lone surrogates become spaces.
    """
    texts: list[str] = []
    blocks: list[Block] = []
    starts: dict[int, int] = {}
    length = 0
    for part in parts:
        text = printable(part.text).rstrip()
        if not text.strip():
            continue
        start = length + 2 if texts else 0
        blocks.append(_placed(part, text, start))
        for page, offset in enumerate((0, *part.page_breaks), start=part.page):
            starts.setdefault(page, start + offset)
        texts.append(text)
        length = start + len(text)
    return ParsedDocument(
        text="\n\n".join(texts),
        blocks=tuple(blocks),
        title=one_line(visible(printable(title))) or None,
        attributes=attributes,
        page_starts=_filled(starts, pages, length),
    )


def concatenated(documents: Iterable[ParsedDocument]) -> ParsedDocument:
    """Return the texts and blocks of documents as one, without title, attributes and pages."""
    texts: list[str] = []
    blocks: list[Block] = []
    length = 0
    for document in documents:
        if document.text:
            offset = length + 2 if texts else 0
            blocks += [_moved(block, offset) for block in document.blocks]
            texts.append(document.text)
            length = offset + len(document.text)
    return ParsedDocument(text="\n\n".join(texts), blocks=tuple(blocks), title=None, attributes={})


def _moved(block: Block, offset: int) -> Block:
    return replace(
        block,
        start=offset + block.start,
        end=offset + block.end,
        seams=tuple(offset + seam for seam in block.seams),
        header_end=offset + block.header_end if block.header_end else 0,
    )


def _placed(part: Part, text: str, start: int) -> Block:
    return Block(
        kind=part.kind,
        start=start,
        end=start + len(text),
        heading_level=part.heading_level,
        title=one_line(text) if part.kind is BlockKind.HEADING else "",
        seams=tuple(start + seam for seam in part.seams if 0 < seam < len(text)),
        header_end=start + part.header if 0 < part.header < len(text) else 0,
    )


def _filled(starts: Mapping[int, int], pages: int, end: int) -> tuple[int, ...]:
    """Return the start of every page; pages without text have the start of the next one."""
    filled = [end] * pages
    for page in reversed(range(pages)):
        filled[page] = starts.get(page, filled[page + 1] if page + 1 < pages else end)
    return tuple(filled)


_VALUE = re.compile(r"[\W\d_]*(?:EUR|USD|GBP|CHF)?[\W\d_]*", re.IGNORECASE)
_MAX_COLUMN_NAME = 80


def header_rows(rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows at the beginning of a table name its columns, 0 to 2.

    The first row does if it has two or more cells, all of them different short texts and none a number, date or amount.
    A title above it, in one cell, belongs to it. Where only the format knows better, such as `<th>`, ask the format.
    """
    filled = [[text for cell in row if (text := cell.strip())] for row in rows[:3]]
    title = int(len(filled) > 2 and len(filled[0]) == 1 and len(filled[1]) > 1)  # noqa: PLR2004 - title, header, a row
    if len(filled) - title < 2:  # noqa: PLR2004 - header and a row
        return 0
    names = filled[title]
    named = len(names) > 1 and len(names) == len(set(names)) and len(names) >= len(filled[title + 1])
    return (
        title + 1
        if named and all(len(name) <= _MAX_COLUMN_NAME and not _VALUE.fullmatch(name) for name in names)
        else 0
    )


_NEL = "\x85"
"""Line end of mainframes: white space to Python, but a token to models, so that a run of it would outgrow any chunk."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Return the text with a space for each control character and lone surrogate, and a line end for each NEL."""
    return _UNPRINTABLE.sub(" ", text).replace(_NEL, "\n")


def tidy(source: str) -> str:
    r"""Return the source without a byte order mark, with every line ended by `\n`."""
    return source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace(_NEL, "\n")


# At a line end a soft hyphen breaks a word, which `join_words` makes whole. Scripts without spaces part words by spaces
# without width, and joiners belong to words, as in Persian; alone between spaces they are padding of newsletters.
_INVISIBLE = re.compile(
    "\u00ad(?!\n)|[\u2060\ufeff]|(?<![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\u200b"
    r"|(?<!\S)[\u034f\u200c\u200d]++(?!\S)"
)


def visible(text: str) -> str:
    """Return the text without soft hyphens and spaces without width, which part words that readers see whole."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def one_line(text: str) -> str:
    """Return the text with white space collapsed to single spaces and stripped."""
    return " ".join(text.split())


def listed(names: Sequence[str]) -> str:
    """Return names as an attribute such as "a.pdf, b.pdf", truncated to its size with their number."""
    shown = [one_line(printable(name)) for name in names]
    text = ", ".join(shown)
    if len(text) <= MAX_ATTRIBUTE_CHARS:
        return text
    end = f", ... ({len(shown)} files)"
    # A name alone may be longer.
    return (text[: MAX_ATTRIBUTE_CHARS - len(end)].rpartition(", ")[0] or text[:_MAX_NAME_CHARS]) + end


def as_attributes(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return fields as attributes: `Post-History` becomes `post_history`.

    Empty and long ones are left out, and of many those after the first 32.
    """
    named = (
        (re.sub(r"\W+", "_", name.strip().lower()).strip("_"), one_line(printable(value))) for name, value in fields
    )
    attributes: dict[str, str] = {}
    for name, value in named:
        is_sized = 0 < len(name) <= _MAX_NAME_CHARS and 0 < len(value) <= MAX_ATTRIBUTE_CHARS
        if is_sized and (name in attributes or len(attributes) < MAX_ATTRIBUTES):
            attributes[name] = value
    return attributes
