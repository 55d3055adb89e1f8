"""Agreement of two rankings."""

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.evaluate import Overlap, overlap
from freki.schemas import DocumentId

rankings = st.lists(st.sampled_from("abcdef").map(DocumentId), unique=True)


def names(text: str) -> list[DocumentId]:
    return [DocumentId(name) for name in text]


def test_documents_count_that_both_have_among_their_first_ones() -> None:
    assert overlap(names("abcx"), names("bcdx"), depth=3) == Overlap(same_first=False, shared=0.5)
    assert overlap(names("ab"), names("a"), depth=3) == Overlap(same_first=True, shared=0.5)
    assert overlap([], names("a"), depth=3) == Overlap(same_first=False, shared=0.0)


@given(rankings, rankings, st.integers(1, 6))
def test_it_does_not_matter_which_ranking_is_named_first(
    one: list[DocumentId], other: list[DocumentId], depth: int
) -> None:
    assert overlap(one, other, depth=depth) == overlap(other, one, depth=depth)
    assert overlap(one, one, depth=depth) == Overlap(same_first=True, shared=1.0)
