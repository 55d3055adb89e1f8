"""The beginning of a section, for people who review questions about it."""

from collections.abc import Sequence

from freki.schemas.outline import Block, BlockKind, ParsedDocument, one_line


def section_excerpt(document: ParsedDocument, headings: Sequence[str], characters: int) -> str:
    """Return the beginning of the first section with one of these headings, or of the document where there is none.

    At most `characters`, cut at a word, with an ellipsis. Paragraphs are on one line each, of lists, tables and code
    the lines stay.
    """
    found = next((block for block in document.blocks if block.heading_level and block.title in headings), None)
    shown: list[str] = []
    length = 0
    for block in document.blocks:
        if found is not None:
            if block.start < found.end:
                continue
            if 0 < block.heading_level <= found.heading_level:
                break
        shown.append(_written(document.text, block))
        length += len(shown[-1])
        if length > characters:
            break
    text = "\n".join(filter(None, shown))
    if len(text) <= characters:
        return text
    return f"{text[:characters].rpartition(' ')[0] or text[:characters]} …"


def _written(text: str, block: Block) -> str:
    if block.heading_level:
        return block.title
    own = text[block.start : block.end]
    lines = [line.rstrip() for line in own.splitlines() if line.strip()]
    return one_line(own) if block.kind is BlockKind.PROSE else "\n".join(lines)
