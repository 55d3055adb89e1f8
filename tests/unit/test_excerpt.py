import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_text import analyse_text, query_terms, term_places
from freki.operators.excerpt import Match, excerpt

WORDS = ("amt", "frist", "gebühr", "der", "und", "im", "日本語", "x" * 30)
texts = st.lists(st.sampled_from([*WORDS, "\n", " ", ". "]), max_size=60).map(" ".join)
asked = st.frozensets(st.sampled_from(WORDS[:3]), max_size=3)


def matches(text: str, terms: frozenset[str]) -> list[Match]:
    return [
        Match(found.start(), found.end(), frozenset({found[0]}))
        for found in re.finditer(r"\w+", text)
        if found[0] in terms
    ]


@given(text=texts, terms=asked, room=st.integers(1, 80), most=st.integers(1, 4))
def test_snippets_are_disjoint_parts_of_the_text_in_reading_order_within_the_limits(
    text: str, terms: frozenset[str], room: int, most: int
) -> None:
    found = excerpt(text, matches(text, terms), max_characters=room, most=most)

    assert all(each.text == text[each.start : each.end] == each.text.strip() != "" for each in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert len(found) <= most
    assert all(len(each.text) <= room for each in found)


@given(text=texts, terms=asked, room=st.integers(30, 80))
def test_every_term_of_the_text_is_shown_where_there_is_a_snippet_for_each(
    text: str, terms: frozenset[str], room: int
) -> None:
    found = excerpt(text, matches(text, terms), max_characters=room, most=len(WORDS))

    shown = set(re.findall(r"\w+", " ".join(each.text for each in found)))
    assert {term for term in terms if term in text.split()} <= shown


@given(text=texts, terms=asked, room=st.integers(1, 80))
def test_every_snippet_shows_a_match_where_the_text_is_longer_and_has_one(
    text: str, terms: frozenset[str], room: int
) -> None:
    places = matches(text, terms)

    found = excerpt(text, places, max_characters=room)

    if places and len(text) > room:
        assert found
        assert all(any(each.start < place.end and place.start < each.end for place in places) for each in found)


@given(text=texts)
def test_a_text_without_matches_gives_its_beginning_and_one_without_letters_nothing(text: str) -> None:
    found = excerpt(text, [], max_characters=40)

    assert [text.strip().startswith(each.text) for each in found] == [True] * bool(text.strip() and text[:40].strip())


def test_the_window_with_the_most_terms_is_chosen_and_ends_between_words() -> None:
    text = "Eine Frist gilt. " + "Anderes steht hier. " * 20 + "Die Gebühr und die Frist nennt das Amt allen."

    (found,) = excerpt(text, matches(text, frozenset({"Frist", "Gebühr", "Amt"})), max_characters=50, most=1)

    assert found.text == "hier. Die Gebühr und die Frist nennt das Amt allen."[-len(found.text) :]
    assert {"Gebühr", "Frist", "Amt"} <= set(found.text.split())


@pytest.mark.parametrize("wrong", [{"max_characters": 0}, {"most": 0}])
def test_limits_below_one_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        excerpt("a", [], **wrong)


@given(words=st.lists(st.sampled_from(["Mietverträge", "§ 535", "der", "12.3.2024", "3.11.7", "camelCase", "a@b.de"])))
def test_terms_are_those_of_the_analyser_and_stand_where_they_are_said_to(words: list[str]) -> None:
    text = ", ".join(words)

    places = list(term_places(text, language="de"))

    assert " ".join(place.terms for place in places) == analyse_text(text, language="de")
    assert all(text[place.start : place.end].strip(", ") in words for place in places)


@pytest.mark.parametrize(
    "text", ["§ 12¹ gilt", "¹Mietverträge², 10³ km²", "DIN EN 18040\u20111, E\u2011Mail", "1½ Jahre"]
)
def test_notes_and_hyphens_of_any_kind_have_the_terms_of_the_analyser(text: str) -> None:
    analysed = " ".join(place.terms for place in term_places(text, language="de"))

    assert analysed.replace("km²", "km2") == analyse_text(text, language="de")


def test_a_compound_matches_a_question_for_its_part() -> None:
    asked_for = set(query_terms("Vertrag", language="de").split())

    (place,) = [place for place in term_places("im Mietvertrag", language="de") if asked_for & set(place.terms.split())]

    assert (place.start, place.end) == (3, 14)
