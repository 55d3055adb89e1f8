"""Questions are asked as configured, and what comes back is judged, compared and shown."""

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from io import StringIO
from itertools import count
from typing import Any

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from freki.cli.evaluate.reports.evaluation import render
from freki.cli.evaluate.show_evaluation import show_set, verdict
from freki.operators.errors import InvalidQuery
from freki.schemas import (
    ContextHit,
    ContextQuery,
    ContextResult,
    DocumentId,
    Fusion,
    Notice,
    NoticeKind,
    QueryId,
    RerankerChoice,
    TenantId,
    Timestamp,
)
from freki.schemas.evaluation import CorpusDocument, Question
from freki.streams.evaluate.configuration import parse_configuration
from freki.streams.evaluate.corpus import fingerprint_of, missing, roots_of, tenant_of
from freki.streams.evaluate.examine import DEPTH, Examiner
from freki.streams.evaluate.result import (
    Answered,
    Evaluation,
    KeptRank,
    Run,
    SetResult,
    beside,
    breakdown,
    headline,
)
from freki.streams.ingest.chunk import content_hash
from tests.contract.index_records import root
from tests.unit.evaluations import hit, result
from tests.unit.questions import OPTIONS

NOW = Timestamp(1_700_000_000_000)
QUESTIONS = [
    Question(question_id="1", text="eins", judgements={DocumentId("a"): 1}),
    Question(question_id="2", text="zwei", judgements={DocumentId("z"): 1, DocumentId("a"): 0}),
]


class Answering:
    """A Freki that knows its hits by heart, and remembers what it was asked."""

    def __init__(
        self, served: Sequence[ContextHit], deep: Sequence[ContextHit] = (), *, silent: bool = False, **rest: Any
    ) -> None:
        self.asked: list[ContextQuery] = []
        self._served = served
        self._deep = deep
        self._silent = silent
        self._rest = rest

    async def ask(self, query: ContextQuery, *, patience_s: float, token: str | None = None) -> ContextResult:  # noqa: ARG002 - as a port says
        assert patience_s > 0
        if self._silent:
            raise TimeoutError
        self.asked.append(query)
        return result(query, self._deep if query.top_k == DEPTH else self._served, **self._rest)


def examiner(freki: Answering, *, threshold: float = 0.5) -> Examiner:
    numbers = count()
    return Examiner(
        freki,
        tenant=TenantId("t"),
        defaults=OPTIONS,
        threshold=threshold,
        max_in_flight=3,
        now=lambda: NOW,
        new_id=lambda: QueryId(str(next(numbers))),
    )


async def run(freki: Answering, questions: Sequence[Question] = QUESTIONS, options: str = "", **turned: Any) -> Run:
    asked = examiner(freki, **turned)
    found, _ = await asked.run(questions, parse_configuration(options), title="as set", advance=lambda: None)
    return found


def answered(name: str, ndcg: float, *, query_type: str = "factual") -> Answered:
    return Answered(
        question_id=name,
        text=f"<b>{name}</b> & mehr?",
        language="de",
        query_type=query_type,
        figures={"nDCG@10": ndcg, "failed@20": float(ndcg == 0)},
        ranking=(),
        relevant={DocumentId("<a>"): 1 if ndcg else None},
    )


def compared(first: Sequence[Answered], *further: Sequence[Answered]) -> SetResult:
    runs = [
        Run(title=f"run {place}", answers=tuple(answers), lower_bounds=(), remarks=())
        for place, answers in enumerate([first, *further])
    ]
    return SetResult(
        name="tiny",
        fingerprint="f",
        documents=2,
        asked_of="<somewhere>",
        notes=("one note",),
        runs=tuple(runs),
        titles={DocumentId("<a>"): "<script>alert(1)</script>"},
    )


def evaluation(*sets: SetResult) -> Evaluation:
    return Evaluation(
        format="freki evaluation 1",
        made_at="2026-11-22T03:15:56+00:00",
        took_s=2.5,
        made_with={"machine": "<one>"},
        sets=sets,
    )


def test_a_configuration_turns_the_options_of_a_query() -> None:
    query = ContextQuery(query_id=QueryId("q"), tenant=TenantId("t"), text="was?", asked_at=NOW, top_k=3)

    turned = parse_configuration(" alpha=0.4, fusion=rrf,reranker=Cosine,levels=1+2,parents=no").applied(query)

    assert (turned.alpha, turned.fusion, turned.levels, turned.parents) == (0.4, Fusion.RRF, (1, 2), False)
    assert turned.reranker is RerankerChoice.COSINE
    assert (turned.top_k, turned.text) == (3, "was?")


def test_a_configuration_says_the_same_however_it_is_written() -> None:
    assert parse_configuration("alpha=0.40, fusion=RRF").text == parse_configuration("alpha=.4,fusion=rrf").text
    assert parse_configuration("").overrides == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alfa=0.4", "alpha"),
        ("tenant=other", "write name=value with a name of deadline_ms, top_k"),
        ("alpha", "write name=value"),
        ("alpha=high", "alpha=high: give a number"),
        ("alpha=1.5", "alpha: 1.5 is outside 0.0..1.0"),
        ("top_k=1.5", "give a whole number"),
        ("top_k=500", "top_k: 500 is outside 1..200"),
        ("fusion=mean", "give one of weighted, rrf"),
        ("levels=1-2", "such as 1+2"),
        ("levels=9", "levels: give some of"),
        ("parents=perhaps", "give one of true, yes, false, no"),
        ("alpha=0.1,alpha=0.2", "alpha is given twice"),
    ],
)
def test_what_no_query_may_have_is_refused_with_what_is_allowed(text: str, expected: str) -> None:
    with pytest.raises(InvalidQuery, match=re.escape(expected)):
        parse_configuration(text)


def test_every_option_of_a_query_can_be_turned() -> None:
    not_options = {"query_id", "tenant", "text", "asked_at", "principals", "reply_to", "filters", "at_least"}
    not_options |= {"explain", "expect", "chunk_ids", "document_ids", "where"}

    with pytest.raises(InvalidQuery) as refusal:
        parse_configuration("x=1")

    assert set(re.findall(r"\w+", str(refusal.value).partition("a name of ")[2])) == {
        field.name for field in fields(ContextQuery) if field.name not in not_options
    }


def test_the_tenant_of_a_corpus_changes_with_the_corpus_and_with_what_indexes_it() -> None:
    corpus = [
        CorpusDocument(document_id=DocumentId(name), name=None, media_type=None, content=f"Text {name}")
        for name in "ab"
    ]
    fingerprint = fingerprint_of(corpus)

    assert fingerprint == fingerprint_of(corpus[::-1])
    assert fingerprint != fingerprint_of(corpus[:1])
    assert tenant_of(fingerprint, ["model 1"]) == tenant_of(fingerprint, ["model 1"])
    assert len({tenant_of(fingerprint, [model]) for model in ("model 1", "model 2")}) == 2
    assert "/" not in tenant_of(fingerprint, [])


def test_only_what_is_not_indexed_yet_is_published() -> None:
    tenant = TenantId("t")
    corpus = [
        CorpusDocument(document_id=DocumentId(name), name=None, media_type="text/plain", content=f"Text {name}")
        for name in ("there", "changed", "deleted", "new")
    ]
    wanted = roots_of(corpus, tenant)
    hashes = {document.document_id: content_hash(document.content) for document in corpus}
    indexed = {
        key: root(document.document_id, content_hash=hashes[document.document_id])
        for key, document in wanted.items()
        if document.document_id != "new"
    }
    keys = {document.document_id: key for key, document in wanted.items()}
    indexed[keys[DocumentId("changed")]] = root("changed", content_hash="other")
    indexed[keys[DocumentId("deleted")]] = root("deleted", content_hash=hashes[DocumentId("deleted")], deleted=True)

    changes = missing(wanted, indexed, tenant=tenant, now=NOW)

    assert [change.document_id for change in changes] == ["changed", "deleted", "new"]
    assert {change.principals for change in changes} == {("everyone",)}


async def test_the_first_places_are_those_that_a_service_sees_and_the_rest_follows() -> None:
    freki = Answering([hit(1, "b", 0.9), hit(2, "a", 0.8)], [hit(1, "a", 0.9), hit(2, "z", 0.7), hit(3, "b", 0.6)])

    found = await run(freki)

    first, second = found.answers
    assert [place.document_id for place in first.ranking] == ["b", "a", "z"]
    assert (first.figures["MRR"], second.figures["MRR"]) == pytest.approx((1 / 2, 1 / 3))
    assert first.relevant == {"a": 2}
    assert [place.grade for place in second.ranking] == [None, 0, 1]


async def test_the_deep_question_looks_no_deeper_into_each_retriever() -> None:
    freki = Answering([hit(1, "a", 0.9)])

    await run(freki, QUESTIONS[:1], "alpha=0.4")

    served, deep = freki.asked
    assert (served.top_k, served.candidates, served.alpha, served.parents) == (None, None, 0.4, None)
    assert (deep.top_k, deep.candidates, deep.alpha, deep.parents, deep.neighbours) == (200, 200, 0.4, False, 0)
    assert served.query_id != deep.query_id


async def test_recall_is_called_a_lower_bound_where_the_hits_hold_too_few_documents() -> None:
    many_of_one = [hit(rank, "a", 0.5) for rank in range(1, DEPTH + 1)]

    cut = await run(Answering([], many_of_one))
    whole = await run(Answering([], many_of_one[:-1]))

    assert cut.lower_bounds == ("Recall@100",)
    assert "for 1 of 2 questions" in cut.remarks[0]
    assert (whole.lower_bounds, whole.remarks) == ((), ())


async def test_spans_and_facts_are_looked_for_in_the_context() -> None:
    asked = [Question(question_id="1", text="was?", spans=("der Antrag",), facts=("30 Tage", "Leitung"))]

    found = await run(Answering([hit(1, "a", 0.9)], context="Der  Antrag gilt 30\nTage."), asked)

    assert found.answers[0].figures == {"empty answers": 0.0, "spans quoted": 1.0, "facts found": 0.5}


async def test_nothing_found_is_an_empty_answer_only_where_something_is_there() -> None:
    unanswerable = Question(question_id="3", text="was?", judgements={})

    found = await run(Answering([]), [*QUESTIONS, unanswerable])

    assert [answer.figures.get("empty answers") for answer in found.answers] == [1.0, 1.0, None]


async def test_false_positives_are_counted_only_where_scores_are_calibrated() -> None:
    hits = [hit(1, "a", 0.9), hit(2, "x", 0.8), hit(3, "y", 0.1)]

    calibrated = await run(Answering(hits, reranker="remote"), QUESTIONS[:1])
    relative = await run(Answering(hits, reranker="cosine"), QUESTIONS[:1])

    assert calibrated.answers[0].figures["false positives"] == 0.5
    assert "false positives" not in relative.answers[0].figures


async def test_a_question_that_nothing_answers_has_no_false_positive_where_no_hit_reaches_the_threshold() -> None:
    unanswerable = [Question(question_id=str(number), text="was?", judgements={}) for number in range(2)]

    cautious = await run(Answering([hit(1, "x", 0.1)], reranker="local"), unanswerable)
    sure = await run(Answering([hit(1, "x", 0.9)], reranker="local"), unanswerable)
    answerable = await run(Answering([hit(1, "x", 0.1)], reranker="local"), QUESTIONS[:1])

    assert [answer.figures for answer in cautious.answers] == [{"false positives": 0.0}] * 2
    assert [answer.figures for answer in sure.answers] == [{"false positives": 1.0}] * 2
    assert "false positives" not in answerable.answers[0].figures


async def test_notices_are_told_once_with_how_often() -> None:
    notice = Notice(stage="rerank", kind=NoticeKind.SKIPPED, message="no time")
    dropped = Notice(stage="threshold", kind=NoticeKind.DROPPED, message="3 candidates")

    found = await run(Answering([hit(1, "a", 0.9)], notices=[notice, notice, dropped]))

    assert found.remarks == ("skipped in 2 of 2 answers, rerank: no time",)


async def test_an_answer_that_does_not_come_ends_the_run_with_its_question() -> None:
    with pytest.raises(TimeoutError, match="no answer to question 1 within 181 s"):
        await run(Answering([], silent=True))


def test_a_set_without_rankings_is_judged_by_what_it_has() -> None:
    facts = Answered(
        question_id="1",
        text="t",
        language="de",
        query_type="factual",
        figures={"facts found": 0.5},
        ranking=(),
        relevant={},
    )

    figure = headline(compared([facts]).runs)
    assert figure is not None
    assert figure.name == "facts found"


async def test_a_set_of_facts_is_judged_by_them_and_not_by_whether_anything_was_found() -> None:
    asked = [Question(question_id=str(number), text="was?", facts=("30 Tage",)) for number in range(10)]
    holding = await run(Answering([hit(1, "a", 0.9)], context="30 Tage", reranker="local"), asked)
    lacking = await run(Answering([hit(1, "a", 0.9)], context="Nichts", reranker="local"), asked)

    assert verdict(compared(holding.answers)).startswith("facts found is 1.000")
    assert verdict(compared(holding.answers, lacking.answers)) == "B is worse than A: facts found -1.000, p = 0.002."


@pytest.mark.parametrize("runs", [1, 2])
def test_a_set_without_any_figure_is_reported_with_its_reason(runs: int) -> None:
    unjudged = replace(answered("1", 0.0), figures={}, relevant={})
    found = compared(*[[unjudged]] * runs)
    file = StringIO()

    show_set(Console(file=file, width=80), found)
    page = render(evaluation(found))

    assert headline(found.runs) is None
    assert "only false positives are judged" in " ".join(file.getvalue().split())
    assert "only false positives are judged" in page


def test_groups_are_those_of_the_first_answers_and_the_largest_comes_first() -> None:
    first = [answered("1", 0.5), answered("2", 1.0), answered("3", 0.0, query_type="temporal")]
    second = [answered("1", 1.0), answered("2", 1.0), answered("3", 0.5, query_type="factual")]

    groups = breakdown(compared(first, second), lambda answer: answer.query_type)

    assert [(group.name, group.questions) for group in groups] == [("factual", 2), ("temporal", 1)]
    assert [[mean.value for mean in group.means if mean] for group in groups] == [[0.75, 1.0], [0.0, 0.5]]
    assert groups[0].comparison is not None
    assert groups[0].comparison.difference.value == 0.25


def test_the_verdict_calls_chance_chance() -> None:
    few = compared([answered("1", 0.5), answered("2", 0.5)], [answered("1", 0.6), answered("2", 0.5)])
    many = compared(
        [answered(str(place), 0.5) for place in range(20)], [answered(str(place), 0.4) for place in range(20)]
    )

    assert verdict(few).startswith("The difference may well be chance: nDCG@10 +0.050")
    assert verdict(many) == "B is worse than A: nDCG@10 -0.100, p < 0.001."
    assert verdict(compared([answered("1", 0.5)])).startswith("nDCG@10 is 0.500")


def test_an_earlier_run_stands_beside_this_one_as_far_as_it_has_the_same_questions() -> None:
    earlier = compared([answered("1", 0.5), answered("2", 0.5)])
    now = compared([answered("2", 0.7), answered("3", 0.7)])

    found = beside(earlier, now, made_at="2026-11-22T03:15:56+00:00")

    assert [[answer.question_id for answer in run.answers] for run in found.runs] == [["2"], ["2", "3"]]
    assert found.runs[0].title == "run 0, at 2026-11-22 03:15 UTC"
    assert found.notes == ("one note", "1 of 2 questions were not asked before")
    with pytest.raises(ValueError, match="other questions"):
        beside(compared([answered("9", 0.5)]), now, made_at="2026-11-22T03:15:56+00:00")


def test_an_earlier_answer_is_found_by_its_text_where_ids_are_positions() -> None:
    earlier = compared([replace(answered("1", 0.1), text="first?"), replace(answered("2", 0.2), text="second?")])
    now = compared(
        [replace(answered(str(place), 0.7), text=text) for place, text in enumerate(["new?", "first?", "second?"], 1)]
    )

    found = beside(earlier, now, made_at="2026-11-22T03:15:56+00:00")

    assert [(each.question_id, each.text) for each in found.runs[0].answers] == [("2", "first?"), ("3", "second?")]
    assert "1 of 3 questions were not asked before" in found.notes
    assert {name: each.difference.value for name, each in found.comparison().items()}["nDCG@10"] == pytest.approx(0.55)


def test_an_earlier_answer_that_was_judged_by_other_documents_is_not_compared() -> None:
    same, other = answered("1", 0.5), answered("2", 0.5)
    regraded = replace(answered("3", 0.5), ranking=(KeptRank(DocumentId("doc"), 0.9, 2),))
    earlier = compared(
        [same, replace(other, relevant={DocumentId("else"): None}), replace(regraded, ranking=_graded(regraded, 1))]
    )

    found = beside(earlier, compared([same, other, regraded]), made_at="2026-11-22T03:15:56+00:00")

    assert [answer.question_id for answer in found.runs[0].answers] == ["1"]
    assert "2 of 3 questions had other relevant documents: not compared" in found.notes
    assert not any("not asked before" in note for note in found.notes)
    with pytest.raises(ValueError, match="other relevant documents"):
        beside(
            compared([replace(other, relevant={DocumentId("else"): None})]),
            compared([other]),
            made_at="2026-11-22T03:15:56+00:00",
        )


def _graded(answer: Answered, grade: int) -> tuple[KeptRank, ...]:
    return tuple(rank._replace(grade=grade) for rank in answer.ranking)


def test_questions_that_are_there_twice_are_told_apart_by_their_documents() -> None:
    twice = [
        replace(answered(name, score), text="same?", relevant={DocumentId(name): 1})
        for name, score in (("a", 0.1), ("b", 0.9))
    ]

    found = beside(compared(twice), compared(twice[::-1]), made_at="2026-11-22T03:15:56+00:00")

    assert [answer.question_id for answer in found.runs[0].answers] == ["b", "a"]
    assert found.comparison()["nDCG@10"].difference.value == 0.0


@pytest.mark.parametrize("runs", [1, 2])
def test_the_page_needs_nothing_from_elsewhere_and_trusts_no_text(runs: int) -> None:
    answers = [[answered("1", 0.5 + place / 4), answered("2", 0.0)] for place in range(runs)]

    page = render(evaluation(compared(*answers)))

    assert not re.findall(r"\b(?:src|href)=|url\(|@import", page)
    assert "<script" not in page
    assert "<b>1</b>" not in page
    assert "&lt;b&gt;1&lt;/b&gt; &amp; mehr?" in page
    assert "&lt;somewhere&gt;" in page
    assert "$" not in page


def test_an_evaluation_survives_its_file() -> None:
    files = TypeAdapter(Evaluation)
    kept = evaluation(compared([answered("1", 0.5)], [answered("1", 0.7)]))

    assert files.validate_json(files.dump_json(kept)) == kept
