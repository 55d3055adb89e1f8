from hypothesis import given
from hypothesis import strategies as st

from freki.operators.deduplicate import deduplicate

texts = st.lists(st.sampled_from(["Haus", "haus ", "HAUS", "Maus", " Maus\n", "Straße", "STRASSE", ""]), max_size=8)


def test_the_first_of_equal_texts_stays() -> None:
    kept = deduplicate(["Die Katze", "die  katze\n", "Der Hund", "DIE KATZE"])

    assert kept == [0, 2]


def test_similar_texts_both_stay() -> None:
    assert deduplicate(["Version 1", "Version 2"]) == [0, 1]


@given(texts=texts)
def test_what_stays_keeps_its_order_and_has_no_equals(texts: list[str]) -> None:
    kept = deduplicate(texts)

    assert kept == sorted(kept)
    assert deduplicate([texts[place] for place in kept]) == list(range(len(kept)))
    assert {" ".join(text.casefold().split()) for text in texts} == {
        " ".join(texts[place].casefold().split()) for place in kept
    }
