"""The audit log on a broker: the next process sends and ends what a dead one left; file and topic are compared."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from freki.cli.main import app
from freki.infra.audit import create_chain, read_chains
from freki.infra.kafka import Reader
from freki.infra.settings import AuditSettings, KafkaSettings, Settings
from freki.infra.signing import SigningKey, make_key
from freki.operators.audit_chain import GENESIS, Event, check_chains, link, signed
from freki.schemas import AuditEntry, AuditKind, Timestamp
from freki.schemas.avro import Codec
from freki.streams.messages import Outgoing
from freki.streams.wire.audit import open_audit
from freki.streams.wire.connect import open_outbox
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics


@pytest.fixture
async def settings(broker: KafkaSettings, tmp_path: Path) -> Settings:
    make_key(tmp_path / "audit.key")
    audit = AuditSettings(enabled=True, key_file=tmp_path / "audit.key", directory=tmp_path / "log")
    settings = Settings(kafka=broker, audit=audit)
    await apply_topics(settings)
    return settings


async def on_topic(settings: Settings) -> list[AuditEntry]:
    async with Reader(settings.kafka, topics_of(settings).audit.name, start="earliest") as reader:
        return [Codec(AuditEntry).decode(stored.value or b"") async for stored in reader.until_end()]


async def sent_since(settings: Settings, earlier: Sequence[AuditEntry]) -> list[AuditEntry]:
    """Give what came to the topic, by writer: its partitions have no common order."""
    return sorted((entry for entry in await on_topic(settings) if entry not in earlier), key=lambda entry: entry.writer)


async def record(settings: Settings, *events: Event, part: str | None = None) -> None:
    async with open_outbox(settings) as (outbox, _), open_audit(settings, outbox, part=part) as audit:
        assert audit is not None
        await audit.record(*events)


async def test_the_next_process_ends_the_chain_of_a_dead_one_and_names_it(settings: Settings, tmp_path: Path) -> None:
    directory, key = tmp_path / "log", SigningKey.read(tmp_path / "audit.key")
    earlier = await on_topic(settings)
    await record(settings, Event(kind=AuditKind.ASKED, subject="first"), Event(kind=AuditKind.ASKED, subject="second"))
    (path,) = directory.glob("*.jsonl")
    # As if its process had died with its last entry unfinished, before the topic had the one before.
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:50])
    path.with_suffix(".sent").write_text("1\n")

    await record(settings, Event(kind=AuditKind.ASKED, subject="third"))

    sent = await sent_since(settings, earlier)
    dead, alive = sent[0].writer, sent[-1].writer
    again = [entry for entry in sent[4:] if entry.writer == dead]
    assert [(entry.kind, entry.subject) for entry in again] == [(AuditKind.ASKED, "second"), (AuditKind.CLOSED, "")]
    opened = next(entry for entry in sent if entry.writer == alive)
    assert [(end.writer, end.sequence, end.hash) for end in opened.continues] == [(dead, 3, again[-1].hash)]
    files = [entry for _, entry in read_chains([directory]) if isinstance(entry, AuditEntry)]
    reports = check_chains(files, verify=key.verify)
    assert [(report.faults, report.is_closed, report.last) for report in reports] == [((), True, 3), ((), True, 2)]


async def test_other_settings_than_at_the_last_start_are_recorded_by_name(settings: Settings) -> None:
    await record(settings, part="retrieve")
    await record(settings, part="retrieve")
    other = settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update={"top_k": 3})})
    earlier = await on_topic(settings)

    await record(other, part="retrieve")

    sent = await sent_since(settings, earlier)
    assert [(entry.kind, entry.reason) for entry in sent] == [
        (AuditKind.OPENED, ""),
        (AuditKind.SETTINGS, "FREKI_RETRIEVAL__TOP_K"),
        (AuditKind.CLOSED, ""),
    ]


async def test_what_is_cut_off_the_beginning_of_an_old_chain_is_missing_where_the_topic_has_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, previous, entries = f"1600000000000-{tmp_path.name}", GENESIS, list[AuditEntry]()
    key, file = SigningKey.read(tmp_path / "audit.key"), create_chain(tmp_path / "log", writer)
    for sequence, kind in enumerate((AuditKind.OPENED, AuditKind.ASKED, AuditKind.ASKED, AuditKind.CLOSED)):
        event, at = Event(kind=kind), Timestamp(time.time_ns() // 1_000_000)
        entries.append(signed(link(event, writer=writer, sequence=sequence, at=at, previous=previous), key.sign))
        previous = entries[-1].hash
    topic, encode = topics_of(settings).audit.name, Codec(AuditEntry).encode
    async with open_outbox(settings) as (outbox, _):
        await outbox.send(*(Outgoing(topic=topic, key=writer.encode(), value=encode(each)) for each in entries))
    # As if somebody had removed the first two from the file of a process that has run for longer than the retention.
    file.append(entries[2:])
    file.close()
    monkeypatch.setenv("FREKI_KAFKA__BOOTSTRAP", settings.kafka.bootstrap)
    monkeypatch.setenv("FREKI_KAFKA__TOPIC_PREFIX", settings.kafka.topic_prefix)
    monkeypatch.setenv("FREKI_AUDIT__KEY_FILE", str(tmp_path / "audit.key"))

    verify = ["audit", "verify", "--file", str(tmp_path / "log"), "--topic", "--json"]
    result = await asyncio.to_thread(CliRunner().invoke, app, verify)

    reports = [report for line in result.stdout.splitlines() if (report := json.loads(line))["writer"] == writer]
    faults = {each["place"]: [(fault["first"], fault["last"]) for fault in each["faults"]] for each in reports}
    assert (result.exit_code, faults) == (1, {"file": [(0, 1)], "topic": []})
