"""`freki documents`: list the documents of the index, show one, and what became of its changes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from freki.cli.arguments import expanded
from freki.cli.bars import bars
from freki.cli.context import command, console, fail, load_settings
from freki.cli.operate import read_letters
from freki.cli.selection import SelectionArguments, Tenant, page_of, roots_named
from freki.cli.show_document import ChunkView, DocumentView, Entry, show_document, show_history, show_list, time_of
from freki.cli.topic_records import records_of
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.operators.breadcrumb import writer_of
from freki.operators.identify import record_key
from freki.schemas import ChunkId, DocumentChange, DocumentId, IndexOutcome, Operation, TenantId, Timestamp
from freki.schemas.index import ManifestEntry, Root, RowId, StoredRow
from freki.streams.messages import Stored, edition_in, recorded_at, version_in
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import fingerprints_of, topics_of

documents_app = typer.Typer(help="Documents of the index.", no_args_is_help=True)

PAGE = 50
CHUNKS = 20
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead, one object per line")]
Id = Annotated[str, typer.Argument(help="Id of the document, as `freki documents list` shows it")]


@documents_app.command("list")
@command
@expanded
async def list_documents(
    *,
    given: SelectionArguments,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted documents that the index remembers")] = False,
    limit: Annotated[int, typer.Option(help="Documents per page; 0: all", min=0)] = PAGE,
    otherwise: Annotated[
        bool, typer.Option("--otherwise", help="Only documents made with other settings of chunks, contexts or models")
    ] = False,
    after: Annotated[str, typer.Option(help="Begin after this id: the last one of the page before")] = "",
    as_json: AsJson = False,
) -> None:
    """List documents in the order of their ids."""
    settings = load_settings()
    selection = given.selection(settings, deleted=deleted, otherwise=otherwise)
    async with open_index(settings) as index:
        page = await page_of(index, selection, after=after, limit=limit)
    current = fingerprints_of(settings)
    if as_json:
        for root in page.roots:
            console.out(json.dumps(_described(root, current), ensure_ascii=False), highlight=False)
        return
    show_list(console, page, tenant=selection.tenant, current=current)


@documents_app.command("show")
@command
async def show(
    document: Id,
    *,
    tenant: Tenant = None,
    chunks: Annotated[int, typer.Option(help="Chunks to show; 0: all", min=0)] = CHUNKS,
    as_json: AsJson = False,
) -> None:
    """Show one document: where it comes from, who may read it, its chunks, and its receipts."""
    settings = load_settings()
    of = TenantId(tenant or settings.tenant)
    async with open_index(settings) as index:
        (root,) = await roots_named(index, of, [document])
        view = await _view(index, root, chunks)
    with bars() as progress:
        topic = topics_of(settings).outcomes.name
        found = records_of(settings, topic, IndexOutcome, [record_key(of, root.document_id)], progress, "receipts")
        receipts = [(stored.timestamp_ms, outcome) async for stored, outcome in found if outcome is not None]
    current = fingerprints_of(settings)
    if as_json:
        shown = {
            **_described(root, current),
            "pages": len(root.pages),
            "chunk_kinds": view.kinds,
            "chunks_with_explanations": view.explained,
            "chunks_with_model_text": view.written,
            "shown_chunks": [asdict(chunk) for chunk in view.chunks],
            "receipts": [{"recorded_at": at, **asdict(outcome)} for at, outcome in receipts],
        }
        console.out(json.dumps(shown, ensure_ascii=False), highlight=False)
        return
    show_document(console, view, [outcome for _, outcome in receipts], is_current=root.fingerprint in current)


@documents_app.command("history")
@command
async def history(document: Id, *, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show the changes of one document that are still on the topics, their receipts and dead letters, in order."""
    settings = load_settings()
    of = TenantId(tenant or settings.tenant)
    entries = await _history(settings, of, DocumentId(document))
    if not entries:
        fail(
            f"the topics have no record of document {document!r} of tenant {of}: `freki documents list` shows what the"
            " index holds; topics of the local stack are empty after its restart"
        )
    if as_json:
        for entry in entries:
            console.out(json.dumps(asdict(entry), ensure_ascii=False), highlight=False)
        return
    show_history(console, entries)


async def _history(settings: Settings, tenant: TenantId, document_id: DocumentId) -> list[Entry]:
    topics, keys = topics_of(settings), [record_key(tenant, document_id)]
    entries: list[Entry] = []
    with bars() as progress:
        async for stored, change in records_of(
            settings, topics.documents.name, DocumentChange, keys, progress, "changes"
        ):
            entries.append(_change_entry(stored, change))
        async for stored, outcome in records_of(
            settings, topics.outcomes.name, IndexOutcome, keys, progress, "receipts"
        ):
            if outcome is not None:
                entries.append(_receipt_entry(stored, outcome))
    letters = await read_letters(settings)
    entries += [
        Entry(at=letter.died_at, what="dead letter", version=0, detail=f"{place[0]}/{place[1]}: {letter.message}")
        for place, letter in letters.by_place.items()
        if letter.key in keys
    ]
    return sorted(entries, key=lambda entry: entry.at)


def _change_entry(stored: Stored, change: DocumentChange | None) -> Entry:
    at = Timestamp(stored.timestamp_ms)
    if change is None:
        version = version_in(stored.headers)
        return Entry(at=at, what="null value", version=version, detail="removes the document from the topic")
    if change.operation is Operation.DELETE:
        return Entry(at=at, what="deletion", version=change.version, detail="")
    if edition_in(stored.headers):
        detail = f"to make it anew; first recorded {time_of(recorded_at(stored.headers, at))}"
        return Entry(at=at, what="request", version=change.version, detail=detail)
    return Entry(at=at, what="change", version=change.version, detail=_content(change))


def _content(change: DocumentChange) -> str:
    if change.claim is not None:
        return f"{change.claim.size} bytes at {change.claim.uri}"
    if isinstance(change.content, bytes):
        return f"{len(change.content)} bytes"
    return f"{len(change.content or '')} characters"


def _receipt_entry(stored: Stored, outcome: IndexOutcome) -> Entry:
    counts = f"{outcome.chunks} chunks, {outcome.embedded} embedded, {outcome.removed} removed"
    return Entry(
        at=Timestamp(stored.timestamp_ms),
        what=outcome.status.lower(),
        version=outcome.version,
        detail=outcome.reason or counts,
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    kinds: dict[str, int]
    explained: int
    written: int


async def _view(index: MilvusIndex, root: Root, limit: int) -> DocumentView:
    """Return a document with its first chunks, 0: all."""
    pages = await index.pages(root.pages)
    entries = [entry for page_id in root.pages if page_id in pages for entry in pages[page_id].entries]
    counts = _counts(entries, await index.stored([entry.chunk_id for entry in entries]) if entries else {})
    shown = entries[: limit or None]
    rows = await index.fetch([entry.row_id for entry in shown]) if shown else {}
    chunks = tuple(
        ChunkView(
            chunk_id=entry.chunk_id,
            path=entry.path,
            ordinal=entry.ordinal,
            start=entry.start,
            end=entry.end,
            first_page=entry.first_page,
            last_page=entry.last_page,
            kind=rows[entry.row_id][0].kind.value,
            heading_path=rows[entry.row_id][0].heading_path,
            tokens=rows[entry.row_id][0].tokens,
            context=rows[entry.row_id][0].context,
            text=rows[entry.row_id][0].text,
        )
        for entry in shown
        if entry.row_id in rows
    )
    return DocumentView(
        root=root,
        chunks=chunks,
        kinds=counts.kinds,
        explained=counts.explained,
        written=counts.written,
        missing=len(entries) - sum(counts.kinds.values()),
    )


def _counts(entries: Sequence[ManifestEntry], stored: Mapping[ChunkId, Sequence[StoredRow]]) -> _Counts:
    rows: dict[RowId, StoredRow] = {row.row_id: row for of_chunk in stored.values() for row in of_chunk}
    live = [rows[entry.row_id] for entry in entries if entry.row_id in rows]
    kinds: dict[str, int] = {}
    for row in live:
        kinds[row.kind.value] = kinds.get(row.kind.value, 0) + 1
    return _Counts(
        kinds,
        sum(bool(row.context_key.partition("/")[0]) for row in live),
        sum(bool(writer_of(row.context_key)) for row in live),
    )


def _described(root: Root, current: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a root for JSON; times are milliseconds since 1970."""
    return {**dict(_fields(root)), "made_by_these_settings": root.deleted or root.fingerprint in current}


def _fields(root: Root) -> Iterator[tuple[str, Any]]:
    for name, value in asdict(root).items():
        if name not in {"root_id", "attempt", "pages", "metadata_hash"}:
            yield name, value
