import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.fold import fold

PASSAGE = "Der Antrag ist schriftlich bei der zuständigen Stelle einzureichen, die ihn binnen eines Monats prüft."
texts = st.lists(
    st.lists(st.sampled_from(["der", "antrag", "ist", "neu", "und", "alt", "10", "11"]), max_size=9).map(" ".join),
    max_size=7,
)
likeness = st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0])


def test_the_same_text_is_read_once_whatever_its_case_and_space() -> None:
    assert fold(["Die Katze", "die  katze\n", "Der Hund", "DIE KATZE"]) == [0, 0, 2, 0]


def test_similar_texts_fold_only_where_that_is_asked_for() -> None:
    other = PASSAGE.replace("schriftlich ", "")

    assert fold([PASSAGE, other]) == [0, 1]
    assert fold([PASSAGE, other], likeness=0.6) == [0, 0]


def test_texts_with_other_numbers_are_never_the_same() -> None:
    first, second = f"{PASSAGE} Die Gebühr beträgt 10 Euro.", f"{PASSAGE} Die Gebühr beträgt 12 Euro."

    assert fold([first, second], likeness=0.5) == [0, 1]
    assert fold([first, first.replace("Gebühr", "Abgabe")], likeness=0.5) == [0, 0]


def test_likeness_is_the_jaccard_index_of_three_words() -> None:
    # a b c, b c d, c d e against a b c, b c d, c d f: 2 of 4
    assert fold(["a b c d e", "a b c d f"], likeness=0.5) == [0, 0]
    assert fold(["a b c d e", "a b c d f"], likeness=0.51) == [0, 1]


def test_a_likeness_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="likeness"):
        fold([], likeness=1.5)


@given(texts=texts, likeness=likeness)
def test_folding_again_changes_nothing(texts: list[str], likeness: float) -> None:
    stands = fold(texts, likeness=likeness)
    kept = [text for place, text in enumerate(texts) if stands[place] == place]

    assert fold(kept, likeness=likeness) == list(range(len(kept)))


@given(texts=texts, likeness=likeness)
def test_whatever_folds_is_stood_for_by_one_that_stays_and_came_before(texts: list[str], likeness: float) -> None:
    stands = fold(texts, likeness=likeness)

    assert all(stands[stands[place]] == stands[place] <= place for place in range(len(texts)))


@given(texts=texts)
def test_the_same_texts_always_fold_and_others_never_at_1(texts: list[str]) -> None:
    stands = fold(texts)

    assert len({stands[place] for place in range(len(texts))}) == len(set(texts))
