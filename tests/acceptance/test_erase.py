"""Erasure: nothing of a document is left where the report says so, found by reading bytes rather than by Freki."""

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from freki.infra.claims import ClaimStore
from freki.infra.kafka import Reader
from freki.operators.identify import record_key, root_id
from freki.schemas import (
    Coverage,
    DocumentChange,
    DocumentId,
    ErasureReport,
    ErasureRequest,
    ErasureStatus,
    TenantId,
)
from freki.schemas.avro import Codec
from freki.streams.deliver.dead_letters import DeadLetter, to_record
from freki.streams.messages import Outgoing
from freki.streams.privacy.requests import report_key
from freki.streams.wire.connect import open_generations, open_index, open_outbox
from freki.streams.wire.from_settings import settings_named, topics_of, wall_clock
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import (
    PATIENCE_S,
    ask,
    documents,
    environment,
    freki_command,
    freki_process,
    publish,
    upsert,
)
from tests.unit.deliveries import dead_letter


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
    return dead_letter(
        key=record_key(change.tenant, change.document_id),
        value=Codec(DocumentChange).encode(change),
        topic=topics_of(freki.settings).documents.name,
        offset=1_000_000,
        timestamp=wall_clock(),
        message="made for the test",
        died_at=wall_clock(),
    )


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
    store, folder = ClaimStore(small), root_id(TenantId(tenant), DocumentId("law"))
    # As if compaction had removed the record that named it.
    await store.put(f"Früher galt: {mark}.".encode(), document=folder, version=1)
    # A publisher writes the claim of a later version before its record, and this one died then.
    await store.put(f"Danach gilt: {mark}.".encode(), document=folder, version=3)
    claims = files_with(directory, mark.encode())
    assert len(claims) == 3
    before = await raw(freki, mark.encode())
    assert {topics_of(freki.settings).documents.name, topic} <= set(before)

    key, public, report = tmp_path / "key.pem", tmp_path / "key.pub", tmp_path / "report.json"
    code, printed = await freki_process(freki, "audit", "keys", "make", str(key))
    assert code == 0, printed
    public.write_text(printed)
    options = ("--tenant", tenant, "--yes", "--key", str(key), "--report", str(report))
    stack = str(freki.settings.local.state_dir)
    code, printed = await freki_process(freki, "erase", "law", *options, FREKI_LOCAL__STATE_DIR=stack)
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
    assert body["documents"] == [{"id": "law", "version": 3}]
    assert body["left"]["rows"] == {}
    assert body["left"]["claims"] == body["unpublished"] == []
    # Rows that the store has deleted can remain in its file, which the report says.
    assert ["started again" in each["until"] for each in body["remains"] if "store" in each] == [True]

    code, printed = await freki_process(freki, "erase", "verify", str(report), "--public-key", str(public))
    assert "the signature is right" in printed
    assert code == (1 if left.keys() - {topics_of(freki.settings).queries.name} else 0), printed
    report.write_text(text.replace('"version": 3', '"version": 1'))
    code, printed = await freki_process(freki, "erase", "verify", str(report), "--public-key", str(public))
    assert code == 1
    assert "not signed" in printed
    # The fence stays: a late change of such a version does not bring the document back.
    for version in (1, 3):
        outcomes = await publish(freki, upsert(tenant, "law", law(mark, paragraphs=1), version=version))
        assert [each.status.value for each in outcomes] == ["STALE"]


@asynccontextmanager
async def erasing(freki: Freki, tmp_path: Path, key: Path, **variables: str) -> AsyncIterator[Path]:
    """Run a worker that erases what is requested, and kill it without notice at the end; give its ready file."""
    ready = tmp_path / f"ready-{secrets.token_hex(4)}"
    settings = {
        "FREKI_ERASURE__ENABLED": "true",
        "FREKI_ERASURE__KEY_FILE": str(key),
        "FREKI_ERASURE__LOOK_S": "1",
        "FREKI_READY_FILE": str(ready),
        "FREKI_LOCAL__STATE_DIR": str(tmp_path / "state"),
        **variables,
    }
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "freki", "worker", "erase", env={**environment(freki), **settings}
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not ready.exists():
                assert child.returncode is None
                await asyncio.sleep(0.1)
        yield ready
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def report_on(freki: Freki, request: ErasureRequest, *statuses: ErasureStatus) -> ErasureReport:
    """Wait until the last report on a request has one of these states."""
    topic, decode = topics_of(freki.settings).erasure_reports.name, Codec(ErasureReport).decode
    async with Reader(freki.settings.kafka, topic, start="earliest") as reader, asyncio.timeout(PATIENCE_S):
        async for stored in reader:
            if stored.key == report_key(request.tenant, request.request_id):
                report = decode(stored.value or b"")
                if report.status in statuses:
                    return report
    raise AssertionError


async def published(freki: Freki) -> tuple[str, str]:
    """Publish two documents of a subject and another one, in a tenant of their own; give tenant and subject."""
    tenant, mark = f"rights-{secrets.token_hex(4)}", f"Tilgung{secrets.token_hex(4)}"
    attributes = {"subject": mark}
    deadline = f"# Frist\n\nDie Frist für {mark} endet am Montag nach der Sitzung des Ausschusses."
    await publish(
        freki,
        upsert(tenant, "one", law(mark, paragraphs=2), attributes=attributes),
        upsert(tenant, "two", deadline, attributes=attributes),
        upsert(tenant, "other", "# Pacht\n\nDie Pacht der Gärten ist im Voraus zu zahlen."),
    )
    return tenant, mark


def output_of(ended: tuple[int, str]) -> str:
    """Give what a command printed that succeeded."""
    code, printed = ended
    assert code == 0, printed
    return printed


async def done(freki: Freki, *arguments: str, **variables: str) -> str:
    """Run a command that succeeds; give what it printed."""
    return output_of(await freki_command(freki, *arguments, **variables))


async def test_an_objection_counts_at_once_a_hold_shows_and_a_person_gets_all_that_is_held(freki: Freki) -> None:
    tenant, mark = await published(freki)
    of = ("--tenant", tenant)

    # An objection counts within a second in the worker that answers, and is lifted as fast.
    assert set(documents(await ask(freki, tenant, f"Was gilt für {mark}?"))) >= {"one", "two"}
    subject = ("--attribute", f"subject={mark}")
    output_of(await freki_process(freki, "object", "set", "case", *subject, "--reason", "§ 21", *of))
    await asyncio.sleep(1.0)
    assert documents(await ask(freki, tenant, f"Was gilt für {mark}?")) == ["other"]
    assert "case: answers leave it out" in await done(freki, "documents", "show", "one", *of)
    await done(freki, "object", "lift", "case", *of)
    await asyncio.sleep(1.0)
    assert set(documents(await ask(freki, tenant, f"Was gilt für {mark}?"))) >= {"one", "two"}

    # What is held is said everywhere.
    output_of(await freki_process(freki, "hold", "set", "court", "two", "--reason", "4 K 1/26", *of))
    assert "held: court" in await done(freki, "documents", "list", *of)
    assert "court: erasure and retention wait" in await done(freki, "documents", "show", "two", *of)
    assert "4 K 1/26" in await done(freki, "hold", "list", *of)
    # Who adds a document under the same name is told that the other one is free.
    assert "court replaced one that named two" in await done(freki, "hold", "set", "court", "one", "--reason", "x", *of)
    both = ("hold", "set", "court", "one", "two", "--reason", "4 K 1/26", *of)
    assert "replaced" not in await done(freki, *both)

    # All that is held about the subject.
    told = [json.loads(line) for line in (output_of(await freki_process(freki, "access", *subject, *of))).splitlines()]
    assert {each["document_id"] for each in told if each["what"] == "document"} == {"one", "two"}
    assert {each["document_id"] for each in told if each["what"] == "version"} == {"one", "two"}
    assert any(mark in each.get("text", "") for each in told if each["what"] == "chunk")
    assert told[-1]["what"] == "end"
    assert "log files, and traces with content" in told[-1]["not_searched"]
    assert any("requests and reports of erasures" in each for each in told[-1]["not_searched"])


async def test_a_change_that_was_never_valid_holds_up_no_erasure(freki: Freki, tmp_path: Path) -> None:
    tenant, mark = (f"{name}{secrets.token_hex(4)}" for name in ("never-", "Fehler"))
    await publish(freki, upsert(tenant, "law", law(mark)))
    wrong = upsert(tenant, "never", law(mark), version=0)
    topic, value = topics_of(freki.settings).documents.name, Codec(DocumentChange).encode(wrong)
    async with open_outbox(freki.settings) as (outbox, _):
        await outbox.send(Outgoing(topic=topic, key=record_key(wrong.tenant, wrong.document_id), value=value))
    key, report = tmp_path / "key.pem", tmp_path / "report.json"
    await done(freki, "audit", "keys", "make", str(key))

    options = ("--tenant", tenant, "--yes", "--key", str(key), "--report", str(report))
    await done(freki, "erase", *options)

    body = json.loads(report.read_text())["report"]
    assert body["documents"] == [{"id": "law", "version": 1}, {"id": "never", "version": 0}]
    # Generations of other tests may have no workers.
    assert [unread for unread in body["unread"] if unread["is_in_use"]] == []
    assert set(await raw(freki, mark.encode())) <= {each.get("topic") for each in body["remains"]}


async def test_a_person_is_not_told_what_a_later_version_says_of_another_and_which_generations_have_more(
    freki: Freki,
) -> None:
    tenant, mine, theirs = (f"{name}{secrets.token_hex(4)}" for name in ("access-", "Meine", "Fremde"))
    small = freki.settings.claims.model_copy(update={"inline_bytes": 600})
    writer = replace(freki, settings=freki.settings.model_copy(update={"claims": small}))
    await publish(writer, upsert(tenant, "law", law(mine, paragraphs=20), attributes={"subject": mine}))
    await publish(writer, upsert(tenant, "law", law(theirs, paragraphs=20), version=2, attributes={"subject": theirs}))
    await ask(freki, tenant, f"Was gilt für {theirs}3?")
    other = settings_named(freki.settings, "access")
    async with open_index(freki.settings) as index, open_index(other, creates=True) as beside:
        key = root_id(TenantId(tenant), DocumentId("law"))
        await beside.commit([(await index.roots([key]))[key]], [])
    try:
        told = await done(freki, "access", "--attribute", f"subject={mine}", "--tenant", tenant)
        whole = await done(freki, "access", "law", "--tenant", tenant)
    finally:
        async with open_generations(freki.settings) as log:
            await log.drop("access")

    items, end = [json.loads(line) for line in told.splitlines()], json.loads(told.splitlines()[-1])
    assert mine in told
    assert theirs not in told
    assert {each["version"] for each in items if each["what"] in ("version", "claim", "receipt", "chunk")} == {1}
    assert end["withheld"]["law"] > 0
    assert any("generation access (rows: 1)" in each for each in end["not_searched"])
    assert (mine in whole, theirs in whole) == (True, True)
    assert json.loads(whole.splitlines()[-1])["withheld"] == {}


async def test_a_change_that_cannot_be_decoded_here_goes_by_its_key_and_nothing_counts_as_whole(
    freki: Freki, tmp_path: Path
) -> None:
    tenant, mark = (f"{name}{secrets.token_hex(4)}" for name in ("unread-", "Schema"))
    await publish(freki, upsert(tenant, "law", law(mark), attributes={"subject": mark}))
    registered = upsert(tenant, "other", law(mark), attributes={"subject": mark})
    value = b"\x00\x00\x00\x00\x07" + Codec(DocumentChange).encode(registered)[10:]
    topic, key = topics_of(freki.settings).documents.name, record_key(registered.tenant, registered.document_id)
    async with open_outbox(freki.settings) as (outbox, _):
        await outbox.send(Outgoing(topic=topic, key=key, value=value))
    of, signer = ("--tenant", tenant), tmp_path / "key.pem"
    await done(freki, "audit", "keys", "make", str(signer))

    code, printed = await freki_command(freki, "access", "--attribute", f"subject={mark}", *of)
    [end] = [item for line in printed.splitlines() if (item := json.loads(line))["what"] == "end"]
    assert (code, end["documents"]) == (1, 1)
    assert "FREKI_REGISTRY__URL" in str(end["undecodable"])
    for number, what in enumerate((("--attribute", f"subject={mark}"), ("other",))):
        report = tmp_path / f"report-{number}.json"
        options = (*of, "--yes", "--key", str(signer), "--report", str(report))
        code, printed = await freki_command(freki, "erase", *what, *options)
        assert code == 1, printed
        assert "FREKI_REGISTRY__URL" in printed
        body = json.loads(report.read_text())["report"]
        assert [each["id"] for each in body["documents"]] == [("law", "other")[number]]
        assert (bool(body["undecided"]), bool(body["undecodable"])) == (number == 0, number == 1)


async def test_what_older_versions_said_is_gone_once_a_corrected_one_is_searchable(
    freki: Freki, tmp_path: Path
) -> None:
    tenant, wrong, right = (f"{name}{secrets.token_hex(4)}" for name in ("rights-", "Irrtum", "Wahrheit"))
    small = freki.settings.claims.model_copy(update={"inline_bytes": 600})
    writer = replace(freki, settings=freki.settings.model_copy(update={"claims": small}))
    await publish(writer, upsert(tenant, "law", law(wrong, paragraphs=20)))
    await publish(writer, upsert(tenant, "law", law(right, paragraphs=20), version=2))
    directory = Path(str(freki.settings.claims.directory).removeprefix("file://"))
    assert files_with(directory, wrong.encode())
    key, public, report = tmp_path / "key.pem", tmp_path / "key.pub", tmp_path / "report.json"
    public.write_text(await done(freki, "audit", "keys", "make", str(key)))

    options = ("--tenant", tenant, "--yes", "--key", str(key), "--report", str(report))
    output_of(await freki_process(freki, "rectify", "law", *options))

    assert not files_with(directory, wrong.encode())
    assert files_with(directory, right.encode())
    body = json.loads(report.read_text())["report"]
    assert body["documents"] == [{"id": "law", "version": 2}]
    assert set(await raw(freki, wrong.encode())) <= {each.get("topic") for each in body["remains"]}
    assert documents(await ask(freki, tenant, f"Was gilt für {right}3?")) == ["law"]
    _, printed = await freki_command(freki, "erase", "verify", str(report), "--public-key", str(public))
    assert "the signature is right" in printed


async def test_a_request_waits_for_a_hold_survives_kills_and_leaves_a_report_that_can_be_verified(
    freki: Freki, tmp_path: Path
) -> None:
    tenant, mark = await published(freki)
    attributes, of = {"subject": mark}, ("--tenant", tenant)
    key, public = tmp_path / "key.pem", tmp_path / "key.pub"
    public.write_text(await done(freki, "audit", "keys", "make", str(key)))
    output_of(await freki_process(freki, "hold", "set", "court", "two", "--reason", "4 K 1/26", *of))

    # Rules of retention: what is due, what is held.
    rule = {"name": "old", "tenant": tenant, "attributes": attributes, "after_days": 0.000001, "action": "erase"}
    rules = {"FREKI_RETENTION__RULES": json.dumps([rule]), "FREKI_ERASURE__KEY_FILE": str(key)}
    printed = output_of(await freki_process(freki, "retention", "check", "--json", **rules))
    due = {each["document_id"]: each["held"] for each in map(json.loads, printed.splitlines())}
    assert due == {"one": [], "two": ["court"]}

    request = ErasureRequest(
        request_id=secrets.token_hex(8),
        tenant=TenantId(tenant),
        covers=Coverage(attributes=attributes),
        requested_at=wall_clock(),
    )
    async with open_outbox(freki.settings) as (outbox, _):
        await outbox.send(
            Outgoing(
                topic=topics_of(freki.settings).erasure_requests.name,
                key=request.request_id.encode(),
                value=Codec(ErasureRequest).encode(request),
            )
        )
    async with erasing(freki, tmp_path, key):
        begun = await report_on(freki, request, ErasureStatus.BEGUN)
    assert [each.document_id for each in begun.documents] == ["one", "two"]
    # That one was killed while it erased; this one goes on.
    async with erasing(freki, tmp_path, key):
        held = await report_on(freki, request, ErasureStatus.HELD)
        assert held.held == ("two",)
        assert set(documents(await ask(freki, tenant, f"Was gilt für {mark}?"))) == {"two", "other"}
        await done(freki, "hold", "release", "court", *of)
        ended = await report_on(freki, request, ErasureStatus.ERASED)
    assert documents(await ask(freki, tenant, f"Was gilt für {mark}?")) == ["other"]
    assert ended.covers == Coverage(attributes={"subject": ""})
    erased = [document["id"] for one in ended.reports for document in json.loads(one.report)["documents"]]
    assert erased == ["one", "two"]
    for number, one in enumerate(ended.reports):
        assert mark not in one.report
        path = tmp_path / f"report-{number}.json"
        path.write_text(json.dumps({"report": json.loads(one.report), "signature": one.signature}))
        _, printed = await freki_command(freki, "erase", "verify", str(path), "--public-key", str(public))
        assert "the signature is right" in printed
    assert "0 deleted, 0 erased, 0 held" in await done(freki, "retention", "run", **rules)
