"""A parsed document: its text, and what each part of it is. It stays within one stage and crosses no topic."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from freki.schemas.names import record

MAX_ATTRIBUTE_CHARS = 256
"""Longer metadata stays in the text only: attributes are for filters."""


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


def tidy(source: str) -> str:
    r"""Return the source without a byte order mark, with every line ended by `\n`."""
    return source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def one_line(text: str) -> str:
    """Return the text with every run of white space as one space, none at its ends."""
    return " ".join(text.split())


def as_attributes(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return fields as attributes: `Post-History` becomes `post_history`; empty and long values are left out."""
    named = ((re.sub(r"\W+", "_", name.strip().lower()).strip("_"), one_line(value)) for name, value in fields)
    return {name: value for name, value in named if name and 0 < len(value) <= MAX_ATTRIBUTE_CHARS}
