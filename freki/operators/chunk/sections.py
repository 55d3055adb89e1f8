"""The tree of headings."""

from collections.abc import Iterator, Sequence

from freki.operators.chunk.segments import Segment
from freki.schemas.outline import Block, ParsedDocument

MAX_DEPTH = 64
"""Maximum depth of sections; deeper headings become siblings."""
MAX_HEADING_CHARS = 200
"""Maximum characters of a heading in a heading path."""
INNER_HEADINGS = 8
"""Maximum innermost headings in a heading path, after the outermost one."""


class DocumentSection:
    """A heading with its body and subsections; the root has no heading."""

    def __init__(self, heading: Block | None, titles: tuple[str, ...]) -> None:
        self.heading = heading
        self.titles = titles
        """Titles of the enclosing sections and this one, outermost first."""
        self.body: list[Block] = []
        self.children: list[DocumentSection] = []
        self.leaves: list[Segment] = []

    @property
    def level(self) -> int:
        """Level of the heading; 0 without one."""
        return self.heading.heading_level if self.heading else 0

    @property
    def heading_path(self) -> tuple[str, ...]:
        """Titles as stored in chunks: long ones shortened, middle ones of many left out."""
        titles = self.titles
        shown = titles if len(titles) <= INNER_HEADINGS + 1 else (titles[0], *titles[-INNER_HEADINGS:])
        return tuple(shortened(title, MAX_HEADING_CHARS) for title in shown)

    def walk(self) -> Iterator["DocumentSection"]:
        """Yield this section and all below it in reading order."""
        yield self
        for child in self.children:
            yield from child.walk()


def outline(document: ParsedDocument) -> DocumentSection:
    """Return the root of the document's sections, without leaves.

    A heading that no heading path would show in full is also the first block of its section's body.
    """
    open_sections = [DocumentSection(None, ())]
    for block in document.blocks:
        if not (block.heading_level and block.title):
            open_sections[-1].body.append(block)
            continue
        while open_sections[-1].level >= block.heading_level:
            open_sections.pop()
        del open_sections[MAX_DEPTH:]
        section = DocumentSection(block, (*open_sections[-1].titles, block.title))
        open_sections[-1].children.append(section)
        open_sections.append(section)
    root = open_sections[0]
    for section in root.walk():
        if section.heading:
            _keep_heading(section, section.heading)
    return root


def _keep_heading(section: DocumentSection, heading: Block) -> None:
    empty = not section.body
    hidden = empty and len(section.titles) >= INNER_HEADINGS
    alone = empty and not section.children
    if alone or hidden or len(section.titles[-1]) > MAX_HEADING_CHARS:
        section.body.insert(0, heading)
    if alone:
        section.titles = section.titles[:-1]


def shortened(text: str, size: int) -> str:
    """Return at most `size` characters, cut at a word, with an ellipsis."""
    if len(text) <= size:
        return text
    start = text[: size - 1]
    return f"{start.rpartition(' ')[0] or start}…"


def titles_below(section: DocumentSection) -> Sequence[str]:
    """Return the direct subheadings of a section."""
    return [child.heading.title for child in section.children if child.heading]
