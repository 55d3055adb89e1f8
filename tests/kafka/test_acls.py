"""Each part of Freki works with the rights that `freki topics acls` lists, and says so where one is missing."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import faust
import pytest
from opentelemetry.trace import NoOpTracer
from typer.testing import CliRunner

from freki.cli import generations, relay
from freki.cli.main import app
from freki.infra.kafka import KafkaProducer, Reader
from freki.infra.kafka.admin import Admin
from freki.infra.settings import (
    FeedbackSettings,
    KafkaSettings,
    LocalSettings,
    MilvusSettings,
    RelaySettings,
    RetrievalSettings,
    Settings,
)
from freki.infra.telemetry.calls import Calls
from freki.schemas import (
    DocumentId,
    DocumentQuery,
    DocumentQueryKind,
    DocumentReport,
    QueryId,
    ReportStatus,
    TenantId,
)
from freki.schemas.errors import Misconfigured
from freki.streams.app import STAGES, make_stages
from freki.streams.deliver.outbox import Outbox
from freki.streams.deliver.run import run_stages
from freki.streams.observe.meters import Meters
from freki.streams.topics import Topics
from freki.streams.wire import parts as wiring
from freki.streams.wire.acls import Right, rights_of
from freki.streams.wire.connect import open_document_asker, open_generations, open_ledger, open_publisher
from freki.streams.wire.from_settings import ingest_sources, settings_named, topics_of, wall_clock
from freki.streams.wire.generations import remove_generation, waiting_of
from freki.streams.wire.overview import overview
from freki.streams.wire.provision import apply_topics, check_sources
from tests.integration.stages import PATIENCE_S, TRACER, World, running
from tests.kafka.secured import PASSWORD, Secured

ANSWERS = "team.answers"
LOOKS = 50


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Settings of each part, with a user of its own that has the rights of this part."""

    settings: Settings
    """Of who may do everything."""
    by_name: Mapping[str, Settings]

    @property
    def topics(self) -> Topics:
        return topics_of(self.settings)

    async def run(self, part: str, *arguments: str) -> str:
        """Run a command as the user of a part; return what it printed."""
        found = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=self._environment(part))
        assert found.exit_code == 0, found.output
        return found.stdout

    def _environment(self, part: str) -> dict[str, str]:
        settings = self.by_name[part]
        names = ("bootstrap", "topic_prefix", "partitions", "security", "sasl_mechanism", "username", "ca_file")
        return {
            **{f"FREKI_KAFKA__{name.upper()}": str(getattr(settings.kafka, name)) for name in names},
            "FREKI_KAFKA__PASSWORD": PASSWORD,
            "FREKI_MILVUS__URI": settings.milvus.uri,
            "FREKI_MILVUS__COLLECTION_PREFIX": settings.milvus.collection_prefix,
            "FREKI_LOCAL__STATE_DIR": str(settings.local.state_dir),
        }


def own_settings(secured: Secured, **sections: Any) -> Settings:
    """Return settings of who may do everything, with topics of a test's own."""
    kafka = secured.plain.model_copy(update={"topic_prefix": f"test-{secrets.token_hex(4)}"})
    # The stack of other tests names topics in the environment.
    return Settings(kafka=kafka, **{"retrieval": RetrievalSettings(reply_topics=()), **sections})


async def as_user(secured: Secured, settings: Settings, user: str, rights: Sequence[Right]) -> Settings:
    """Return the same settings for a new user with these rights."""
    kafka = await secured.add_user(f"{user}-{settings.kafka.topic_prefix}", rights)
    return settings.model_copy(update={"kafka": kafka.model_copy(update={"topic_prefix": settings.kafka.topic_prefix})})


@asynccontextmanager
async def working(settings: Settings, stage: str) -> AsyncIterator[None]:
    """Run a stage as a worker does."""
    async with wiring.Parts(settings, NoOpTracer(), Meters(), Calls()) as opened:
        stages = await make_stages(opened, [stage])
        async with running(*stages, beside=opened.background.tasks):
            yield


@pytest.fixture
async def parts(secured: Secured, store: MilvusSettings, tmp_path: Path) -> Parts:
    settings = own_settings(
        secured,
        milvus=store,
        local=LocalSettings(state_dir=tmp_path),
        # What these read and write takes rights too.
        feedback=FeedbackSettings(read=True),
        retrieval=RetrievalSettings(cache_mb=8, reply_topics=(ANSWERS,)),
        relays=(
            RelaySettings(
                topic=f"shop-{secrets.token_hex(4)}", format="debezium", document_id="/row/id", content="/row/body"
            ),
        ),
    )
    by_name = {part: await as_user(secured, settings, part, rights) for part, rights in rights_of(settings).items()}
    await apply_topics(by_name["topics"])
    return Parts(settings=settings, by_name=by_name)


async def test_each_part_works_with_its_rights_alone(parts: Parts, tmp_path: Path) -> None:
    folder = tmp_path / "post"
    folder.mkdir()
    (folder / "antrag.md").write_text("# Antrag\n\nÜber den Antrag entscheidet die Behörde.\n", encoding="utf-8")
    async with (
        working(parts.by_name["chunk"], "chunk"),
        working(parts.by_name["contextualise"], "contextualise"),
        working(parts.by_name["embed"], "embed"),
        working(parts.by_name["retrieve"], "retrieve"),
    ):
        assert "1 indexed" in await parts.run("publish", "publish", str(folder), "--wait")
        assert "antrag.md" in await parts.run("ask", "ask", "Wer entscheidet über den Antrag?")
        for kind in DocumentQueryKind:
            report = await told(parts.by_name["document-queries"], kind)
            assert report.status is ReportStatus.FOUND, report.message
        await parts.run("judge", "judge", "give", "Wer?", "post/antrag.md", "up", "--as", "me")
        assert "antrag.md" in await parts.run("judge", "judge", "list")
        assert "0 differences" in await parts.run("verify", "verify")
        assert "dead letters: 0" in await parts.run("status", "status")
        assert "as declared" in await parts.run("topics", "topics", "list")

        # The worker that answers erases what was said of a document that is gone.
        (folder / "antrag.md").unlink()
        assert "1 deleted" in await parts.run("publish", "publish", str(folder), "--prune", "--wait")
        await until(parts, lambda listed: "antrag.md" not in listed, "judge", "judge", "list")

        async with KafkaProducer(parts.settings.kafka) as producer:
            await (await producer.send(parts.topics.documents.name, key=b"default/broken", value=b"no record"))
        await until(parts, lambda listed: "no dead letters" not in listed, "dead-letters", "dead-letters", "list")
        assert "sent 1 record again" in await parts.run("dead-letters", "dead-letters", "replay", "all")


async def told(settings: Settings, kind: DocumentQueryKind) -> DocumentReport:
    """Ask about documents as a service does."""
    query = DocumentQuery(
        query_id=QueryId(kind.value),
        tenant=TenantId("default"),
        kind=kind,
        asked_at=wall_clock(),
        document_id=None if kind is DocumentQueryKind.LIST else DocumentId("post/antrag.md"),
    )
    async with open_document_asker(settings) as asker:
        return await asker.ask(query, patience_s=PATIENCE_S)


async def until(parts: Parts, enough: Callable[[str], bool], part: str, *arguments: str) -> None:
    """Run a command until it prints what is expected."""
    printed = ""
    for _ in range(LOOKS):
        printed = await parts.run(part, *arguments)
        if enough(printed):
            return
    pytest.fail(printed)


@pytest.mark.parametrize(
    ("part", "arguments"),
    [
        ("hold", ("hold", "set", "4K1/26", "a.md", "--reason", "x")),
        ("hold", ("hold", "list")),
        ("object", ("object", "set", "21-17", "a.md", "--reason", "x")),
        ("object", ("object", "list")),
        ("access", ("access", "a.md")),
    ],
)
async def test_a_command_needs_the_rights_of_its_part_alone(part: str, arguments: Sequence[str], parts: Parts) -> None:
    await parts.run(part, *arguments)


async def test_verify_may_see_what_waits_for_the_index(parts: Parts) -> None:
    sources = dict.fromkeys(source.topic for source in ingest_sources(parts.settings))
    async with KafkaProducer(parts.settings.kafka) as producer:
        for topic in sources:
            await (await producer.send(topic, key=b"default/a", value=b""))

    waiting = await waiting_of(parts.by_name["verify"])

    # Two lanes read the topic of documents.
    assert waiting.records == len(sources) + 1
    assert waiting.oldest_s < PATIENCE_S


async def test_a_generation_begins_and_ends_with_the_rights_for_it(secured: Secured, store: MilvusSettings) -> None:
    first = own_settings(secured, milvus=store)
    await apply_topics(first)
    second = settings_named(first, "g2")
    lesser = await as_user(secured, second, "generations", rights_of(second)["generations"])

    await generations._begin(lesser, filled="g1")
    async with open_generations(lesser) as log:
        assert "g2" in await log.stored()
        await remove_generation(log, lesser)
        assert "g2" not in await log.stored()


@pytest.mark.parametrize("lacks", ["topic", "group"])
async def test_status_does_not_call_empty_what_it_may_not_see(
    lacks: str, secured: Secured, store: MilvusSettings, tmp_path: Path
) -> None:
    settings = own_settings(secured, local=LocalSettings(state_dir=tmp_path), milvus=store)
    await apply_topics(settings)
    rights = [right for right in rights_of(settings)["status"] if right.resource != lacks]
    lesser = await as_user(secured, settings, "status", rights)

    found = await overview(lesser)

    assert found.stages == ()
    assert (found.dead_letters is None) == (lacks == "topic")
    assert "freki topics acls" in "".join(found.problems)


async def test_who_may_not_create_a_topic_is_told_which_in_a_line(secured: Secured) -> None:
    settings = own_settings(secured)
    rights = rights_of(settings)["topics"]
    lesser = await as_user(secured, settings, "topics", rights[1:])

    with pytest.raises(Misconfigured, match="freki topics acls") as refused:
        await apply_topics(lesser)

    assert rights[0].name in str(refused.value)
    assert "CreateTopicsRequest" not in str(refused.value)


async def test_who_may_write_to_no_topic_is_told_so(secured: Secured) -> None:
    nobody = await as_user(secured, own_settings(secured), "nobody", [])

    with pytest.raises(Misconfigured, match="may write to no topic: `freki topics acls`"):
        async with KafkaProducer(nobody.kafka):
            pass


async def test_a_relay_reads_topics_of_others_and_publishes(parts: Parts) -> None:
    settings, (one,) = parts.by_name["relay"], parts.settings.relays
    change = {"op": "c", "source": {"connector": "x", "lsn": 1, "ts_ms": 1}, "after": {"id": 1, "body": "Text"}}
    async with Admin(parts.settings.kafka) as admin:
        await admin.ensure_topics([replace(parts.topics.queries, name=one.topic)])
    await relay._check(settings)
    async with (
        KafkaProducer(settings.kafka) as producer,
        open_publisher(settings, tombstones=False) as publisher,
        running(
            relay._stage(settings, one, Outbox(producer, TRACER), TRACER, relay._handle(settings, one, publisher, None))
        ),
        KafkaProducer(parts.settings.kafka) as other,
        Reader(parts.settings.kafka, parts.topics.documents.name, start="earliest") as reader,
    ):
        await (await other.send(one.topic, key=b"1", value=json.dumps(change).encode()))

        assert (await anext(aiter(reader))).key == b"default/1"


async def test_sources_write_and_read_what_they_have_published(parts: Parts) -> None:
    async with open_ledger(parts.by_name["publish"], "source", str) as ledger:
        await ledger.write({"a": "b"})
    async with open_ledger(parts.by_name["publish"], "source", str) as ledger:
        assert ledger["a"] == "b"


async def test_clients_may_do_nothing_else(parts: Parts) -> None:
    for part in ("publish", "ask", "document-queries", "chunk"):
        settings, rights = parts.by_name[part], rights_of(parts.settings)[part]
        for topic in parts.topics:
            may = {word for right in rights if right.name == topic.name for word in right.operations}
            assert await reads(settings.kafka, topic.name) == ("Read" in may), (part, topic.name)
            assert await writes(settings.kafka, topic.name) == ("Write" in may), (part, topic.name)


async def reads(kafka: KafkaSettings, topic: str) -> bool:
    """Tell whether a user may read a topic; where it may not, that is said."""
    try:
        async with Reader(kafka, topic, start="earliest") as reader:
            [record async for record in reader.until_end()]
    except Misconfigured as error:
        return _is_allowed(error)
    return True


async def writes(kafka: KafkaSettings, topic: str) -> bool:
    """Tell whether a user may write to a topic; where it may not, that is said."""
    try:
        async with KafkaProducer(kafka) as producer:
            await (await producer.send(topic, key=b"default/a", value=None))
    except Misconfigured as error:
        return _is_allowed(error)
    return True


def _is_allowed(refusal: Misconfigured) -> bool:
    assert "freki topics acls" in str(refusal)
    return False


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("resource", ["topic", "group"])
async def test_a_worker_that_may_not_read_says_so_at_once(resource: str, stage: str, secured: Secured) -> None:
    settings = own_settings(secured)
    await apply_topics(settings)
    rights = rights_of(settings)[stage]
    first = next(right for right in rights if right.resource == resource)
    lesser = await as_user(secured, settings, stage, [right for right in rights if right is not first])
    groups = [right.name for right in rights if right.resource == "group"]
    topics = [right.name for right in rights if right.resource == "topic" and "Read" in right.operations]

    with pytest.raises(Misconfigured, match="freki topics acls") as refused:
        await check_sources(lesser, [(group, topic) for group in groups for topic in topics])

    assert first.name in str(refused.value)
    assert "FindCoordinatorResponse" not in str(refused.value)


@pytest.mark.parametrize("operation", ["Read", "Write"])
async def test_a_stage_whose_rights_end_stops_and_says_so(operation: str, secured: Secured, tmp_path: Path) -> None:
    settings = own_settings(secured)
    topics = topics_of(settings)
    await apply_topics(settings)
    # It may see the topic that it may not read.
    lacks = Right(resource="topic", name=topics.documents.name, operations=("Describe",))
    may = Right(resource="topic", name=topics.documents.name, operations=("Read",))
    lesser = await as_user(
        secured,
        settings,
        operation,
        [
            lacks if operation == "Read" else may,
            Right(resource="group", name=f"{settings.kafka.topic_prefix}.stage", operations=("Read",)),
            Right(resource="topic", name=topics.dead_letters.name, operations=("Write",)),
        ],
    )
    async with KafkaProducer(settings.kafka) as producer:
        await (await producer.send(topics.documents.name, key=b"a", value=b"1"))
    async with KafkaProducer(lesser.kafka) as producer:
        world = World(kafka=lesser.kafka, topics=topics, outbox=Outbox(producer, TRACER), state=tmp_path)
        with pytest.raises(Misconfigured, match="freki topics acls"):
            async with running(world.stage(world.forward)) as run:
                await asyncio.wait({run}, timeout=PATIENCE_S)


async def test_a_worker_whose_password_no_longer_holds_names_the_setting(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.streams.deliver.run._CHECKS_PER_WATCH", 1)
    monkeypatch.setattr("freki.streams.deliver.progress.STALLED_S", 0.5)
    settings = own_settings(secured)
    topics = topics_of(settings)
    await apply_topics(settings)
    rights = [
        Right(resource="topic", name=topics.documents.name, operations=("Read",)),
        Right(resource="group", name=f"{settings.kafka.topic_prefix}.stage", operations=("Read",)),
        Right(resource="topic", name=topics.dead_letters.name, operations=("Write",)),
    ]
    lesser = await as_user(secured, settings, "rotated", rights)

    async def unanswered(_: faust.App) -> None:
        """Stand for connections that were lost: the broker keeps those of users whose password changes."""
        await secured.change_password(lesser.kafka)

    async with KafkaProducer(lesser.kafka) as producer:
        world = World(kafka=lesser.kafka, topics=topics, outbox=Outbox(producer, TRACER), state=tmp_path)
        with pytest.raises(Misconfigured, match="FREKI_KAFKA__PASSWORD"):
            async with asyncio.timeout(PATIENCE_S):
                await run_stages(
                    [world.stage(world.forward)], asyncio.Event(), look_behind=unanswered, on_ready=lambda: None
                )
