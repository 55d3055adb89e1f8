"""The whole path: a changed document becomes a searchable, citable answer."""

from importlib.resources import files

from freki.schemas import (
    ChunkLevel,
    CitationStyle,
    Confidence,
    Filter,
    FilterOperator,
    Fusion,
    Metric,
    OutcomeStatus,
    RerankerChoice,
    ResultStatus,
    VersionFloor,
    Widening,
    WidenWhen,
)
from freki.schemas.names import DocumentId
from freki.streams.wire.connect import open_asker, open_publisher
from tests.acceptance.conftest import REPLY_TOPIC, Freki
from tests.acceptance.helpers import PATIENCE_S, ask, delete, documents, messages, publish, query, upsert

CV = (files("freki") / "samples" / "lebenslauf-peter-kuehne.md").read_text(encoding="utf-8")
EMPLOYERS = (
    "Stadtwerke Hunteburg",
    "Nordlicht Planungsgesellschaft",
    "Hansen & Töchter",
    "Ingenieurbüro Petersen",
    "Gleisbau Harz AG",
    "Zimmerei Albers",
    "Hochschule Jadeküste",
)


async def test_an_answer_quotes_the_document_and_says_where_and_how_fresh(freki: Freki) -> None:
    # Sections of this length are chunks of their own.
    fees = "Der Reisepass kostet für Erwachsene 70 Euro. Wer ihn sofort braucht, bezahlt 32 Euro dazu. "
    fees += "Kinder und Jugendliche bezahlen die Hälfte davon, wenn sie keinen eigenen Antrag gestellt haben."
    times = (
        "Der Antrag dauert vier Wochen. Die Frist beginnt, sobald alle Unterlagen da sind und die Gebühr bezahlt ist. "
        "Eilige Anträge gehen vor, sofern sie begründet sind und die Reise binnen zwei Wochen beginnt."
    )
    text = f"# Gebühren\n\n{fees}\n\n# Fristen\n\n{times}"
    await publish(freki, upsert("path", "pass.md", text, name="Passgebühren.md", version=7))

    result = await ask(freki, "path", "Was kostet ein Reisepass?")

    hit = result.hits[0]
    assert (hit.document_id, hit.version, hit.name) == ("pass.md", 7, "Passgebühren.md")
    assert text[hit.start : hit.end] == hit.text
    assert hit.heading_path == ("Gebühren",)
    assert hit.citation == f"[QUELLE-1: Passgebühren.md | chunk:{hit.chunk_id}]"
    assert hit.citation in result.context
    assert result.reranker == "local"
    assert hit.rerank_score is not None
    assert 0 < hit.rerank_score < 1
    assert result.freshness.consistency == "STRONG"
    assert result.freshness.last_commit_at is not None
    assert {stage.stage for stage in result.stages} >= {"analyse", "embed", "search.dense", "search.lexical", "fuse"}


async def test_all_employers_of_a_cv_are_in_the_answer(freki: Freki) -> None:
    (outcome,) = await publish(freki, upsert("cv", "lebenslauf.md", CV))

    asked = {
        model: await ask(freki, "cv", "Wo hat Peter Kühne gearbeitet?", target_model=model, expand_documents=3)
        for model in (None, "default", "llama3.1:70b")
    }

    assert outcome.chunks >= 7
    for model, result in asked.items():
        missing = [employer for employer in EMPLOYERS if employer not in result.context]
        assert missing == [], model
        shown = [*(hit.text for hit in result.hits), *(further.text for further in result.expansions)]
        assert [employer for employer in EMPLOYERS if not any(employer in text for text in shown)] == [], model
        assert {citation.document_id for citation in result.citations} == {"lebenslauf.md"}
        assert all(citation.citation in result.context for citation in result.citations)


async def test_words_of_a_thesaurus_are_searched_for_too(freki: Freki) -> None:
    await publish(freki, upsert("terms", "raum.md", "# Räume\n\nDie Hopfenkammer liegt hinter dem Hof."))

    result = await ask(
        freki, "terms", "Wo ist das Zwischenlager?", widen=(Widening.SYNONYMS,), widen_when=WidenWhen.ALWAYS
    )

    assert result.variants == ("Wo ist das Zwischenlager?", "Wo ist das Hopfenkammer?")
    assert result.hits[0].lexical_score
    assert "Hopfenkammer" in result.hits[0].text


async def test_that_nothing_answers_a_question_is_said_plainly(freki: Freki) -> None:
    await publish(freki, upsert("doubt", "pass.md", "# Gebühren\n\nDer Reisepass kostet für Erwachsene 70 Euro."))

    answered = await ask(freki, "doubt", "Was kostet ein Reisepass?")
    unanswered = await ask(freki, "doubt", "How do I configure the retention of a Kafka topic?")

    assert (answered.confidence, unanswered.confidence) == (Confidence.HIGH, Confidence.NONE)
    assert unanswered.status is ResultStatus.COMPLETE
    assert unanswered.hits
    assert unanswered.advice[0] == "Nothing here seems to answer this; the hits are only the nearest to it."


async def test_a_list_that_has_no_room_is_said_to_lack_items(freki: Freki) -> None:
    await publish(freki, upsert("cv", "lebenslauf.md", CV))

    result = await ask(freki, "cv", "Wo hat Peter Kühne gearbeitet?", target_model="phi3")

    assert any("a list may lack items" in notice.message for notice in result.notices)


async def test_a_deleted_document_cannot_be_quoted_once_its_receipt_is_there(freki: Freki) -> None:
    await publish(freki, upsert("gone", "note", "Der Schlüssel des Tresors liegt unter der Streuobstwiese."))

    (receipt,) = await publish(freki, delete("gone", "note", version=2))
    result = await ask(freki, "gone", "Wo liegt der Schlüssel des Tresors?")

    assert receipt.status is OutcomeStatus.DELETED
    assert receipt.searchable_at is not None
    assert result.status is ResultStatus.EMPTY
    assert result.advice


async def test_a_late_event_does_not_raise_the_dead(freki: Freki) -> None:
    await publish(freki, upsert("late", "d", "Erste Fassung", version=1))
    await publish(freki, delete("late", "d", version=3))

    (late,) = await publish(freki, upsert("late", "d", "Zweite Fassung", version=2))

    assert late.status is OutcomeStatus.STALE
    assert (await ask(freki, "late", "Fassung")).hits == ()


async def test_a_reader_without_the_principal_sees_nothing(freki: Freki) -> None:
    await publish(freki, upsert("acl", "d", "Die Gehaltsliste der Leitung.", principals=("leitung",)))

    others = await ask(freki, "acl", "Gehaltsliste", principals=("azubi",))
    board = await ask(freki, "acl", "Gehaltsliste", principals=("leitung",))
    await publish(freki, upsert("acl", "d", "Die Gehaltsliste der Leitung.", principals=(), version=2))
    after = await ask(freki, "acl", "Gehaltsliste", principals=("leitung",))

    assert others.hits == ()
    assert documents(board) == ["d"]
    assert after.hits == ()


async def test_large_text_travels_by_claim_check(freki: Freki) -> None:
    # Nearly all of it is no text: large records are of interest here, not the embedding of many chunks.
    style = "\n".join(f".absatz-{number} {{ margin: {number}px; }}" for number in range(30_000))
    page = f"<html><style>{style}</style><p>Der Schlüssel liegt beim Hausmeister Olberding.</p></html>"
    assert len(page) > freki.settings.claims.inline_bytes
    await publish(freki, upsert("large", "archive.html", page, media_type="text/html"))

    result = await ask(freki, "large", "Bei wem liegt der Schlüssel?", alpha=0.3)

    assert any("Olberding" in hit.text for hit in result.hits)


async def test_a_question_waits_for_the_version_that_it_asks_for(freki: Freki) -> None:
    async with open_publisher(freki.settings) as publisher, open_asker(freki.settings) as asker:
        await publisher.publish(upsert("fresh", "d", "Die neue Grenze liegt bei 1000 Euro.", version=4))
        floor = VersionFloor(document_id=DocumentId("d"), version=4)
        asked = query("fresh", "Wo liegt die Grenze?", at_least=(floor,), deadline_ms=30_000)
        result = await asker.ask(asked, patience_s=PATIENCE_S)

    assert [hit.version for hit in result.hits] == [4]


async def test_a_version_that_never_comes_is_named_within_the_deadline(freki: Freki) -> None:
    floor = VersionFloor(document_id=DocumentId("never"), version=1)

    # Some of it passes before a worker on a busy machine takes the query; one that is late is told so instead.
    result = await ask(freki, "fresh", "Grenze", at_least=(floor,), deadline_ms=5_000)

    assert "'never'" in messages(result)


async def test_every_option_can_be_turned(freki: Freki) -> None:
    await publish(
        freki,
        *(upsert("options", f"d{number}.md", f"# Kapitel\n\nAntrag {number} auf Förderung.") for number in range(6)),
    )

    result = await ask(
        freki,
        "options",
        "Förderung",
        top_k=2,
        candidates=50,
        levels=(ChunkLevel.SECTION, ChunkLevel.PARAGRAPH),
        language="de",
        fusion=Fusion.RRF,
        rrf_k=10,
        alpha=0.2,
        metric=Metric.EUCLIDEAN,
        reranker=RerankerChoice.COSINE,
        rerank_candidates=5,
        mmr_lambda=1.0,
        min_score=-1.0,
        parents=False,
        neighbours=0,
        context_tokens=100,
        citations=CitationStyle.DOCUMENT,
        target_model="phi3",
        min_similarity=-10.0,
        expand_documents=1,
        expand_chunks=2,
        expand_similarity=-10.0,
        filters=(Filter(field="document_id", operator=FilterOperator.NE, values=("d3.md",)),),
    )

    assert len(result.hits) == 2
    assert "d3.md" not in documents(result)
    assert result.hits[0].citation == f"[Document 1: {result.hits[0].document_id}]"
    assert result.hits[0].dense_score is not None
    assert result.hits[0].dense_score <= 0
    assert [hit.score for hit in result.hits] == [hit.rerank_score for hit in result.hits]


async def test_the_answer_comes_on_the_topic_that_was_asked_for(freki: Freki) -> None:
    result = await ask(freki, "path", "Reisepass", reply_to=REPLY_TOPIC, answers_on=REPLY_TOPIC)

    assert result.status is not ResultStatus.REJECTED


async def test_a_short_deadline_still_gets_an_answer(freki: Freki) -> None:
    result = await ask(freki, "path", "Was kostet ein Reisepass?", deadline_ms=300)

    assert result.status is not ResultStatus.REJECTED


async def test_what_no_worker_could_answer_in_time_is_refused_with_the_reason(freki: Freki) -> None:
    result = await ask(freki, "path", "Was kostet ein Reisepass?", deadline_ms=1)

    assert result.status is ResultStatus.EXPIRED
    assert "deadline_ms" in result.notices[0].message
