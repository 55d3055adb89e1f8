"""`freki verify`: compare the index with the stream of changes."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.progress import Progress
from rich.text import Text

from freki.cli.bars import bars
from freki.cli.context import command, console, load_settings
from freki.infra.kafka import Reader
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.operators.reconcile import Difference, Expected, expect, reconcile, reconcile_rows, surplus
from freki.schemas import DocumentChange, DocumentId, IndexOutcome, OutcomeStatus, RootId, TenantId
from freki.schemas.avro import Codec, UndecodableError
from freki.schemas.index import Root
from freki.streams.client import Change
from freki.streams.ingest.chunk import content_hash
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.index.reclaim import reclaim
from freki.streams.messages import version_in
from freki.streams.wire.connect import open_index, open_registry
from freki.streams.wire.from_settings import topics_of, wall_clock

SHOWN = 50
# Documents per read: enough to save calls, few enough for the progress bar to move.
BATCH = 50
SCATTERED = (
    "all producers need one partitioner (docs/topics.md), and a topic of changes must not get further partitions;"
    " publish the document again, and delete the old records"
)


@command
async def verify(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Delete documents that the stream deleted or lacks, and orphaned rows")
    ] = False,
) -> None:
    """Compare topic and store: documents, versions, content, and each chunk row with its manifest."""
    settings = load_settings()
    with bars() as progress:
        async with open_index(settings) as index:
            # Read the index first: everything in it now is on the topic by the time that is read.
            before = [root async for root in index.all_roots()] if repair else []
            expected, scattered = await _expected(settings, await _rejected(settings), progress)
            if repair:
                await _repair(index, surplus(expected, before))
            roots = [root async for root in index.all_roots()]
            differences = [*reconcile(expected, roots), *scattered]
            bar = progress.add_task("documents checked", total=len(roots))
            for some in (roots[at : at + BATCH] for at in range(0, len(roots), BATCH)):
                stored = await index.pages([page_id for root in some for page_id in root.pages])
                rows = await index.rows_of([root.root_id for root in some])
                for root in some:
                    pages = [stored[page_id] for page_id in root.pages if page_id in stored]
                    manifest = [entry.row_id for page in pages for entry in page.entries]
                    differences += reconcile_rows(
                        root, manifest, len(pages), [row.row_id for row in rows[root.root_id]]
                    )
                progress.advance(bar, len(some))
    live = sum(not root.deleted for root in roots)
    console.print(f"{len(expected)} documents in the stream")
    console.print(f"{live} live in the index, {len(roots) - live} remembered as deleted")
    for difference in differences[:SHOWN]:
        console.print(Text.assemble((difference.name, "bold"), f"  {difference.problem}"))
    console.print(f"{len(differences)} differences")
    if differences:
        raise typer.Exit(1)


async def _repair(index: MilvusIndex, outdated: Sequence[Root]) -> None:
    """Delete documents that the stream lacks, then all rows that no live manifest names."""
    committer = Committer(store=index, now=wall_clock)
    await committer.delete(outdated)
    removed = await reclaim(index, committer, now=wall_clock)
    console.print(f"repaired: {len(outdated)} documents deleted, {removed} rows left behind removed")


async def _expected(
    settings: Settings, rejected: set[Change], progress: Progress
) -> tuple[dict[RootId, Expected], list[Difference]]:
    """Read all changes that were not rejected; also return the keys found in several partitions."""
    expected: dict[RootId, Expected] = {}
    partitions: dict[str, int] = {}
    scattered: dict[str, Difference] = {}
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).documents.name, start="earliest") as reader,
    ):
        codec = Codec(DocumentChange, registry=registry)
        bar = progress.add_task("changes read", total=sum(reader.ends.values()))
        async for stored in reader.until_end():
            progress.advance(bar)
            name = (stored.key or b"").decode(errors="replace")
            tenant, _, document_id = name.partition("/")
            if not document_id:
                continue
            if (first := partitions.setdefault(name, stored.partition)) != stored.partition:
                problem = f"has records in partitions {first} and {stored.partition}: {SCATTERED}"
                scattered.setdefault(name, Difference(name, problem))
            try:
                change = None if stored.value is None else codec.decode(stored.value)
            except UndecodableError:
                continue
            # A change under a foreign key was rejected under the document id in that key.
            if change is not None and (tenant, document_id, change.version) in rejected:
                continue
            key = root_id(TenantId(tenant), DocumentId(document_id))
            after = expect(
                expected.get(key),
                name,
                change,
                "" if change is None else _hash(change),
                buried=version_in(stored.headers),
            )
            if after is not None:
                expected[key] = after
    return expected, list(scattered.values())


async def _rejected(settings: Settings) -> set[Change]:
    found: set[Change] = set()
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).outcomes.name, start="earliest") as reader,
    ):
        codec = Codec(IndexOutcome, registry=registry)
        async for stored in reader.until_end():
            if stored.value is None:
                continue
            outcome = codec.decode(stored.value)
            if outcome.status is OutcomeStatus.REJECTED:
                found.add((outcome.tenant, outcome.document_id, outcome.version))
    return found


def _hash(change: DocumentChange) -> str:
    if change.claim is not None:
        return change.claim.sha256.lower()
    return "" if change.content is None else content_hash(change.content)
