"""Extractive summary of a document or section that is longer than a chunk."""

from collections.abc import Iterator
from itertools import islice, pairwise

from freki.operators.chunk.sections import DocumentSection, shortened, titles_below
from freki.operators.chunk.segments import Segment
from freki.operators.chunk.sentences import sentence_ends
from freki.schemas.outline import BlockKind, one_line

MAX_CHARS = 240
"""Maximum characters of a summary, about 60 tokens; half of it for subheadings where there are any."""
_LEAVES = 4
_TITLES = 40


def extract(text: str, section: DocumentSection) -> str:
    """Return the first sentences of the first four leaves, then the direct subheadings.

    Only an edit near the beginning of the section, or of these headings, changes it.
    """
    inner = section
    while is_wrapper(inner):
        inner = inner.children[0]
    headings = shortened("; ".join(titles_below(inner)[:_TITLES]), MAX_CHARS // 2)
    below = f"\n{headings}" if headings else ""
    return (_lead(text, section, MAX_CHARS - len(below)) + below).lstrip("\n")


def is_wrapper(section: DocumentSection) -> bool:
    """Return whether all but at most one leaf of a section stand in a single one below it."""
    return len(section.children) == 1 and len(section.leaves) <= 1


def _lead(text: str, section: DocumentSection, room: int) -> str:
    leaves = list(islice(_leaves(section), _LEAVES))
    prose = [leaf for leaf in leaves if leaf.kind is BlockKind.PROSE] or leaves
    sentences: list[str] = []
    for leaf in prose:
        sentence = _first_sentence(one_line(text[leaf.start : leaf.end]))
        if sentences and len(sentence) > room:
            break
        sentences.append(shortened(sentence, room))
        room -= len(sentences[-1]) + 1
    return " ".join(sentences)


def _leaves(section: DocumentSection) -> Iterator[Segment]:
    return (leaf for each in section.walk() for leaf in each.leaves)


def _first_sentence(line: str) -> str:
    start, end = next(pairwise([0, *islice(sentence_ends(line, 0, len(line)), 1), len(line)]))
    return line[start:end].rstrip()
