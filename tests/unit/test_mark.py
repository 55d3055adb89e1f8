import itertools

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.mark import mark

words = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.sets(st.sampled_from("abc"))), max_size=20)


@given(words, st.sets(st.sampled_from("abc")))
def test_marks_are_the_words_that_share_a_term_in_order_and_apart(
    found: list[tuple[int, int, set[str]]], terms: set[str]
) -> None:
    places, at = [], 0
    for gap, length, own in found:
        at += gap
        places.append((at, at + length, own))
        at += length

    marks = mark(places, terms)

    marked = {place for each in marks for place in range(each.start, each.end)}
    assert marked == {at for start, end, own in places if own & terms for at in range(start, end)}
    assert all(first.end < second.start for first, second in itertools.pairwise(marks))
