"""A parsed document: its text, and what each part of it is. It stays within one stage and crosses no topic."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType

from freki.schemas.names import record

MAX_ATTRIBUTE_CHARS = 256
"""Longer metadata stays in the text only: attributes are for filters."""
PAGES_WITHOUT_TEXT = "pages_without_text"
"""Attribute that names pages which show something, but no text that could be read, as "3, 7-9"."""


class BlockKind(StrEnum):
    """What a block holds. All but HEADING are kinds of a chunk too."""

    HEADING = "HEADING"
    PROSE = "PROSE"
    LIST = "LIST"
    TABLE = "TABLE"
    CODE = "CODE"


@record
class Block:
    """A heading, or a part of the text that reads as one: a paragraph, a list, a table, a definition."""

    kind: BlockKind
    start: int
    end: int
    """Half-open span in code points of the document's text. Only a heading may be empty: a name that code gives."""
    heading_level: int = 0
    """1 is outermost, any gap is fine; 0 for all but headings."""
    title: str = ""
    """A heading as plain text on one line; empty for all but headings."""
    seams: tuple[int, ...] = ()
    """Where the block is best cut, ascending, within its span: starts of items, rows, definitions."""


@record
class ParsedDocument:
    """Blocks in reading order, disjoint; what lies between them is white space."""

    text: str
    """What spans count in: the source with `\\n` line ends, or the readable text of a page."""
    blocks: tuple[Block, ...]
    title: str | None
    """As the document states it; null where it does not."""
    attributes: Mapping[str, str]
    """Metadata that the document states, names in lower case; also in the text where a reader would see it."""
    page_starts: tuple[int, ...] = ()
    """Where each page, slide or sheet begins in the text, ascending; pages without text share an offset with the next.
    Empty where the format has no pages."""


@record
class Part:
    """A block with its text, before it has a place in a document."""

    kind: BlockKind
    text: str
    heading_level: int = 0
    seams: tuple[int, ...] = ()
    """As in a block, but offsets in this text."""
    page: int = 0
    """Page that it begins on, 0-based."""
    page_breaks: tuple[int, ...] = ()
    """Where each following page begins in this text, ascending."""


def stacked(kind: BlockKind, parts: Sequence[Part]) -> Part:
    """Write items or rows below each other, at least one, with a seam between any two."""
    starts = list(accumulate((len(part.text) + 1 for part in parts), initial=0))
    breaks: list[int] = []
    page = parts[0].page
    for start, part in zip(starts, parts, strict=False):
        breaks += [start] * (part.page - page)
        breaks += [start + offset for offset in part.page_breaks]
        page = part.page + len(part.page_breaks)
    text = "\n".join(part.text for part in parts)
    return Part(kind=kind, text=text, seams=tuple(starts[1:-1]), page=parts[0].page, page_breaks=tuple(breaks))


def assemble(
    parts: Iterable[Part], *, pages: int = 0, title: str = "", attributes: Mapping[str, str] = MappingProxyType({})
) -> ParsedDocument:
    """Write parts into one text, parted by blank lines; parts without visible text are left out.

    Their pages ascend and are below `pages`. Control characters and halves of surrogate pairs become spaces.
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
        title=one_line(printable(title)) or None,
        attributes=attributes,
        page_starts=_filled(starts, pages, length),
    )


def _placed(part: Part, text: str, start: int) -> Block:
    return Block(
        kind=part.kind,
        start=start,
        end=start + len(text),
        heading_level=part.heading_level,
        title=one_line(text) if part.kind is BlockKind.HEADING else "",
        seams=tuple(start + seam for seam in part.seams if 0 < seam < len(text)),
    )


def _filled(starts: Mapping[int, int], pages: int, end: int) -> tuple[int, ...]:
    """Give each page its start; those without text begin where the next one does."""
    filled = [end] * pages
    for page in reversed(range(pages)):
        filled[page] = starts.get(page, filled[page + 1] if page + 1 < pages else end)
    return tuple(filled)


_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Return the text with a space for each control character and each half of a surrogate pair."""
    return _UNPRINTABLE.sub(" ", text)


def tidy(source: str) -> str:
    r"""Return the source without a byte order mark, with every line ended by `\n`."""
    return source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def one_line(text: str) -> str:
    """Return the text with every run of white space as one space, none at its ends."""
    return " ".join(text.split())


def as_attributes(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return fields as attributes: `Post-History` becomes `post_history`; empty and long values are left out."""
    named = (
        (re.sub(r"\W+", "_", name.strip().lower()).strip("_"), one_line(printable(value))) for name, value in fields
    )
    return {name: value for name, value in named if name and 0 < len(value) <= MAX_ATTRIBUTE_CHARS}
