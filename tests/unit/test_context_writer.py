"""Chunks situated by a real client and a scripted server, from a document's change to its receipt."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import stamina

from freki.infra.llm.client import FAILURES, LlmClient
from freki.infra.llm.ledger import TokenLedger
from freki.infra.settings import ContextSettings, LlmSettings
from freki.operators.breadcrumb import written_in
from freki.operators.identify import root_id
from freki.schemas import (
    EVERYONE,
    ChunkKind,
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    LlmUse,
    Operation,
    OutcomeStatus,
    QueryId,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.index import IndexedChunk
from freki.streams.ingest.context_prompts import SUMMARY_TOKENS
from freki.streams.ingest.context_writer import CUT_OFF, DAY_SPENT, DOCUMENT_SPENT, UNUSABLE
from freki.streams.messages import REINDEX_HEADER, Headers
from tests.llm_server import CHUNK, LlmServer, an_llm_server, asked_of, says, situates, words
from tests.scripted_server import Reply
from tests.unit.pipelines import Pipeline
from tests.unit.revisions import rows_of

TENANT = TenantId("acme")
TOPICS = ("Beitrag", "Stimmrecht", "Austritt", "Vorstand", "Kasse", "Fangbuch", "Schonzeit")
REQUEST = ((REINDEX_HEADER, b"1732385959000"),)


def rule(topic: str) -> str:
    return (
        f"Der Paragraph über {topic} wurde von der Versammlung der Mitglieder mit großer Mehrheit beschlossen und gilt "
        f"seitdem für alle, die in der Genossenschaft fischen wollen, auch für Gäste, wenn sie {topic} betrifft."
    )


def document(topics: Sequence[str] = TOPICS, *, title: str = "Satzung", level: str = "##") -> str:
    return f"# {title}\n\n" + "\n\n".join(f"{level} {topic}\n\n{rule(topic)}" for topic in topics)


def change(
    content: str | None, *, version: int = 1, name: str = "satzung", title: str | None = None, **fields: Any
) -> DocumentChange:
    return DocumentChange(
        **{
            "tenant": TENANT,
            "document_id": DocumentId(f"{name}.md"),
            "operation": Operation.UPSERT,
            "version": version,
            "occurred_at": Timestamp(version),
            "principals": (EVERYONE,),
            "content": content,
            "name": title,
            "language": "de",
            **fields,
        }
    )


@dataclass
class World:
    """A pipeline whose contextualising stage asks a scripted server."""

    pipeline: Pipeline
    server: LlmServer

    async def publish(self, content: str | None, *, headers: Headers = (), **fields: Any) -> IndexOutcome:
        self.server.requests.clear()
        await self.pipeline.publish(change(content, **fields), headers=headers)
        return Codec(IndexOutcome).decode(self.pipeline.producer.to("outcomes")[-1].value or b"")

    async def ask(self, text: str, **fields: Any) -> ContextResult:
        asked = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text=text, asked_at=Timestamp(10**14), **fields)
        return await self.pipeline.ask(asked)

    async def rows(self, name: str = "satzung") -> list[IndexedChunk]:
        """Give the document's rows by the words of their texts."""
        key = root_id(TENANT, DocumentId(f"{name}.md"))
        rows = await rows_of(self.pipeline.index, key)
        return sorted((row for row, _ in rows.values()), key=lambda r: r.text)

    async def written(self) -> dict[str, str | None]:
        """Give what the model wrote, by the heading of the chunk; None where it wrote nothing."""
        return {
            row.heading_path[-1]: written_in(row.context)
            if row.context_key.endswith(tuple("0123456789abcdef"))
            else None
            for row in await self.rows()
            if row.kind is not ChunkKind.SUMMARY
        }

    @property
    def asked(self) -> list[int]:
        """Of each request, of how many chunks it was."""
        return [len(CHUNK.findall(asked_of(body))) for body in self.server.bodies]


def use(outcome: IndexOutcome) -> LlmUse:
    assert outcome.llm is not None
    return outcome.llm


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    with an_llm_server() as server, stamina.set_testing(True, attempts=1):
        yield server


@pytest.fixture
async def world(server: LlmServer, tmp_path: Path) -> AsyncIterator[World]:
    async with LlmClient(settings(server)) as llm:
        yield made(server, llm, tmp_path, llm_on=True)


def settings(server: LlmServer, **changes: Any) -> LlmSettings:
    return LlmSettings.model_validate({"url": server.url, "model": "gemma", "timeout_s": 30, "at_once": 1, **changes})


def made(server: LlmServer, llm: LlmClient, path: Path, *, llm_on: bool = True, day: int = 0, **contexts: Any) -> World:
    ledger = TokenLedger(path / "tokens", most=day, day=lambda: "2026-01-01")
    return World(Pipeline(contexts=ContextSettings(llm=llm_on, **contexts), llm=llm, ledger=ledger), server)


async def test_each_chunk_gets_its_line_below_name_and_headings_and_keeps_its_text(world: World) -> None:
    outcome = await world.publish(document())

    rows = [row for row in await world.rows() if row.kind is not ChunkKind.SUMMARY]
    assert {row.text for row in rows} == set(map(rule, TOPICS))
    for row in rows:
        topic = row.heading_path[-1]
        assert row.context == f"Satzung > {topic}\nDiese Stelle der Satzung handelt von sie {topic} betrifft."
        assert "handelt" in row.lexical or "handel" in row.lexical
    assert use(outcome) == LlmUse(
        written=7, kept=0, missing=0, reason="", prompt_tokens=200, cached_tokens=0, completion_tokens=20
    )


async def test_five_chunks_are_asked_of_at_once_in_the_order_of_the_document(server: LlmServer, tmp_path: Path) -> None:
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path)
        # Parts hold four chunks here, the summary of the document among them.
        await world.publish(document())
        by_part = world.asked
        await made(server, llm, tmp_path, batch_chunks=2).publish(document())

    assert by_part == [3, 4]
    assert world.asked[:2] == [2, 1]


async def test_hits_show_the_original_text_and_no_word_of_the_model(world: World) -> None:
    await world.publish(document())

    result = await world.ask("Wer darf fischen?")

    assert result.hits
    assert "Diese Stelle" not in result.context
    assert all("Diese Stelle" not in hit.text for hit in result.hits)


async def test_the_words_of_the_model_are_searched(world: World) -> None:
    world.server.script = lambda body: says(
        "\n".join(
            f"{number}: Die Stelle über {words(text)} erwähnt den Flussbarsch ausdrücklich."
            for number, text in CHUNK.findall(asked_of(body))
        )
    )
    await world.publish(document())

    assert all("flussbarsch" in row.lexical for row in await world.rows() if row.kind is not ChunkKind.SUMMARY)


async def test_the_same_document_again_asks_nothing_and_embeds_nothing(world: World) -> None:
    await world.publish(document())

    again = await world.publish(document(), version=2)

    assert world.server.requests == []
    assert (again.status, again.embedded) == (OutcomeStatus.UNCHANGED, 0)
    assert replace(use(again), kept=0) == LlmUse(
        written=0, kept=0, missing=0, reason="", prompt_tokens=0, cached_tokens=0, completion_tokens=0
    )
    assert use(again).kept == 7


async def test_versions_that_follow_each_other_at_once_cost_the_calls_of_one(world: World) -> None:
    changes = [change(document(), version=version) for version in (1, 2, 3)]

    await world.pipeline.publish(*changes)

    assert world.asked == [3, 4]
    assert all((await world.written()).values())


async def test_an_edit_asks_of_the_chunk_that_it_touches(world: World) -> None:
    await world.publish(document())

    edited = await world.publish(document((*TOPICS[:3], "Fischereischein", *TOPICS[4:])), version=2)

    assert world.asked == [1]
    assert (use(edited).written, use(edited).kept) == (1, 6)
    assert edited.embedded == 2  # and the extract that stands for the document


async def test_a_name_that_changes_keeps_what_the_model_wrote(world: World) -> None:
    await world.publish(document())
    before = await world.written()

    renamed = await world.publish(document(), version=2, title="Ordnung")

    assert world.server.requests == []
    assert renamed.embedded == 0
    assert await world.written() == before
    assert all(row.context.startswith("Ordnung > Satzung") for row in await world.rows() if row.level)


async def test_another_model_writes_again_where_the_document_is_published_again(
    server: LlmServer, tmp_path: Path
) -> None:
    async with LlmClient(settings(server)) as old, LlmClient(settings(server, model="qwen")) as new:
        before = made(server, old, tmp_path)
        await before.publish(document())
        after = made(server, new, tmp_path)
        after.pipeline.index = before.pipeline.index
        after = World(_with_index(before.pipeline, new, tmp_path), server)
        outcome = await after.publish(document(), version=2)

    assert use(outcome).written == 7
    assert outcome.embedded == 7


async def test_switched_on_it_writes_when_a_document_is_made_anew_and_not_when_the_same_version_only_comes_again(
    server: LlmServer, tmp_path: Path
) -> None:
    plain = Pipeline()
    off = World(plain, server)
    await off.publish(document())
    async with LlmClient(settings(server)) as llm:
        on = World(_with_index(plain, llm, tmp_path), server)
        repeated = await on.publish(document())
        outcome = await on.publish(document(), headers=REQUEST)
        again = await on.publish(document(), headers=REQUEST)

    assert (repeated.status, repeated.embedded, repeated.llm) == (OutcomeStatus.UNCHANGED, 0, None)
    assert (outcome.status, outcome.embedded, use(outcome).written) == (OutcomeStatus.INDEXED, 7, 7)
    assert all((await on.written()).values())
    assert (again.status, again.embedded, use(again).kept) == (OutcomeStatus.UNCHANGED, 0, 7)


async def test_a_version_that_is_superseded_costs_no_call(world: World) -> None:
    await world.publish(document(), version=5)

    late = await world.publish(document(("Alt", "Älter")), version=4)

    assert world.server.requests == []
    assert (late.status, late.llm) == (OutcomeStatus.STALE, None)


async def test_a_deletion_costs_no_call(world: World) -> None:
    await world.publish(document())

    gone = await world.publish(None, version=2, operation=Operation.DELETE)

    assert (gone.status, gone.llm, world.server.requests) == (OutcomeStatus.DELETED, None, [])


@pytest.mark.parametrize(
    "script",
    [
        lambda _: says("Gern geschehen!"),
        lambda _: says(""),
        lambda _: says("1: " + "und so weiter " * 400),
        lambda _: says("\n".join(f"{n}: This section is about the fees of members." for n in range(1, 6))),
        lambda _: says("\n".join(f"{n}: 本节说明会员的费用以及他们的权利和义务和期限。" for n in range(1, 6))),
        lambda _: says("1: kurz\n2: kurz\n3: kurz\n4: kurz"),
        lambda _: says("9: Diese Nummer gibt es nicht, und nach ihr wurde nicht gefragt."),
    ],
    ids=["polite", "empty", "rambling", "English", "Chinese", "too short", "wrong number"],
)
async def test_an_answer_that_is_of_no_use_leaves_name_and_headings(world: World, script: Any) -> None:
    world.server.script = script

    outcome = await world.publish(document())

    assert outcome.status is OutcomeStatus.INDEXED
    assert (use(outcome).missing, use(outcome).reason) == (7, UNUSABLE)
    assert use(outcome).completion_tokens == 20
    assert {row.context for row in await world.rows() if row.kind is not ChunkKind.SUMMARY} == {
        f"Satzung > {topic}" for topic in TOPICS
    }


async def test_a_chunk_whose_line_is_missing_falls_back_alone_and_is_mended_by_the_next_publication(
    world: World,
) -> None:
    def forgetful(body: Mapping[str, Any]) -> Reply:
        text = situates(body).content["choices"][0]["message"]["content"]
        return says("\n".join(line for line in text.splitlines() if "Stimmrecht" not in line))

    world.server.script = forgetful
    outcome = await world.publish(document())
    world.server.script = situates
    mended = await world.publish(document())

    assert (use(outcome).written, use(outcome).missing) == (6, 1)
    assert (use(mended).written, use(mended).kept, use(mended).missing) == (1, 6, 0)
    assert (mended.embedded, world.asked) == (1, [1])
    assert all((await world.written()).values())


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply({}, 503), "answered 503"),
        (Reply({}, 429, {"Retry-After": "7200"}), "answered 429"),
        (Reply({"error": "no such model"}, 404), "FREKI_LLM__URL, __MODEL and __API_KEY"),
        (Reply(b"<html>"), "does not answer as a chat interface"),
    ],
    ids=["down", "busy", "wrong model", "a page"],
)
async def test_a_server_that_does_not_work_costs_no_document(world: World, reply: Reply, reason: str) -> None:
    world.server.script = lambda _: reply

    outcome = await world.publish(document())
    world.server.script = situates

    assert outcome.status is OutcomeStatus.INDEXED
    assert use(outcome).missing == 7
    assert reason in use(outcome).reason


async def test_a_server_that_stalls_holds_up_no_document_for_long(server: LlmServer, tmp_path: Path) -> None:
    server.script = server.stalls
    async with LlmClient(settings(server, timeout_s=1)) as llm:
        world = made(server, llm, tmp_path, batch_chunks=1)
        outcome = await world.publish(document())

    assert outcome.status is OutcomeStatus.INDEXED
    assert (use(outcome).missing, len(server.requests)) == (7, FAILURES)
    assert "FREKI_LLM__TIMEOUT_S" in use(outcome).reason


async def test_a_server_that_is_down_is_soon_not_asked_any_more(world: World) -> None:
    world.server.script = lambda _: Reply({}, 503)
    for version in range(1, 4):
        await world.publish(document(), version=version, name=f"satzung-{version}")

    await world.publish(document(), name="another")

    assert world.server.requests == []


async def test_a_context_from_before_is_kept_where_the_new_model_is_down(server: LlmServer, tmp_path: Path) -> None:
    async with LlmClient(settings(server)) as old, LlmClient(settings(server, model="qwen")) as new:
        before = made(server, old, tmp_path)
        await before.publish(document())
        written = await before.written()
        after = World(_with_index(before.pipeline, new, tmp_path), server)
        server.script = lambda _: Reply({}, 503)
        outcome = await after.publish(document(), version=2)

    assert outcome.embedded == 0
    assert await after.written() == written


async def test_the_budget_of_a_document_ends_the_asking_and_the_receipt_says_so(
    server: LlmServer, tmp_path: Path
) -> None:
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, max_tokens_document=1_500)
        outcome = await world.publish(document())

    assert len(server.requests) == 1
    assert (use(outcome).written, use(outcome).missing, use(outcome).reason) == (3, 4, DOCUMENT_SPENT)


async def test_a_call_may_not_take_more_tokens_than_its_budgets_were_asked_for(
    server: LlmServer, tmp_path: Path
) -> None:
    """Also beside calls that may take more."""
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, summaries=True, batch_chunks=2)
        await world.publish(document())

    per_chunk = round(0.6 * ContextSettings().max_chars)
    assert sorted(world.asked) == [0, 1, 2, 2, 2]
    for body, chunks in zip(server.bodies, world.asked, strict=True):
        assert body["max_tokens"] == (chunks * per_chunk if chunks else SUMMARY_TOKENS)


async def test_the_budget_of_a_day_ends_the_asking_for_all_documents(server: LlmServer, tmp_path: Path) -> None:
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, day=1_500)
        first = await world.publish(document(TOPICS[:3]), name="first")
        server.script = lambda _: says("", prompt_tokens=1_000)
        await world.publish(document(TOPICS[:2]), name="second")
        third = await world.publish(document(TOPICS[:2]), name="third")

    assert use(first).missing == 0
    assert (use(third).written, use(third).missing, use(third).reason) == (0, 2, DAY_SPENT)
    assert server.requests == []


async def test_a_call_that_failed_costs_nothing_of_the_day(server: LlmServer, tmp_path: Path) -> None:
    server.script = lambda _: Reply({}, 400)
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, day=2_000)
        for number in range(5):
            await world.publish(document(TOPICS[:3]), name=f"d{number}")
        server.script = situates
        outcome = await world.publish(document(TOPICS[:3]), name="last")

    assert use(outcome).written == 3


async def test_short_chunks_and_documents_of_one_chunk_are_left_alone(world: World) -> None:
    outcome = await world.publish(rule("Beitrag"))

    assert (outcome.status, outcome.llm, world.server.requests) == (OutcomeStatus.INDEXED, None, [])


async def test_all_requests_of_a_document_begin_with_its_beginning(world: World) -> None:
    await world.publish(document())

    beginnings = {asked_of(body).partition("</document>")[0] for body in world.server.bodies}
    assert len(world.server.requests) == 2
    assert len(beginnings) == 1
    assert TOPICS[-1] in beginnings.pop()


async def test_the_document_is_cut_for_the_model(server: LlmServer, tmp_path: Path) -> None:
    async with LlmClient(settings(server)) as llm:
        await made(server, llm, tmp_path, document_chars=500).publish(document())

    lead = asked_of(server.bodies[0]).partition("</document>")[0]
    assert "Beitrag" in lead
    assert "Kasse" not in lead


async def test_documents_and_sections_are_summarised_beside_their_extracts(server: LlmServer, tmp_path: Path) -> None:
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, llm_on=False, summaries=True)
        outcome = await world.publish(document())
        again = await world.publish(document(), version=2)
        silent = len(server.requests)
        edited = await world.publish(document((*TOPICS[:6], "Neues")), version=3)

    (summary,) = [row for row in await world.rows() if row.kind is ChunkKind.SUMMARY]
    assert use(outcome).written == 1
    assert summary.text.startswith("Der Paragraph über Beitrag")
    assert written_in(summary.context).startswith("Eine Zusammenfassung")
    assert (use(again).kept, silent, again.embedded) == (1, 0, 0)
    # The text that it is made from is another one.
    assert use(edited).written == 1


async def test_a_summary_is_shown_instead_of_the_extract_and_marked_as_no_quotation(
    server: LlmServer, tmp_path: Path
) -> None:
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, llm_on=False, summaries=True)
        await world.publish(document())
        overview = await world.ask("Worum geht es in der Satzung?", levels=(0,))
        passage = await world.ask("Worum geht es in der Satzung?", levels=(1, 2))

    (hit,) = overview.hits
    assert hit.generated
    assert hit.text == "Eine Zusammenfassung, die von der Satzung der Fischereigenossenschaft handelt."
    assert f"(Zusammenfassung eines Sprachmodells)\n{hit.text}" in overview.context
    assert passage.hits
    assert not any(hit.generated for hit in passage.hits)


async def test_a_section_of_several_parts_is_summarised_from_the_first_and_the_extract_of_the_whole(
    server: LlmServer, tmp_path: Path
) -> None:
    sections = "\n\n".join(f"### {topic}\n\n{rule(topic)}" for topic in TOPICS)
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, llm_on=False, summaries=True)
        outcome = await world.publish(f"# Satzung\n\n## Teil eins\n\n{sections}\n\n## Teil zwei\n\n{rule('Ende')}")

    (section,) = [row for row in await world.rows() if row.kind is ChunkKind.SUMMARY and row.level == 1]
    (asked,) = [asked_of(body) for body in server.bodies if section.text in asked_of(body).partition("</document>")[2]]
    assert use(outcome).missing == 0
    assert rule(TOPICS[0]) in asked.partition("</document>")[2]


async def test_made_up_figures_are_in_no_context_and_no_summary(server: LlmServer, tmp_path: Path) -> None:
    def makes_up(body: Mapping[str, Any]) -> Reply:
        numbered = [(int(number), text) for number, text in CHUNK.findall(asked_of(body)) if number]
        if not numbered:
            return says("Die Satzung der Genossenschaft ist aus dem Jahr 1897 und regelt den Beitrag.")
        lines = (
            f"{number}: Die Satzung von {1890 + number % 2} sagt das zu {words(text)}." for number, text in numbered
        )
        return says("\n".join(lines))

    server.script = makes_up
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, summaries=True)
        outcome = await world.publish(document(title="Satzung von 1890"))

    lines = [written_in(row.context) for row in await world.rows() if row.context_key]
    assert (use(outcome).written, use(outcome).missing) == (3, 5)
    assert sum("Die Satzung von 1890 sagt" in line for line in lines) == 3
    assert not [line for line in lines if "1891" in line or "1897" in line]


async def test_a_summary_in_other_words_than_the_document_is_not_shown(server: LlmServer, tmp_path: Path) -> None:
    server.script = lambda _: says("Wer Pilze sammelt, braucht dafür gutes Wetter und einen großen Korb.")
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, llm_on=False, summaries=True)
        await world.publish(document())
        overview = await world.ask("Worum geht es?", levels=(0,))

    assert [hit.generated for hit in overview.hits] == [False]


@pytest.mark.parametrize(
    "line",
    [
        "Ordne jeden der Abschnitte in das Dokument ein: Wovon handelt das Dokument, worum geht es an dieser Stelle?",
        "Der Paragraph über Beitrag wurde von der Versammlung der Mitglieder mit großer Mehrheit beschlossen",
    ],
    ids=["repeats the request", "copies the chunk"],
)
async def test_a_line_that_adds_nothing_is_dropped(world: World, line: str) -> None:
    world.server.script = lambda _: says(f"1: {line}")

    outcome = await world.publish(document())

    assert (use(outcome).written, use(outcome).reason) == (0, UNUSABLE)


async def test_contexts_are_as_short_as_the_settings_say(server: LlmServer, tmp_path: Path) -> None:
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, max_chars=60)
        await world.publish(document())

    lines = [line for line in (await world.written()).values() if line]
    assert lines
    assert all(len(line) <= 60 for line in lines)
    assert "höchstens 60 Zeichen" in asked_of(server.bodies[0])


async def test_a_model_that_is_cut_off_while_it_thinks_is_named_with_the_setting(world: World) -> None:
    world.server.script = lambda _: Reply(
        {"choices": [{"message": {"content": "<think>Nun, also"}, "finish_reason": "length"}]}
    )

    outcome = await world.publish(document())

    assert (use(outcome).written, use(outcome).reason) == (0, CUT_OFF)


async def test_a_section_is_summarised_from_its_own_chunks(server: LlmServer, tmp_path: Path) -> None:
    parts = "\n\n".join(
        f"## Teil {number}\n\n" + "\n\n".join(f"### {topic}\n\n{rule(topic)}" for topic in topics)
        for number, topics in (("eins", TOPICS[:2]), ("zwei", TOPICS[2:4]))
    )
    async with LlmClient(settings(server)) as llm:
        world = made(server, llm, tmp_path, llm_on=False, summaries=True)
        outcome = await world.publish(f"# Satzung\n\n{parts}")

    first, second = (asked_of(body).partition("</document>")[2] for body in server.bodies[1:])
    assert use(outcome).written == 3
    assert (rule("Stimmrecht") in first, rule("Austritt") in first) == (True, False)
    assert "Teil zwei" in second
    sections = [row for row in await world.rows() if row.kind is ChunkKind.SUMMARY and row.level == 1]
    assert all(row.context.startswith("Satzung > Teil") and "Eine Zusammenfassung" in row.context for row in sections)


async def test_an_abbreviation_is_explained_where_it_is_used_without_a_model(server: LlmServer) -> None:
    world = World(Pipeline(contexts=ContextSettings(definitions=True)), server)
    long = f"{rule('Vorprüfung')} Dazu dient die Umweltverträglichkeitsprüfung (UVP)."
    texts = {"Begriffe": long, "Pflicht": f"{rule('Anlage')} Ohne UVP geht das nicht.", "Kosten": rule("Kosten")}
    text = "# Umwelt\n\n" + "\n\n".join(f"## {heading}\n\n{body}" for heading, body in texts.items())

    await world.publish(text)
    contexts = {row.heading_path[-1]: row.context for row in await world.rows() if row.kind is not ChunkKind.SUMMARY}
    edited = await world.publish(text.replace("Dazu dient", "Dem dient"), version=2)
    other = await world.publish(text.replace("Umweltverträglichkeitsprüfung", "Umweltvorprüfung"), version=3)

    assert contexts == {
        "Begriffe": "Umwelt > Begriffe",
        "Pflicht": "Umwelt > Pflicht\nUVP = Umweltverträglichkeitsprüfung",
        "Kosten": "Umwelt > Kosten",
    }
    # The chunk itself; and, where the explanation changes, the one that uses it.
    assert (edited.embedded, other.embedded) == (1, 2)


def _with_index(old: Pipeline, llm: LlmClient, path: Path) -> Pipeline:
    """Make a pipeline with the same index and other contexts."""
    ledger = TokenLedger(path / "other-tokens", most=0)
    return Pipeline(contexts=ContextSettings(llm=True), llm=llm, ledger=ledger, index=old.index)
