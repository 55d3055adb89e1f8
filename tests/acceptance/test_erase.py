"""Erasure: nothing of a document is left where the report says so, found by reading bytes rather than by Freki."""

import json
import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from freki.infra.kafka import Reader
from freki.operators.identify import record_key
from freki.schemas import DocumentChange, Timestamp
from freki.schemas.avro import Codec
from freki.streams.deliver.dead_letters import DeadLetter, to_record
from freki.streams.wire.connect import open_outbox
from freki.streams.wire.from_settings import topics_of, wall_clock
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import ask, publish, upsert
from tests.acceptance.test_command_line import freki_command


def law(mark: str, *, paragraphs: int = 8) -> str:
    """Make a text whose every sentence has the mark."""
    return "\n\n".join(f"# § {n}\n\nDer Satz {mark}{n} gilt für Kleingärten der Stufe {n}." for n in range(paragraphs))


def files_with(directory: Path, needle: bytes) -> list[Path]:
    """Return the files with these bytes."""
    return [path for path in directory.rglob("*") if path.is_file() and needle in path.read_bytes()]


async def raw(freki: Freki, needle: bytes) -> dict[str, int]:
    """Count the records with these bytes by topic, whatever they mean."""
    found: dict[str, int] = {}
    for topic in topics_of(freki.settings):
        async with Reader(freki.settings.kafka, topic.name, start="earliest") as reader:
            async for record in reader.until_end():
                if needle in (record.value or b"") or needle in (record.key or b""):
                    found[topic.name] = found.get(topic.name, 0) + 1
    return found


def letter_of(freki: Freki, change: DocumentChange) -> DeadLetter:
    return DeadLetter(
        key=record_key(change.tenant, change.document_id),
        value=Codec(DocumentChange).encode(change),
        headers=(),
        topic=topics_of(freki.settings).documents.name,
        partition=0,
        offset=1_000_000,
        timestamp=Timestamp(wall_clock()),
        stage="chunk",
        error="Rejected",
        message="made for the test",
        traceback="",
        attempts=1,
        died_at=Timestamp(wall_clock()),
    )


# A minute on an idle machine.
@pytest.mark.timeout(600)
async def test_nothing_of_an_erased_document_is_left_but_what_the_report_names(freki: Freki, tmp_path: Path) -> None:
    tenant, mark, other = (f"{name}{secrets.token_hex(4)}" for name in ("erase-", "Tilgung", "Bestand"))
    small = freki.settings.claims.model_copy(update={"inline_bytes": 600})
    writer = replace(freki, settings=freki.settings.model_copy(update={"claims": small}))
    await publish(writer, upsert(tenant, "law", law(mark, paragraphs=3)))
    await publish(writer, upsert(tenant, "law", law(mark, paragraphs=20), version=2, attributes={"kind": mark}))
    await publish(writer, upsert(tenant, "other", law(other)))
    topic = topics_of(freki.settings).dead_letters.name
    async with open_outbox(freki.settings) as (outbox, _):
        for name, text in (("law", mark), ("other", other)):
            await outbox.send(to_record(letter_of(freki, upsert(tenant, name, law(text, paragraphs=1))), topic))
    await ask(freki, tenant, f"Was gilt für {mark}3?")
    directory = Path(str(freki.settings.claims.directory).removeprefix("file://"))
    claims = files_with(directory, mark.encode())
    assert claims
    before = await raw(freki, mark.encode())
    assert {topics_of(freki.settings).documents.name, topic} <= set(before)

    key, public, report = tmp_path / "key.pem", tmp_path / "key.pub", tmp_path / "report.json"
    code, printed = await freki_command(freki, "audit", "keys", "make", str(key))
    assert code == 0, printed
    public.write_text(printed)
    options = ("--tenant", tenant, "--yes", "--key", str(key), "--report", str(report))
    stack = str(freki.settings.local.state_dir)
    code, printed = await freki_command(freki, "erase", "law", *options, FREKI_LOCAL__STATE_DIR=stack)
    assert code == 0, printed

    assert not any(path.exists() for path in claims)
    text = report.read_text()
    assert mark not in text
    body = json.loads(text)["report"]
    left, named = await raw(freki, mark.encode()), {each.get("topic") for each in body["remains"]}
    # The question itself names the mark.
    assert set(left) - {topics_of(freki.settings).queries.name} <= named
    if not any(each["until_ms"] is None for each in body["remains"] if "topic" in each):
        assert topic not in left
        assert set(left) <= {topics_of(freki.settings).documents.name, topics_of(freki.settings).queries.name}
    assert topic in await raw(freki, other.encode())
    assert body["documents"] == [{"id": "law", "version": 2}]
    assert body["left"]["rows"] == {}
    assert body["left"]["claims"] == []
    # Rows that the store has deleted can remain in its file, which the report says.
    assert ["started again" in each["until"] for each in body["remains"] if "store" in each] == [True]

    code, printed = await freki_command(freki, "erase", "verify", str(report), "--public-key", str(public))
    assert "the signature is right" in printed
    assert code == (1 if left.keys() - {topics_of(freki.settings).queries.name} else 0), printed
    report.write_text(text.replace('"version": 2', '"version": 1'))
    code, printed = await freki_command(freki, "erase", "verify", str(report), "--public-key", str(public))
    assert code == 1
    assert "not signed" in printed
    # The fence stays: a late change of a lower version does not bring the document back.
    outcomes = await publish(freki, upsert(tenant, "law", law(mark, paragraphs=1), version=1))
    assert [each.status.value for each in outcomes] == ["STALE"]
