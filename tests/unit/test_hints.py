import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.hints import Filtered, failure_hint, hints, quoted
from freki.schemas import (
    Confidence,
    ContextQuery,
    QueryAnalysis,
    QueryId,
    QueryType,
    TenantId,
    Timestamp,
)

FIELDS = ("language", "attributes.Jahr")


def query(**fields: Any) -> ContextQuery:
    return ContextQuery(
        query_id=QueryId("q"), tenant=TenantId("t"), text="Wer haftet?", asked_at=Timestamp(0), **fields
    )


def analysis(language: str = "de", *, keyword: bool = False) -> QueryAnalysis:
    return QueryAnalysis(
        language=language, query_type=QueryType.FACTUAL, keyword=keyword, levels=(1, 2), alpha=0.6, lexical="haft"
    )


def test_enough_hits_need_no_advice() -> None:
    assert hints(query(), analysis(), found=8, wanted=8, filtered=Filtered(FIELDS)) == ()


def test_german_questions_are_advised_in_german() -> None:
    advice = hints(query(), analysis("de"), found=0, wanted=8)

    assert advice[0] == "Dazu wurde nichts gefunden. Das heißt nicht, dass es dazu nichts gibt."


@pytest.mark.parametrize("language", ["en", "fr", "und"])
def test_all_others_in_english(language: str) -> None:
    advice = hints(query(), analysis(language), found=0, wanted=8)

    assert advice[0] == "Nothing was found on this. That does not mean that there is nothing."


@pytest.mark.parametrize(("language", "said"), [("de", "Die Suche ist fehlgeschlagen"), ("en", "Searching failed")])
def test_after_a_failed_search_nobody_is_told_that_nothing_was_found(language: str, said: str) -> None:
    assert failure_hint(language).startswith(said)


def test_little_is_counted() -> None:
    advice = hints(query(), analysis("en"), found=2, wanted=8)

    assert advice[0] == "Only little was found on this (2 of 8 hits asked for); there may be more."


def test_who_has_an_answer_is_not_told_to_ask_otherwise() -> None:
    sure, unsure = (
        hints(query(), analysis("en"), found=2, wanted=8, confidence=each)
        for each in (Confidence.HIGH, Confidence.UNKNOWN)
    )

    assert sure == unsure[:1]
    assert unsure[1].startswith("Ask in words")


def test_doubt_is_said_plainly() -> None:
    doubt = "None of the hits fits the query with certainty; they may not answer it."

    assert hints(query(), analysis("en"), found=8, wanted=8, confidence=Confidence.LOW)[0] == doubt
    assert hints(query(), analysis("en"), found=2, wanted=8, confidence=Confidence.LOW)[1] == doubt
    assert doubt not in hints(query(), analysis("en"), found=0, wanted=8, confidence=Confidence.LOW)


def test_what_no_hit_has_is_told_in_the_language_of_the_question() -> None:
    named = {"de": ("§ 4711", quoted("elf Euro", "de")), "en": ("§ 4711", quoted("elf Euro", "en"))}
    german, english = (
        hints(query(), analysis(each), found=8, wanted=8, confidence=Confidence.LOW, lacking=lacking)
        for each, lacking in named.items()
    )

    assert german[1] == "Kein Treffer enthält, was die Frage nennt: § 4711, „elf Euro“."
    assert english[1] == "No hit has what the query names: § 4711, “elf Euro”."


@pytest.mark.parametrize("found", [2, 8])
def test_that_nothing_answers_the_question_is_said_first(found: int) -> None:
    advice = hints(query(), analysis("de"), found=found, wanted=8, confidence=Confidence.NONE)

    assert advice[0] == "Hier scheint nichts die Frage zu beantworten; die Treffer sind nur die nächstliegenden."


@pytest.mark.parametrize(
    ("language", "said"), [("de", "Mindestähnlichkeit (0.7)"), ("en", "similarity that you ask for (0.7)")]
)
def test_a_minimum_similarity_may_be_lowered(language: str, said: str) -> None:
    assert said in " ".join(hints(query(min_similarity=0.7), analysis(language), found=3, wanted=8))


def test_advice_names_what_narrowed_the_search() -> None:
    advice = " ".join(
        hints(query(min_score=0.5, levels=(0,)), analysis("en"), found=0, wanted=8, filtered=Filtered(FIELDS))
    )

    assert "language, attributes.Jahr." in advice
    assert "(0.5)" in advice
    assert "these were searched: 0." in advice


def test_keywords_are_told_to_ask_in_a_sentence() -> None:
    assert "Ask in a whole sentence" in " ".join(hints(query(), analysis("en", keyword=True), found=0, wanted=8))
    assert "Ask in a whole sentence" not in " ".join(hints(query(), analysis("en"), found=0, wanted=8))


@given(
    language=st.sampled_from(["de", "en"]),
    keyword=st.booleans(),
    found=st.integers(0, 9),
    confidence=st.sampled_from(Confidence),
    filtered=st.sampled_from([Filtered(), Filtered(FIELDS)]),
)
def test_it_never_says_that_something_does_not_exist(
    language: str, *, keyword: bool, found: int, confidence: Confidence, filtered: Filtered
) -> None:
    advice = hints(
        query(),
        analysis(language, keyword=keyword),
        found=found,
        wanted=8,
        confidence=confidence,
        filtered=filtered,
    )

    assert bool(advice) == (found < 8 or confidence in (Confidence.LOW, Confidence.NONE))
    claims = re.compile(r"existiert nicht|gibt es nicht|does not exist|no such|there is no ", re.IGNORECASE)
    assert not claims.search(" ".join(advice))
