"""The life of documents as operators see it: listed, shown, deleted, reindexed and mended."""

import asyncio
import json
import secrets
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.schemas import (
    DocumentId,
    DocumentQuery,
    DocumentQueryKind,
    DocumentReport,
    QueryId,
    ReportStatus,
    RootId,
    TenantId,
)
from freki.schemas.index import Root
from freki.streams.messages import Outgoing
from freki.streams.wire.connect import open_document_asker, open_index, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import ONE_WORKER, Children, Freki
from tests.acceptance.helpers import (
    PATIENCE_S,
    ask,
    delete,
    documents,
    freki_command,
    freki_process,
    publish,
    upsert,
    verify,
)

LEAVE = "# Urlaub\n\nDer Urlaub ist bei der Leitung zu beantragen.\n\n## Dauer\n\nEs sind dreißig Tage im Jahr.\n"


@pytest.fixture
def tenant(monkeypatch: pytest.MonkeyPatch) -> str:
    """Give each test documents of its own."""
    name = f"life-{secrets.token_hex(4)}"
    monkeypatch.setenv("FREKI_TENANT", name)
    return name


async def root_in(freki: Freki, key: RootId) -> Root:
    async with open_index(freki.settings) as index:
        return (await index.roots([key]))[key]


def key_of(tenant: str, document: str) -> RootId:
    return root_id(TenantId(tenant), DocumentId(document))


async def test_documents_are_listed_by_pages_and_conditions(freki: Freki, tenant: str) -> None:
    await publish(
        freki,
        upsert(tenant, "handbook/leave.md", LEAVE, source_uri="file:///wiki/leave.md", attributes={"team": "people"}),
        upsert(tenant, "handbook/travel.md", "# Travel\n\nThe fare by train is paid.\n", principals=("staff",)),
        upsert(tenant, "notes/1", "Eine Notiz."),
        upsert(tenant, "notes/2", "Noch eine."),
    )
    await publish(freki, delete(tenant, "notes/2", version=2))

    async def listed(*arguments: str) -> list[str]:
        code, printed = await freki_command(freki, "documents", "list", "--json", *arguments)
        assert code == 0, printed
        return [json.loads(line)["document_id"] for line in printed.splitlines() if line.strip()]

    assert await listed() == ["handbook/leave.md", "handbook/travel.md", "notes/1"]
    assert await listed("--limit", "1", "--after", "handbook/leave.md") == ["handbook/travel.md"]
    assert await listed("--prefix", "handbook/") == ["handbook/leave.md", "handbook/travel.md"]
    assert await listed("--source", "file:///wiki/") == ["handbook/leave.md"]
    assert await listed("--principal", "staff") == ["handbook/travel.md"]
    assert await listed("--attribute", "team=people") == ["handbook/leave.md"]
    assert await listed("--language", "en") == ["handbook/travel.md"]
    assert await listed("--deleted") == ["notes/2"]
    assert await listed("--tenant", "nobody") == []
    _, table = await freki_command(freki, "documents", "list", "--limit", "2")
    assert "2 of 3 documents" in table
    assert "next page: --after 'handbook/travel.md'" in table


async def test_a_document_is_shown_with_its_chunks_its_readers_and_what_became_of_its_changes(
    freki: Freki, tenant: str
) -> None:
    await publish(freki, upsert(tenant, "leave.md", LEAVE, principals=("staff", "board")))
    await publish(freki, upsert(tenant, "leave.md", f"{LEAVE}\nUnd einer mehr.\n", version=2, principals=("staff",)))

    code, shown = await freki_process(freki, "documents", "show", "leave.md", "--json")
    document = json.loads(shown)
    _, page = await freki_command(freki, "documents", "show", "leave.md")
    _, history = await freki_command(freki, "documents", "history", "leave.md", "--json")
    unknown = await freki_command(freki, "documents", "show", "unknown.md")

    assert code == 0
    assert (document["version"], document["principals"]) == (2, ["staff"])
    assert document["made_by_these_settings"]
    assert sum(document["counts"]["kinds"].values()) == document["chunks"] == len(document["shown_chunks"])
    assert [receipt["status"] for receipt in document["receipts"]] == ["INDEXED", "INDEXED"]
    assert "these settings" in page
    assert "dreißig Tage" in page
    entries = [json.loads(line) for line in history.splitlines() if line.strip()]
    assert sorted((entry["what"], entry["version"]) for entry in entries) == [
        ("change", 1),
        ("change", 2),
        ("indexed", 1),
        ("indexed", 2),
    ]
    assert unknown[0] == 1
    assert "freki documents list" in unknown[1]


async def test_services_list_and_show_documents_within_the_rights_of_who_asks(freki: Freki, tenant: str) -> None:
    await publish(
        freki,
        upsert(tenant, "handbook/leave.md", LEAVE),
        upsert(tenant, "handbook/pay.md", "# Gehalt\n\nEs wird am Ersten gezahlt.\n", principals=("board",)),
        upsert(tenant, "notes/1", "Eine Notiz."),
    )
    await publish(freki, upsert(tenant, "handbook/leave.md", f"{LEAVE}\nUnd einer mehr.\n", version=2))

    async with open_document_asker(freki.settings) as asker:

        async def told(kind: DocumentQueryKind, **fields: Any) -> DocumentReport:
            query_id = QueryId(secrets.token_hex(8))
            asked = DocumentQuery(
                query_id=query_id, tenant=TenantId(tenant), kind=kind, asked_at=wall_clock(), **fields
            )
            return await asker.ask(asked, patience_s=PATIENCE_S)

        first = await told(DocumentQueryKind.LIST, limit=1)
        second = await told(DocumentQueryKind.LIST, limit=1, cursor=first.next)
        board = await told(DocumentQueryKind.LIST, prefix="handbook/", principals=("board",))
        shown = await told(DocumentQueryKind.SHOW, document_id=DocumentId("handbook/leave.md"))
        hidden = await told(DocumentQueryKind.SHOW, document_id=DocumentId("handbook/pay.md"))
        history = await told(DocumentQueryKind.HISTORY, document_id=DocumentId("handbook/leave.md"))
        wrong = await told(DocumentQueryKind.SHOW)
        broken = await asker._answered(
            b"broken",
            Outgoing(topic=asker._queries.topic, key=b"broken", value=b"no record"),
            patience_s=PATIENCE_S,
        )
    _, listed = await freki_command(freki, "documents", "list", "--json", "--prefix", "handbook/leave.md")
    _, events = await freki_command(freki, "documents", "history", "handbook/leave.md", "--json")

    assert [each.document_id for page in (first, second) for each in page.documents] == ["handbook/leave.md", "notes/1"]
    assert (first.total, first.next, second.next) == (2, "handbook/leave.md", None)
    assert [each.document_id for each in board.documents] == ["handbook/leave.md", "handbook/pay.md"]
    assert "dreißig Tage" in "".join(chunk.text for chunk in shown.chunks)
    assert shown.counts is not None
    assert sum(shown.counts.kinds.values()) == shown.total == len(shown.chunks)
    assert hidden.status is ReportStatus.NOT_FOUND
    assert (wrong.status, "document_id" in wrong.message) == (ReportStatus.REJECTED, True)
    assert (broken.query_id, broken.status) == ("broken", ReportStatus.REJECTED)
    # Both ways tell the same.
    cases: dict[str, list[str]] = {"holds": [], "objections": []}
    assert json.loads(listed) == json.loads(json.dumps({"tenant": tenant, **asdict(shown.documents[0]), **cases}))
    assert [json.loads(line) for line in events.splitlines() if line.strip()] == [
        asdict(event) for event in history.events
    ]
    assert await verify(freki) == 0


async def test_documents_are_deleted_by_id_and_by_conditions(freki: Freki, tenant: str) -> None:
    await publish(freki, *(upsert(tenant, f"old/{number}", f"Der alte Text {number}.") for number in range(3)))

    by_id = await freki_process(freki, "delete", "old/0", "--wait")
    unasked = await freki_command(freki, "delete", "--prefix", "old/")
    by_prefix = await freki_command(freki, "delete", "--prefix", "old/", "--yes", "--wait")
    everything = await freki_command(freki, "delete")
    (again,) = await publish(freki, upsert(tenant, "old/0", "Der Text ist wieder da.", version=2))

    assert by_id[0] == 0
    assert "1 deleted" in by_id[1]
    assert unasked[0] == 2
    assert "this would delete 2 documents: give --yes" in unasked[1]
    assert by_prefix[0] == 0
    assert "2 deleted" in by_prefix[1]
    assert everything[0] == 2
    assert again.status == "INDEXED"
    assert documents(await ask(freki, tenant, "Der alte Text")) == ["old/0"]
    assert await verify(freki) == 0


async def test_documents_made_with_other_settings_are_told_and_made_anew(
    freki: Freki, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(freki, upsert(tenant, "leave.md", LEAVE), upsert(tenant, "travel.md", "# Reisen\n\nMit der Bahn.\n"))
    nothing = await freki_command(freki, "reindex")
    unmet = await freki_command(freki, "reindex", "--prefix", "rules/", "--force")
    forced = await freki_process(freki, "reindex", "--force", "--yes")
    named = await freki_process(freki, "reindex", "leave.md")
    root = await root_in(freki, key_of(tenant, "leave.md"))
    _, history = await freki_command(freki, "documents", "history", "leave.md")

    # As if the settings had changed since.
    monkeypatch.setenv("FREKI_CHUNKING__MARKDOWN__MAX_CHARS", "400")
    _, status = await freki_command(freki, "status")
    _, verified = await freki_command(freki, "verify")
    _, listed = await freki_command(freki, "documents", "list", "--otherwise", "--json")
    in_vain = await freki_process(freki, "reindex", "--yes")

    assert f"nothing to reindex: tenant {tenant} has no document that was made with other settings" in nothing[1]
    assert f"tenant {tenant} has no document that meets these conditions; --tenant selects another" in unmet[1]
    assert forced[0] == named[0] == 0, forced[1] + named[1]
    assert "2 indexed" in forced[1]
    assert "1 indexed" in named[1]
    assert root.version == 1
    assert root.edition > 1_700_000_000_000
    assert "to reindex it" in history
    assert "documents were made with other settings of chunks or contexts" in status
    assert "of one tenant at a time (--tenant)" in " ".join(status.split())
    assert "documents were made with other settings of chunks or contexts" in verified
    assert listed.count('"document_id"') == 2
    assert in_vain[0] == 1, in_vain[1]
    assert "2 documents were made with other settings again: workers have others than this command" in in_vain[1]


async def test_verify_mends_what_it_finds_and_says_what_it_did(freki: Freki, tenant: str) -> None:
    names = ["holes.md", "lost.md", "whole.md"]
    await publish(freki, *(upsert(tenant, name, f"{LEAVE}\nAlles über {name}.\n") for name in names))
    rejected = upsert(tenant, "scan.pdf", b"%PDF-1.4 but no page", name="scan.pdf", media_type="application/pdf")
    await publish(freki, rejected)
    roots = {name: await root_in(freki, key_of(tenant, name)) for name in names}
    async with open_index(freki.settings) as index:
        rows = (await index.rows_of([roots["holes.md"].root_id]))[roots["holes.md"].root_id]
        await index.delete([rows[0].row_id])
        await index.discard([], [roots["lost.md"].commit_id])
        stranger = DocumentId("unknown.md")
        key = key_of(tenant, stranger)
        # Later than all of the topic: otherwise its change could have been there before the topic was emptied.
        unknown = replace(
            roots["whole.md"], root_id=key, document_id=stranger, pages=(), chunks=0, recorded_at=wall_clock()
        )
        await index.commit([unknown], [])

    before = await freki_command(freki, "verify")
    mended = await freki_process(freki, "verify", "--repair")

    assert before[0] == 1
    assert f"{tenant}/holes.md  rows missing: 1 of 1" in before[1]
    assert f"{tenant}/lost.md  version 1 is not in the index" in before[1]
    assert f"{tenant}/unknown.md  is searchable, but not in the stream" in before[1]
    assert "whose last change was rejected" in before[1]
    assert mended[0] == 0, mended[1]
    assert f"{tenant}/holes.md  reindexed: version 1" in mended[1]
    assert f"{tenant}/lost.md  reindexed: version 1" in mended[1]
    assert f"{tenant}/unknown.md  deleted at version 1" in mended[1]
    assert "after the repair: 0 differences" in mended[1]
    assert (await root_in(freki, key_of(tenant, "whole.md"))) == roots["whole.md"]


async def test_verify_beside_a_stream_of_changes_finds_no_difference(freki: Freki, tenant: str) -> None:
    stop = asyncio.Event()

    async def edit() -> None:
        async with open_receipts(freki.settings) as receipts, open_publisher(freki.settings) as publisher:
            for version in count(1):
                changes = [
                    upsert(tenant, f"note-{number}.md", f"# Notiz {number}\n\nStand {version}.", version=version)
                    for number in range(20)
                ]
                for change in changes:
                    receipts.expect(change)
                    await publisher.publish(change)
                    await asyncio.sleep(0.05)
                # As fast as workers index on this machine, so that they never fall behind.
                for _ in changes:
                    await receipts.next(patience_s=PATIENCE_S)
                if stop.is_set():
                    return

    editing = asyncio.create_task(edit())
    code, printed = await freki_command(freki, "verify")
    stop.set()
    await editing

    assert "0 differences" in printed
    assert code == 0, printed


async def test_after_a_restart_of_the_local_broker_verify_says_that_topics_are_gone_and_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FREKI_TENANT", "home")
    settings = Settings(local=Settings().local.elsewhere(tmp_path / "state"))
    async with LocalStack(settings, report=Children().report, prepare=apply_topics, workers=ONE_WORKER) as stack:
        first = Freki(settings_for(settings, stack.state), Children())
        await publish(first, *(upsert("home", f"note/{number}", f"Notiz {number}.") for number in range(3)))

    async with LocalStack(settings, report=Children().report, prepare=apply_topics, workers=ONE_WORKER) as stack:
        again = Freki(settings_for(settings, stack.state), Children())
        empty = await freki_process(again, "verify", "--repair")
        await publish(again, upsert("home", "note/0", "Notiz 0, neu.", version=2))
        partly = await freki_process(again, "verify", "--repair")
        _, anew = await freki_process(again, "reindex", "note/1")
        _, listed = await freki_command(again, "documents", "list", "--json")

    assert empty[0] == partly[0] == 1
    assert "the changes of 3 documents are gone from the topics" in empty[1].replace("\n", " ")
    assert "Publish them again" in empty[1]
    assert "the changes of 2 documents are gone from the topics" in partly[1].replace("\n", " ")
    assert "0 differences" in partly[1]
    assert "its stored change is not on the topic any more" in anew
    assert listed.count('"document_id"') == 3
