"""What holds for every parsed document."""

from itertools import pairwise

from freki.schemas.outline import Block, BlockKind, ParsedDocument


def assert_outline(document: ParsedDocument) -> None:
    """Check that blocks are ordered, disjoint, hold all that is visible, and have their seams within."""
    at = 0
    for block in document.blocks:
        assert at <= block.start <= block.end <= len(document.text)
        assert not document.text[at : block.start].strip()
        assert block.start < block.end or block.kind is BlockKind.HEADING
        assert (block.kind is BlockKind.HEADING) == (block.heading_level > 0) == bool(block.title)
        assert list(block.seams) == sorted(set(block.seams))
        assert all(block.start < seam < block.end for seam in block.seams)
        at = block.end
    assert not document.text[at:].strip()


def texts(document: ParsedDocument, kind: BlockKind) -> list[str]:
    """Return the texts of the blocks of one kind."""
    return [_text(document, block) for block in document.blocks if block.kind is kind]


def headings(document: ParsedDocument) -> list[tuple[int, str]]:
    """Return level and title of each heading."""
    return [(block.heading_level, block.title) for block in document.blocks if block.kind is BlockKind.HEADING]


def parts(document: ParsedDocument, block: Block) -> list[str]:
    """Return what stands between the seams of a block, stripped."""
    edges = [block.start, *block.seams, block.end]
    return [document.text[start:end].strip() for start, end in pairwise(edges)]


def _text(document: ParsedDocument, block: Block) -> str:
    return document.text[block.start : block.end]
