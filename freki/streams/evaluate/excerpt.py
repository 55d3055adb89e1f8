"""The beginning of a section, for people who review questions about it."""

from collections.abc import Sequence

from freki.schemas.outline import ParsedDocument


def section_excerpt(document: ParsedDocument, headings: Sequence[str], characters: int) -> str:
    """Return the beginning of the first section with one of these headings, or of the document where there is none.

    At most `characters`, cut at a word, with an ellipsis; runs of blank lines become one line end.
    """
    starts = (block.end for block in document.blocks if block.heading_level and block.title in headings)
    start = next(starts, 0)
    text = document.text[start : start + 4 * characters]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = "\n".join(lines)
    if len(shown) <= characters:
        return shown
    return f"{shown[:characters].rpartition(' ')[0] or shown[:characters]} …"
