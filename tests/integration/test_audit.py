"""The audit log on a broker: what a dead process left is sent and ended by the next one."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from freki.infra.audit import read_chains
from freki.infra.kafka import Reader
from freki.infra.settings import AuditSettings, KafkaSettings, Settings
from freki.infra.signing import SigningKey, make_key
from freki.operators.audit_chain import Event, check_chains
from freki.schemas import AuditEntry, AuditKind
from freki.schemas.avro import Codec
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
