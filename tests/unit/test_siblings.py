"""Small sections are joined in groups of adjacent ones, with work in proportion to their number."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.chunk.leaves import Rules, make_leaves
from freki.operators.chunk.sections import outline
from freki.operators.chunk.segments import Minimum, Segment, Size, checksums, join, places
from freki.operators.chunk.siblings import join_small_sections
from freki.schemas.outline import Block, BlockKind, ParsedDocument

LEAST, LIMIT = Minimum(8, 0), Size(24, 200)


def count_tokens(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


class Compared(int):
    """An offset that counts how often offsets are compared."""

    times = 0

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) <= int(other)

    def __gt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) > int(other)

    def __ge__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) >= int(other)


def comparisons(sections: int) -> int:
    """Return how many offsets are compared to join so many small sections of one document."""
    blocks: list[Block] = []
    text = ""
    for number in range(sections):
        heading, body = f"Teil {number}", "Ein Satz.\n"
        start, end = Compared(len(text)), Compared(len(text) + len(heading))
        blocks.append(Block(kind=BlockKind.HEADING, start=start, end=end, heading_level=1, title=heading))
        blocks.append(Block(kind=BlockKind.PROSE, start=Compared(end + 1), end=Compared(end + len(body))))
        text += f"{heading}\n{body}\n"
    root = outline(ParsedDocument(text=text, blocks=tuple(blocks), title=None, attributes={}))
    rules = Rules(least=LEAST, limit=LIMIT, count_tokens=count_tokens, semantics=None)
    make_leaves(text, root, rules)
    Compared.times = 0
    join_small_sections(text, root, rules)
    assert sum(len(section.leaves) for section in root.walk()) < sections
    return Compared.times


def test_joining_ten_times_as_many_sections_is_ten_times_the_work() -> None:
    assert 0 < comparisons(2000) <= 11 * comparisons(200)


@given(
    sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(0, 12)), max_size=40),
    least=st.builds(Minimum, st.integers(0, 20), st.integers(0, 80)),
    limit=st.builds(Size, st.integers(1, 40), st.integers(1, 120)),
)
def test_places_are_those_of_the_segments_within_each_group(
    sizes: list[tuple[int, int, int]], least: Minimum, limit: Size
) -> None:
    edges = list(accumulate((gap + length for gap, length, _ in sizes), initial=0))
    segments = [
        Segment(before + gap, end, tokens, BlockKind.PROSE)
        for (before, end), (gap, _, tokens) in zip(pairwise(edges), sizes, strict=True)
    ]
    text = "abcdefg " * (edges[-1] // 8 + 1)
    groups = join(segments, marks=checksums(text, segments), low=least, high=limit, limit=limit)

    assert [segments[place] for place in places(segments, groups)] == [
        [segment for segment in segments if group.start <= segment.start < group.end] for group in groups
    ]
