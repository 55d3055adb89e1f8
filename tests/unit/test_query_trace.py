"""What spans tell of a query, and that they hold no text unless that is asked for."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from freki.infra.models.fake import FakeEmbedder
from freki.schemas import (
    EVERYONE,
    ContextQuery,
    DocumentChange,
    DocumentId,
    Operation,
    QueryId,
    ResultStatus,
    TenantId,
    Timestamp,
    VersionFloor,
)
from freki.schemas.index import RerankPair, Scope
from freki.streams.retrieve.trace import SHOWN_CHARACTERS, SHOWN_DOCUMENTS
from tests.unit.pipelines import MODELS, Pipeline

TENANT = TenantId("t")
PARAGRAPHS = [
    "Der Antrag auf Wohngeld ist schriftlich bei der Gemeinde zu stellen, und zwar vor Beginn des Zeitraums.",
    "Die Gebühr für einen Reisepass beträgt sechzig Euro; wer noch keine vierundzwanzig Jahre zählt, zahlt weniger.",
    "Über Widersprüche entscheidet das Landratsamt innerhalb von drei Monaten nach ihrem Eingang, schriftlich.",
]
QUESTION = "Welche Behörde entscheidet über meinen Widerspruch?"
UNSAMPLED = (("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"),)


class Scorer:
    """A reranker that likes what a word is in, and does not get to all."""

    name = "local"

    def __init__(self, word: str, most: int = 100) -> None:
        self._word = word
        self._most = most

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        assert budget_s is not None
        return [
            0.1 + 0.8 * (self._word in pair.text) if place < self._most else None for place, pair in enumerate(pairs)
        ]


def document(paragraphs: Sequence[str] = PARAGRAPHS, name: str = "d1", **fields: Any) -> DocumentChange:
    headed = "\n\n".join(f"# Abschnitt Nummer{place}\n\n{text}" for place, text in enumerate(paragraphs))
    return DocumentChange(
        **{
            "tenant": TENANT,
            "document_id": DocumentId(name),
            "operation": Operation.UPSERT,
            "version": 1,
            "occurred_at": Timestamp(1),
            "name": "Merkblatt Verwaltungsleistungen.md",
            "principals": (EVERYONE,),
            "content": headed,
            **fields,
        }
    )


def question(text: str = QUESTION, **options: Any) -> ContextQuery:
    return ContextQuery(
        **{"query_id": QueryId("q1"), "tenant": TENANT, "text": text, "asked_at": Timestamp(10**14), **options}
    )


def one(pipeline: Pipeline, name: str) -> ReadableSpan:
    """The span of that name of the query, which came last."""
    return [span for span in pipeline.spans.finished if span.name == name][-1]


def attributes(pipeline: Pipeline, name: str) -> Mapping[str, Any]:
    return one(pipeline, name).attributes or {}


def column(attributes: Mapping[str, Any], documents: str, field: str) -> list[Any]:
    """Read a field of each document of a list, in order."""
    found: list[Any] = []
    while (value := attributes.get(f"{documents}.{len(found)}.{field}")) is not None:
        found.append(value)
    return found


async def answered(**options: Any) -> Pipeline:
    pipeline = Pipeline(**options)
    await pipeline.publish(document())
    await pipeline.ask(question())
    return pipeline


def words(*texts: str) -> set[str]:
    """All words that no name of an attribute could hold."""
    return {word.lower() for text in texts for word in re.findall(r"[^\W\d_]{7,}", text)}


def told(pipeline: Pipeline) -> str:
    return "".join(
        json.dumps(json.loads(span.to_json()), ensure_ascii=False) for span in pipeline.spans.finished
    ).lower()


async def test_no_span_of_the_pipeline_holds_a_word_of_a_document_or_of_a_question() -> None:
    pipeline = Pipeline(rerankers=[Scorer("Landratsamt")])
    change = document(attributes={"Herausgeber": "Ministerium"}, source_uri="https://beispiel.invalid/Fundstelle")
    secrets = words(*PARAGRAPHS, QUESTION, "Verwaltungsleistungen Merkblatt Abschnitt Ministerium Fundstelle Unbekannt")

    await pipeline.publish(change, document(["Ein Text ohne viel Inhalt, aber mit genug Wörtern."], "d2"))
    await pipeline.ask(question())
    await pipeline.ask(question("Unbekannt " * 200))
    await pipeline.publish(document(version=2, operation=Operation.DELETE, content=None, name="d1"))

    assert len({span.name for span in pipeline.spans.finished}) > 20
    assert {word for word in secrets if word in told(pipeline)} == set()


async def test_where_content_is_allowed_spans_hold_question_context_and_chunks() -> None:
    pipeline = await answered(content=True, rerankers=[Scorer("Landratsamt")])

    for name in ("process queries", "retrieve"):
        assert attributes(pipeline, name)["input.value"] == QUESTION
        assert "Landratsamt" in attributes(pipeline, name)["output.value"]
    assert attributes(pipeline, "embed")["embedding.embeddings.0.embedding.text"] == QUESTION
    assert attributes(pipeline, "search.dense")["input.value"] == QUESTION
    assert "entscheid" in attributes(pipeline, "search.lexical")["input.value"]
    assert attributes(pipeline, "rerank")["reranker.query"] == QUESTION
    assert "Landratsamt" in attributes(pipeline, "rerank")["reranker.output_documents.0.document.content"]


async def test_content_is_cut() -> None:
    pipeline = Pipeline(content=True)
    await pipeline.publish(document(["wort " * 3 * SHOWN_CHARACTERS]))
    await pipeline.ask(question("wort"))

    contents = column(attributes(pipeline, "retrieve"), "retrieval.documents", "document.content")
    assert max(map(len, contents)) <= SHOWN_CHARACTERS


async def test_a_query_reads_as_a_story() -> None:
    began_ns = time.time_ns()
    pipeline = await answered(rerankers=[Scorer("Landratsamt")])

    root, search = one(pipeline, "process queries"), one(pipeline, "retrieve")
    below = [span for span in pipeline.spans.finished if span.parent == search.get_span_context()]
    kinds = {span.name: (span.attributes or {})["openinference.span.kind"] for span in (root, search, *below)}
    assert root.kind is SpanKind.CONSUMER
    assert search.parent == root.get_span_context()
    # Only where that took some time.
    assert kinds.pop("recheck", "CHAIN") == "CHAIN"
    assert kinds == {
        "process queries": "CHAIN",
        "retrieve": "RETRIEVER",
        "analyse": "CHAIN",
        "embed": "EMBEDDING",
        "search.dense": "RETRIEVER",
        "search.lexical": "RETRIEVER",
        "fuse": "CHAIN",
        "match": "CHAIN",
        "manifest": "CHAIN",
        "load": "CHAIN",
        "widen": "CHAIN",
        "rerank": "RERANKER",
        "diversify": "CHAIN",
        "locate": "CHAIN",
        "freshness": "CHAIN",
        "augment": "CHAIN",
        "assemble": "CHAIN",
    }
    start, end = search.start_time or 0, search.end_time or 0
    assert began_ns <= start
    assert all(start <= (span.start_time or 0) <= (span.end_time or 0) <= end for span in below)


async def test_searches_list_their_documents_with_scores_best_first() -> None:
    pipeline = await answered()

    for name in ("search.dense", "search.lexical", "retrieve"):
        documents = attributes(pipeline, name)
        scores = column(documents, "retrieval.documents", "document.score")
        ids = column(documents, "retrieval.documents", "document.id")
        assert scores == sorted(scores, reverse=True)
        assert scores
        assert all(re.fullmatch(r"d1#[0-9a-f]{32}", each) for each in ids)


async def test_hits_carry_every_score_and_candidates_their_place_among_the_hits() -> None:
    pipeline = await answered(rerankers=[Scorer("Landratsamt")])

    best = json.loads(attributes(pipeline, "retrieve")["retrieval.documents.0.document.metadata"])
    dense = column(attributes(pipeline, "search.dense"), "retrieval.documents", "document.metadata")
    assert best.keys() == {"version", "dense", "lexical", "fused", "reranked"}
    assert sorted(json.loads(each)["hit"] for each in dense) == [1, 2, 3]


async def test_the_reranker_s_span_shows_the_order_before_and_after() -> None:
    pipeline = await answered(rerankers=[Scorer("Reisepass")])

    span = attributes(pipeline, "rerank")
    before = column(span, "reranker.input_documents", "document.id")
    after = column(span, "reranker.output_documents", "document.id")
    places = [json.loads(each)["before"] for each in column(span, "reranker.output_documents", "document.metadata")]
    assert span["reranker.model_name"] == MODELS.reranker
    assert column(span, "reranker.output_documents", "document.score") == [0.9, 0.1, 0.1]
    assert [before[place - 1] for place in places] == after


async def test_candidates_that_the_reranker_did_not_reach_are_counted() -> None:
    pipeline = await answered(rerankers=[Scorer("Reisepass", most=1)])

    assert attributes(pipeline, "rerank")["freki.not_reranked"] == 2


async def test_lists_end_after_the_first_documents() -> None:
    pipeline = Pipeline()
    await pipeline.publish(
        *(
            document([f"Der Antrag mit der Nummer {place} ist schriftlich zu stellen."], f"d{place}")
            for place in range(30)
        )
    )
    await pipeline.ask(question("Wie ist der Antrag zu stellen?"))

    ids = column(attributes(pipeline, "search.dense"), "retrieval.documents", "document.id")
    assert len(ids) == SHOWN_DOCUMENTS
    assert attributes(pipeline, "search.dense")["freki.found"] == 30


async def test_options_and_analysis_are_told() -> None:
    pipeline = await answered()

    span = attributes(pipeline, "retrieve")
    assert {name: span[f"freki.option.{name}"] for name in ("top_k", "fusion", "mmr_lambda", "reranker")} == {
        "top_k": 8,
        "fusion": "WEIGHTED",
        "mmr_lambda": 0.7,
        "reranker": "AUTO",
    }
    assert span["freki.analysis.language"] == "de"
    assert 0.5 < span["freki.analysis.alpha"] < 1
    assert span["freki.analysis.levels"]
    assert "freki.option.alpha" not in span


async def test_whether_a_hit_answers_is_told() -> None:
    pipeline = await answered()

    result = await pipeline.ask(question())

    for name in ("process queries", "retrieve"):
        assert attributes(pipeline, name)["freki.confidence"] == result.confidence


async def test_notices_are_events_without_what_others_said() -> None:
    pipeline = Pipeline(min_score=2.0, context_tokens=50)
    await pipeline.publish(document())

    await pipeline.ask(question())

    events = [event.attributes or {} for event in one(pipeline, "retrieve").events]
    steps = {(event["freki.notice.step"], event["freki.notice.kind"]): event for event in events}
    assert "of 50 were left" in str(steps["assemble", "DROPPED"]["freki.notice.message"])
    assert "freki.notice.message" not in steps["threshold", "DEGRADED"]


async def test_a_query_that_breaks_a_rule_says_so_on_its_span_without_the_rule_s_words() -> None:
    pipeline = Pipeline()

    result = await pipeline.ask(question("zu lang " * 1_000))

    span = one(pipeline, "process queries")
    assert result.status is ResultStatus.REJECTED
    assert (span.attributes or {})["freki.status"] == "REJECTED"
    assert ((span.attributes or {})["freki.tenant"], (span.attributes or {})["freki.query.id"]) == (TENANT, "q1")
    assert [dict(event.attributes or {}) for event in span.events] == [
        {"freki.notice.step": "validate", "freki.notice.kind": "REJECTED"}
    ]


async def test_a_query_that_was_asked_too_long_ago_is_refused_at_once() -> None:
    pipeline = Pipeline()
    await pipeline.publish(document())

    result = await pipeline.ask(question(asked_at=Timestamp(1), deadline_ms=300))

    (notice,) = result.notices
    assert (result.status, result.hits, notice.stage) == (ResultStatus.EXPIRED, (), "admit")
    assert "ask again" in notice.message
    assert (one(pipeline, "process queries").attributes or {})["freki.status"] == "EXPIRED"


async def test_a_question_that_waits_for_a_version_has_its_spans_too(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline()
    await pipeline.publish(document())

    await pipeline.ask(question(at_least=(VersionFloor(document_id=DocumentId("d1"), version=1),)))

    assert attributes(pipeline, "retrieve")["freki.status"] == "COMPLETE"
    assert caplog.text == ""


async def test_a_query_that_its_asker_did_not_sample_leaves_no_span() -> None:
    pipeline = Pipeline()
    await pipeline.publish(document())
    before = len(pipeline.spans.finished)

    result = await pipeline.ask(question(), headers=UNSAMPLED)

    assert result.hits
    assert len(pipeline.spans.finished) == before
    assert pipeline.producer.to("contexts")[-1].headers[0][1].endswith(b"-00")


async def test_each_stage_names_the_document_and_the_version_of_its_record() -> None:
    pipeline = Pipeline()

    await pipeline.publish(document())

    for topic in ("documents", "chunks", "contextual-chunks"):
        of_stage = attributes(pipeline, f"process {topic}")
        assert (of_stage["freki.tenant"], of_stage["freki.document.id"]) == (TENANT, "d1")
        assert (of_stage["freki.document.version"], of_stage["freki.chunks"] > 0) == (1, True)


async def test_each_part_of_a_large_document_names_it() -> None:
    pipeline = Pipeline()

    await pipeline.publish(document([f"{text} ({place})" for place in range(4) for text in PARAGRAPHS]))

    parts = [span.attributes or {} for span in pipeline.spans.finished if span.name == "process contextual-chunks"]
    assert len(parts) > 1
    assert [part.get("freki.document.id") for part in parts] == ["d1"] * len(parts)


async def test_two_deletions_of_one_version_in_a_batch_have_their_receipts_in_their_own_traces() -> None:
    pipeline = Pipeline()
    await pipeline.publish(document())
    deletion = document(operation=Operation.DELETE, version=2, content=None)

    await pipeline.publish(deletion, deletion)

    def traces(name: str) -> list[int]:
        contexts = [span.get_span_context() for span in pipeline.spans.finished if span.name == name]
        return sorted(context.trace_id for context in contexts if context is not None)

    assert len(traces("send outcomes")) == 3
    assert traces("send outcomes") == traces("process documents")


async def test_the_span_of_a_rejected_change_names_its_document() -> None:
    pipeline = Pipeline()

    await pipeline.publish(document(version=7, media_type="application/pdf", content=b"%PDF-1.4 cut off"))

    rejected = one(pipeline, "process documents")
    told = rejected.attributes or {}
    assert rejected.status.status_code is StatusCode.ERROR
    assert (told["freki.document.id"], told["freki.document.version"], told["freki.status"]) == ("d1", 7, "REJECTED")


async def test_a_change_can_be_followed_to_its_outcome() -> None:
    pipeline = Pipeline()

    await pipeline.publish(document())

    by_id = {(span.get_span_context() or span).span_id: span for span in pipeline.spans.finished}  # type: ignore[union-attr]
    span, path = one(pipeline, "send outcomes"), []
    while span.parent is not None:
        span = by_id[span.parent.span_id]
        path.append(span.name)
    outcome = attributes(pipeline, "process contextual-chunks")
    assert path == [
        "process contextual-chunks",
        "send contextual-chunks",
        "process chunks",
        "send chunks",
        "process documents",
    ]
    assert (outcome["freki.document.id"], outcome["freki.status"]) == ("d1", "INDEXED")
    assert outcome["freki.chunks"] == attributes(pipeline, "outline")["freki.items"]
    assert attributes(pipeline, "embed")["embedding.model_name"] == "fake@64"
    assert {span.name for span in pipeline.spans.finished} >= {
        "look up",
        "compare",
        "embed",
        "write",
        "commit",
        "sweep",
    }
    assert {span.status.status_code for span in pipeline.spans.finished} == {StatusCode.UNSET}


async def test_what_is_dropped_is_logged_once_a_step_with_ids_and_without_text() -> None:
    pipeline = Pipeline(min_score=0.5, rerankers=[Scorer("Landratsamt")])
    await pipeline.publish(document([*PARAGRAPHS, PARAGRAPHS[0]]), document(PARAGRAPHS[:1], "copy"))

    with structlog.testing.capture_logs() as lines:
        await pipeline.ask(question())

    dropped = {(line["step"], line["reason"]): line for line in lines}
    ids = [chunk for line in lines for chunk in line["chunks"]]
    assert {line["event"] for line in lines} == {"chunks dropped"}
    assert len(dropped) == len(lines)
    assert ("threshold", "its score is below min_score") in dropped
    assert ("load", "a better candidate says the same") in dropped
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
    assert {word for word in words(*PARAGRAPHS, QUESTION) if word in str(lines).lower()} == set()


async def test_where_it_is_switched_on_each_candidate_is_shown_or_logged_once_with_step_and_reason() -> None:
    texts = [*PARAGRAPHS, PARAGRAPHS[0], *(f"Das Amt {number} entscheidet über den Antrag." for number in range(40))]
    pipeline = Pipeline(log_candidates=True, top_k=2, min_score=0.0, per_document=1, rerank_candidates=4)
    await pipeline.publish(document(texts), document(PARAGRAPHS[:1], "copy"))

    with structlog.testing.capture_logs() as lines:
        await pipeline.ask(question())

    (line,) = [line for line in lines if line["event"] == "candidates not shown"]
    left_out = [chunk for group in line["left_out"] for chunk in group["chunks"]]
    # Dense search finds whatever it looks at.
    scope = Scope(tenant=TENANT, principals=(), levels=(1, 2), filters=())
    vector = np.ones((1, FakeEmbedder().dim), dtype=np.float32)
    searched = await pipeline.index.dense(vector, [scope], limit=1_000, strong=True)
    assert len(left_out) == len(set(left_out))
    assert {*line["hits"], *left_out} == {hit.chunk_id for ranking in searched for hit in ranking}
    assert not set(left_out) & set(line["hits"])
    reasons = {(group["step"], group["reason"]) for group in line["left_out"]}
    assert ("diversify", "its document has its share of the hits") in reasons
    # Nothing but duplicates is left out before late interaction has ranked all candidates.
    assert {step for step, _ in reasons} == {"load", "diversify"}
    assert all(reason for _, reason in reasons)
    assert {word for word in words(*texts, QUESTION) if word in str(lines).lower()} == set()


async def test_nothing_is_logged_of_an_answer_that_drops_nothing() -> None:
    pipeline = Pipeline()
    await pipeline.publish(document())

    with structlog.testing.capture_logs() as lines:
        await pipeline.ask(question())

    assert lines == []
