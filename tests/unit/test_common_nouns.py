import pytest

from freki.operators.analyse_text.compounds import is_common_noun


@pytest.mark.parametrize("word", ["Breite", "Türbreite", "Handyvertrag", "Miete"])
def test_what_is_made_of_german_nouns_is_no_name(word: str) -> None:
    assert is_common_noun(word)


@pytest.mark.parametrize("word", ["Kubernetes", "TikTok", "Kässtrup"])
def test_what_is_not_may_be_a_name(word: str) -> None:
    assert not is_common_noun(word)


def test_no_long_word_takes_long() -> None:
    # What is quadratic would run into the suite's timeout.
    assert is_common_noun("xq" * 200_000 + "breite")
    assert not is_common_noun("xq" * 200_000)
