"""Erasure on both brokers: no sentence of a law is in any record or file once the times of the report are over.

Apache Kafka removes bytes later than records, after a day by the settings of `freki topics apply`. So the topics get
times of a second: compaction removes records of earlier versions, which name claims, before the erasure. The broker of
`freki up` keeps all in memory until it stops, which the report says too.
"""

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Literal, get_args

import pytest
from aiokafka.partitioner import DefaultPartitioner
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import LocalSettings, Settings
from freki.infra.sources.recorded import read_stream
from freki.operators.identify import record_key
from freki.schemas import DocumentId, TenantId
from freki.streams.deliver.dead_letters import to_record
from freki.streams.wire.connect import open_outbox
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import ask, freki_command, publish, upsert
from tests.acceptance.test_erase import letter_of

Broker = Literal["kafka", "tansu"]
PATIENCE_S = 150.0
SAMPLE = Path("freki/samples/bgb-mietvertrag.md")
LEAST_SENTENCE = 40
INLINE = 4000
MOST_CHARACTERS = 200_000
VERSIONS = 3
PARTITIONS = 3
# As the broker has records on disk: bytes of compressed ones would not be found.
SOON = {
    "segment.ms": "1000",
    "max.compaction.lag.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "100",
    "compression.type": "uncompressed",
}


def versions() -> Sequence[str]:
    """Return versions of a law: of the stream that FREKI_TEST_LAWS names, or the sample with sentences of its own."""
    stream = os.environ.get("FREKI_TEST_LAWS")
    if stream is None:
        text = SAMPLE.read_text(encoding="utf-8")
        ends = (f"Diese Fassung {number} gilt vom Mai an, bis es eine andere gibt." for number in range(VERSIONS))
        return [f"{text}\n\n{end}" for end in ends]
    found: dict[str, list[str]] = {}
    for change in read_stream(Path(stream)):
        if isinstance(change.content, str) and 2 * INLINE < len(change.content) < MOST_CHARACTERS:
            some = found.setdefault(change.document_id, [])
            some.append(change.content)
            if some[0] != some[-1]:
                return some
    return pytest.fail(f"{stream} has no law of two versions that travel as claims")


def sentences(texts: Sequence[str]) -> list[bytes]:
    """Return the sentences of texts, as bytes: what stands between two full stops or line breaks."""
    found = {
        sentence.strip().encode()
        for text in texts
        for sentence in re.split(r"[.\n|]", text)
        if len(sentence.strip()) >= LEAST_SENTENCE
    }
    assert len(found) > 5
    return sorted(found)


def records_with(bootstrap: str, needles: Sequence[bytes]) -> set[str]:
    """Return the topics with records that hold one of these, read by a client that knows nothing of Freki."""
    found = set()
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)) as consumer:
        places = [
            TopicPartition(topic, number)
            for topic in consumer.topics()
            if not topic.startswith("__")
            for number in consumer.partitions_for_topic(topic)
        ]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        consumer.seek_to_beginning(*places)
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    headers = (value or b"" for _, value in record.headers)
                    every = b"\n".join([record.key or b"", record.value or b"", *headers])
                    if any(needle in every for needle in needles):
                        found.add(record.topic)
    return found


def files_with(directory: Path, needles: Sequence[bytes]) -> set[str]:
    """Return the files with one of these, in any encoding that JSON or Avro may give them."""
    found = set()
    escaped = [json.dumps(needle.decode())[1:-1].encode() for needle in needles]
    wanted = re.compile(b"|".join(map(re.escape, {*needles, *escaped})))
    for path in directory.rglob("*"):
        try:
            if path.is_file() and wanted.search(path.read_bytes()):
                found.add(str(path.relative_to(directory)))
        except FileNotFoundError:  # the broker has just removed it
            continue
    return found


def configure(settings: Settings, names: Sequence[str], config: Mapping[str, str]) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, config) for name in names])


def partition_of(tenant: str, name: str) -> int:
    """Return the partition of a document once there are `PARTITIONS`."""
    key = record_key(TenantId(tenant), DocumentId(name))
    return int(DefaultPartitioner()(key, range(PARTITIONS), range(PARTITIONS)))


@asynccontextmanager
async def running(
    folder: Path, broker: Broker, *, workers: Sequence[Sequence[str]] | None = None
) -> AsyncIterator[Freki]:
    settings = Settings(local=LocalSettings(state_dir=folder / "state", broker=broker))
    children = Children()
    async with LocalStack(settings, report=children.report, prepare=apply_topics, workers=workers) as stack:
        yield Freki(settings_for(settings, stack.state), children)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FREKI_KAFKA__PARTITIONS", "1")
    monkeypatch.setenv("FREKI_CLAIMS__DIRECTORY", str(tmp_path / "state" / "claims"))
    monkeypatch.setenv("FREKI_CLAIMS__INLINE_BYTES", str(2 * INLINE))


async def send_letter(freki: Freki, tenant: str, name: str, text: str) -> None:
    async with open_outbox(freki.settings) as (outbox, _):
        letter = letter_of(freki, upsert(tenant, name, text))
        await outbox.send(to_record(letter, topics_of(freki.settings).dead_letters.name))


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("broker", get_args(Broker))
async def test_no_sentence_of_an_erased_law_is_left_after_the_times_of_the_report(
    tmp_path: Path, broker: Broker
) -> None:
    tenant, texts = f"erase-{secrets.token_hex(4)}", versions()
    # The last one travels in its record, which compaction keeps, the others as claims.
    texts = [*texts[:-1], texts[-1][:INLINE]]
    needles, report, key = sentences(texts), tmp_path / "report.json", tmp_path / "key.pem"
    state = tmp_path / "state"
    async with running(tmp_path, broker) as freki:
        topics = topics_of(freki.settings)
        bootstrap = freki.settings.kafka.bootstrap
        if broker == "kafka":
            await asyncio.to_thread(configure, freki.settings, [topic.name for topic in topics], SOON)
        for number, text in enumerate(texts, start=1):
            await publish(freki, upsert(tenant, "law", text, version=number))
        await publish(freki, upsert(tenant, "small", "Was bleibt, ist ein anderer Satz über Kleingärten."))
        await send_letter(freki, tenant, "law", texts[-1])
        # Its answer quotes the law; the question does not.
        await ask(freki, tenant, "Wer zahlt was?")
        before = await asyncio.to_thread(records_with, bootstrap, needles)
        assert {topics.documents.name, topics.dead_letters.name, topics.contexts.name} <= before
        kinds = {name.partition("/")[0] for name in await asyncio.to_thread(files_with, state, needles)}
        assert {"store", "claims", *({"kafka"} if broker == "kafka" else ())} <= kinds, kinds

        code, printed = await freki_command(freki, "audit", "keys", "make", str(key))
        assert code == 0, printed
        options = ("--tenant", tenant, "--yes", "--key", str(key), "--report", str(report))
        code, printed = await freki_command(freki, "erase", "law", *options, FREKI_LOCAL__STATE_DIR=str(state))
        assert code == 0, printed
        body = json.loads(report.read_text())["report"]
        # Segments close with the next record after `segment.ms`: as the report says.
        await asyncio.sleep(1.5)
        other = "\n\n".join(f"# § {n}\n\nEin anderer Text für Kleingärten der Stufe {n}." for n in range(300))
        for number in (1, 2):
            await publish(freki, upsert(tenant, "large", f"{other} {number}", version=number))
            await publish(freki, upsert(tenant, "small", f"Noch ein anderer Satz: {number}.", version=1 + number))
            await publish(freki, upsert(tenant, "urgent", f"Ein eiliger Satz {number}.", version=number, priority=9))
            await send_letter(freki, tenant, "small", "Ein anderer Satz.")
            await ask(freki, tenant, "Was bleibt?", deadline_ms=5_000)
            await asyncio.sleep(1.5)
        named = {each["topic"] for each in body["remains"] if "topic" in each}
        assert await asyncio.to_thread(records_with, bootstrap, needles) <= named
        assert not await asyncio.to_thread(files_with, state / "claims", needles)
        # Segments of work topics may hold later records too; these leave with retention, as the report says.
        passing = [topic.name for topic in topics if "compact" not in topic.cleanup]
        if broker == "kafka":
            await asyncio.to_thread(configure, freki.settings, passing, {**SOON, "retention.ms": "1000"})

    # What remains in the file of the store goes with the next start, which the report says.
    assert ["started again" in each["until"] for each in body["remains"] if "store" in each] == [True]
    async with running(tmp_path, broker, workers=()) as freki:
        bootstrap, deadline = freki.settings.kafka.bootstrap, time.monotonic() + PATIENCE_S
        left = {"all"}
        while left and time.monotonic() < deadline:
            await asyncio.sleep(2)
            left = await asyncio.to_thread(files_with, state, needles)
        assert not left
        assert not await asyncio.to_thread(records_with, bootstrap, needles)
    if broker == "kafka":
        promised = max(each["until_ms"] for each in body["remains"] if each.get("until_ms"))
        assert time.time() * 1000 < promised


def raise_partitions(settings: Settings, topic: str, count: int) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)) as admin:
        admin.create_partitions({topic: NewPartitions(count)})


@pytest.mark.usefixtures("environment")
async def test_what_an_erased_and_a_corrected_document_said_goes_also_from_the_partition_that_they_had_before(
    tmp_path: Path,
) -> None:
    tenant, state, key = f"erase-{secrets.token_hex(4)}", tmp_path / "state", tmp_path / "key.pem"
    async with running(tmp_path, "kafka") as freki:
        topic, bootstrap = topics_of(freki.settings).documents.name, freki.settings.kafka.bootstrap
        moved = [name for name in map(str, range(100)) if partition_of(tenant, name)][:3]
        erased, corrected, other = moved
        stays = next(name for name in map(str, range(100)) if not partition_of(tenant, name))
        for name in (erased, corrected):
            await publish(freki, upsert(tenant, name, f"Zuerst galt für {name} ein anderer Satz."))
        await asyncio.to_thread(raise_partitions, freki.settings, topic, PARTITIONS)
        for name in (erased, corrected, other):
            await publish(freki, upsert(tenant, name, f"Danach gilt für {name} dieser Satz.", version=2))
        code, printed = await freki_command(freki, "audit", "keys", "make", str(key))
        assert code == 0, printed
        options = ("--tenant", tenant, "--yes", "--key", str(key), "--report")
        local = {"FREKI_LOCAL__STATE_DIR": str(state)}
        for command, name in (("erase", erased), ("rectify", corrected)):
            code, printed = await freki_command(freki, command, name, *options, str(tmp_path / command), **local)
            assert code == 0, printed
            remains = json.loads((tmp_path / command).read_text())["report"]["remains"]
            assert all(each["until_ms"] for each in remains if each.get("topic") == topic)

        await asyncio.to_thread(configure, freki.settings, [topic], SOON)
        old, deadline = [f"Zuerst galt für {name} ".encode() for name in moved], time.monotonic() + PATIENCE_S
        version = 2
        while topic in await asyncio.to_thread(records_with, bootstrap, old):
            assert time.monotonic() < deadline
            await asyncio.sleep(1.5)
            version += 1
            await publish(freki, upsert(tenant, stays, f"Noch ein Satz: {version}.", version=version))
        assert topic in await asyncio.to_thread(records_with, bootstrap, [f"Danach gilt für {corrected} ".encode()])
        code, printed = await freki_command(freki, "ask", "Was gilt danach?", "--tenant", tenant)
        assert f"Danach gilt für {corrected}" in printed
        assert f"für {erased}" not in printed
