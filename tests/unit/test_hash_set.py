"""A set of texts as large as the index."""

from hypothesis import given
from hypothesis import strategies as st

from freki.streams.hash_set import HashSet

texts = st.lists(st.text(max_size=8), max_size=20)


@given(st.lists(texts, max_size=5), texts)
def test_it_holds_what_was_added_and_nothing_else(added: list[list[str]], others: list[str]) -> None:
    found, expected = HashSet(), set[str]()
    for some in added:
        found.update(some)
        expected.update(some)

    assert all((text in found) == (text in expected) for text in [*expected, *others])


def test_it_holds_what_was_added_before_and_after_a_merge() -> None:
    found = HashSet()
    for start in range(0, 12_000, 500):
        found.update(map(str, range(start, start + 500)))
        found.update(["0"])

    assert all(str(number) in found for number in range(12_000))
    assert not any(str(number) in found for number in range(12_000, 24_000))
