"""The beginning of a section, for people who review questions about it."""

from collections.abc import Sequence

from freki.schemas.outline import ParsedDocument


def section_excerpt(document: ParsedDocument, headings: Sequence[str], characters: int) -> str:
    """Return the beginning of the first section with one of these headings, or of the document where there is none.

    At most `characters`, cut at a word, with an ellipsis; runs of blank lines become one line end.
    """
    blocks = [block for block in document.blocks if block.heading_level]
    found = next((block for block in blocks if block.title in headings), None)
    start, end = 0, len(document.text)
    if found is not None:
        start = found.end
        end = next(
            (each.start for each in blocks if each.start >= start and each.heading_level <= found.heading_level), end
        )
    text = document.text[start : min(end, start + 4 * characters)]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = "\n".join(lines)
    if len(shown) <= characters:
        return shown
    return f"{shown[:characters].rpartition(' ')[0] or shown[:characters]} …"
