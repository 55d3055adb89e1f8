"""An index leaves as an archive and comes back, while others write to it and processes die."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.infra.archive import writer
from freki.infra.archive.reader import ArchiveReader, read_manifest
from freki.infra.archive.writer import ArchiveWriter
from freki.operators.identify import root_id
from freki.schemas import ContextualChunkBatch, DocumentId, RevisionOperation, RootId, TenantId, Timestamp
from freki.schemas.errors import Rejected
from freki.schemas.index import Attempt, IndexedChunk, Root, RowId
from freki.streams.archive import Exporter, Importer, ImportReport, export_index
from freki.streams.ingest.index.commit import Committer
from tests.memory_archive import MemoryArchive, start_of
from tests.memory_index import MemoryIndex
from tests.unit.interleavings import Batches, Jobs, Owner, explore
from tests.unit.revisions import TENANT, Crash, Crashing, World, a_family, apart_index, revision

SWITCHES = 2
"""Most interruptions of owners in a schedule."""
KEY = root_id(TENANT, DocumentId("a"))
Contents = Mapping[str, list[str] | None]


async def exported(index: Any, *, tenant: str | None = None) -> MemoryArchive:
    start = start_of(
        index._generation, tenant=None if tenant is None else TenantId(tenant), watermarks=await index.watermarks()
    )
    archive = MemoryArchive(start)
    await Exporter(index=index, archive=archive, now=lambda: Timestamp(2_000)).export()
    return archive


async def imported(
    world: World, archive: MemoryArchive, *, store: Any = None, dry_run: bool = False, gone: Sequence[RootId] = ()
) -> ImportReport:
    importer = Importer(
        index=store or world.index, archive=archive, gone=gone, now=lambda: Timestamp(next(world.ticks))
    )
    return await importer.import_all(dry_run=dry_run)


async def texts(world: World, *names: str) -> Contents:
    return {name: await world.texts(name) for name in names}


async def a_world(*batches: Sequence[ContextualChunkBatch]) -> World:
    world = World()
    for each in batches:
        await world.feed(each)
    return world


@pytest.fixture
async def source() -> World:
    """A document of several parts and attempts, one that was edited, and a deleted one."""
    return await a_world(
        revision("a", 1, ["c", "u", "v"]),
        revision("a", 2, ["c", "u", "w", "x", "y"]),
        revision("b", 1, ["b"]),
        revision("c", 1, ["gone"]),
        revision("c", 2, None),
    )


async def all_of(index: MemoryIndex) -> dict[RootId, tuple[Root, list[tuple[IndexedChunk, list[float]]]]]:
    """Give what readers see of every document, without the keys of this index."""
    found = {}
    async for root in index.all_roots():
        pages = await index.pages(root.pages)
        entries = [entry for page in root.pages for entry in pages[page].entries]
        rows = await index.fetch([entry.row_id for entry in entries])
        seen = [
            (replace(row, row_id=RowId(""), version=0, edition=0), list(vector))
            for row, vector in (rows[entry.row_id] for entry in entries)
        ]
        found[root.root_id] = (replace(root, attempt=Attempt(""), pages=()), seen)
    return found


async def test_another_index_answers_as_the_one_that_was_exported(source: World) -> None:
    target = World()

    report = await imported(target, await exported(source.index))

    assert await all_of(target.index) == await all_of(source.index)
    assert (report.documents, report.deleted, report.chunks, report.present) == (2, 1, 6, 0)
    assert [replace(mark, commits=0) for mark in await target.index.watermarks()] == [
        replace(mark, commits=0) for mark in await source.index.watermarks()
    ]
    # What was replaced or deleted in the source did not travel.
    assert (await target.index.statistics()).chunks == 6


async def test_what_was_deleted_after_the_export_does_not_come_back_into_an_index_that_forgot_it(source: World) -> None:
    target, gone = World(), [KEY, root_id(TENANT, DocumentId("c"))]

    planned = await imported(target, await exported(source.index), gone=gone, dry_run=True)
    report = await imported(target, await exported(source.index), gone=gone)

    assert planned == report
    assert (report.documents, report.deleted, report.chunks, report.withheld) == (1, 1, 1, 1)
    assert (await texts(target, "a", "b")) == {"a": None, "b": ["b"]}
    assert (await target.index.statistics()).chunks == 1


async def test_files_do_the_same_as_the_archive_in_memory(
    source: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file for each document; then as large as they are.
    for size in (1, writer.FILE_BYTES):
        monkeypatch.setattr(writer, "FILE_BYTES", size)
        monkeypatch.setattr(export_index, "SLICE_DOCUMENTS", 1)
        folder = tmp_path / str(size)
        start = start_of(source.index._generation, watermarks=await source.index.watermarks())
        async with ArchiveWriter(folder, start) as archive:
            manifest = await Exporter(index=source.index, archive=archive, now=lambda: Timestamp(2_000)).export()
        target = World()
        reader = ArchiveReader(folder, read_manifest(folder))

        report = await Importer(index=target.index, archive=reader, now=lambda: Timestamp(3_000)).import_all()

        assert len(manifest.volumes) == (3 if size == 1 else 1)
        assert await all_of(target.index) == await all_of(source.index)
        assert report == await imported(World(), await exported(source.index))


async def test_each_embedder_keeps_its_vectors() -> None:
    source = World(index=apart_index(), embedder=a_family())
    await source.feed(revision("a", 1, ["text", "code"], code=["code"]))
    target = World(index=apart_index())

    await imported(target, await exported(source.index))

    assert await all_of(target.index) == await all_of(source.index)


async def test_one_tenant_leaves_without_the_others_and_without_their_watermarks(source: World) -> None:
    await source.feed(revision("a", 1, ["theirs"], tenant=TenantId("other")))
    target = World()

    archive = await exported(source.index, tenant="other")
    await imported(target, archive)

    assert [root.tenant async for root in target.index.all_roots()] == ["other"]
    assert await target.index.watermarks() == []


async def test_an_empty_index_is_not_exported(source: World) -> None:
    with pytest.raises(Rejected, match="holds no document: check FREKI_MILVUS__URI"):
        await exported(World().index)
    with pytest.raises(Rejected, match="holds no document of tenant 'nobody'"):
        await exported(source.index, tenant="nobody")


async def test_what_the_index_has_already_is_not_written_again(source: World) -> None:
    archive = await exported(source.index)
    target = World()
    await imported(target, archive)
    before = [root async for root in target.index.all_roots()]

    report = await imported(target, archive)

    assert report == ImportReport(present=2, present_deleted=1)
    assert [root async for root in target.index.all_roots()] == before
    assert (await target.index.statistics()).chunks == 6


async def test_a_dry_run_counts_and_writes_nothing(source: World) -> None:
    target = await a_world(revision("b", 1, ["b"]))
    store = Crashing(target.index, dies_at=0, after=False)

    report = await imported(target, await exported(source.index), store=store, dry_run=True)

    assert report == ImportReport(documents=1, deleted=1, chunks=5, present=1)
    assert store.writes == 0


@pytest.mark.parametrize("after", [False, True])
async def test_an_import_that_dies_at_any_write_is_finished_by_the_next_and_leaves_nothing_behind(
    source: World, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    # Each document is a volume.
    monkeypatch.setattr(export_index, "SLICE_DOCUMENTS", 1)
    archive = await exported(source.index)
    for dies_at in range(1, 100):
        # An index with an older revision, so that there is something to supersede.
        target = await a_world(revision("a", 1, ["old"]), revision("c", 1, ["old too"]))
        before = await all_of(target.index)
        try:
            await imported(target, archive, store=Crashing(target.index, dies_at, after=after))
        except Crash:
            mixed = await all_of(target.index)
            expected = await all_of(source.index)
            assert all(seen in (before.get(key), expected[key]) for key, seen in mixed.items())
        else:
            assert dies_at > 15
            return
        await imported(target, archive)
        assert await all_of(target.index) == await all_of(source.index), dies_at
        assert (await target.index.statistics()).chunks == 6, f"rows left behind after {dies_at} writes"


async def test_newer_and_deleted_documents_of_the_index_stay(source: World) -> None:
    archive = await exported(source.index)
    target = await a_world(
        revision("a", 3, ["newer"]), revision("b", 1, ["b"]), revision("b", 1, None), revision("c", 1, ["old"])
    )

    report = await imported(target, archive)

    assert await texts(target, "a", "b", "c") == {"a": ["newer"], "b": None, "c": None}
    assert (report.present, report.present_deleted, report.deleted) == (2, 0, 1)
    assert await target.leftovers() == 0


async def test_a_document_under_a_later_tombstone_is_not_revived(source: World) -> None:
    archive = await exported(source.index)
    target = World()
    await target.feed(revision("b", 0, None, operation=RevisionOperation.TOMBSTONE, recorded_at=Timestamp(500)))

    await imported(target, archive)

    assert await texts(target, "a", "b") == {"a": ["c", "u", "w", "x", "y"], "b": None}
    assert (await target.index.statistics()).chunks == 5


async def test_a_tombstone_is_remembered_from_its_own_time_on_and_not_from_that_of_what_it_buried(
    source: World,
) -> None:
    archive = await exported(source.index)
    target = World(ticks=count(5_000))
    await target.feed(revision("b", 0, None, operation=RevisionOperation.TOMBSTONE, recorded_at=Timestamp(500)))

    for _ in range(2):
        await imported(target, archive)
        assert await target.index.purge_deleted(Timestamp(4_000)) == 1, "that of the archive, which is older"
        assert await texts(target, "b") == {"b": None}


async def test_caches_of_answers_notice_an_import(source: World) -> None:
    target = await a_world(revision("z", 1, ["z"]))
    [before] = await target.index.watermarks()

    await imported(target, await exported(source.index, tenant=TENANT))

    [after] = await target.index.watermarks()
    assert after.commits > before.commits
    assert after.occurred_at == before.occurred_at


async def test_an_archive_that_lacks_a_row_or_a_page_is_refused_and_nothing_is_visible(source: World) -> None:
    for lost in ("_chunks", "_pages"):
        archive = await exported(source.index)
        getattr(archive, lost)[0].pop()
        target = World()

        with pytest.raises(Rejected, match=r"volume 0 of the archive lacks the .*: export again"):
            await imported(target, archive)

        assert [root async for root in target.index.all_roots()] == []


async def test_a_document_that_lost_rows_is_left_out_and_named(source: World) -> None:
    [first, *_] = await source.rows("a")
    await source.index.delete([first.row_id])

    archive = await exported(source.index)
    target = World()
    report = await imported(target, archive)

    # Its other rows were read, and are in no document.
    assert (archive.manifest.documents, archive.manifest.chunks) == (report.documents, report.chunks) == (1, 1)
    [left_out] = archive.manifest.left_out
    assert (left_out.document_id, left_out.version, left_out.problem) == ("a", 2, "chunk rows are missing")
    assert [root.document_id async for root in target.index.all_roots() if not root.deleted] == ["b"]


# While others write


async def archive_of(*batches: Sequence[ContextualChunkBatch]) -> MemoryArchive:
    """Make an archive by processes of before."""
    return await exported((await a_world(*batches)).index)


def importing(archive: MemoryArchive) -> Callable[[Owner], Awaitable[None]]:
    async def work(owner: Owner) -> None:
        await Importer(index=owner, archive=archive, now=lambda: Timestamp(owner.clock)).import_all()

    return work


async def giving_up(owner: Owner) -> None:
    """Sweep as `reclaim` does, once every attempt of before the import counts as ended."""
    committer = Committer(store=owner, now=lambda: Timestamp(owner.clock))
    for _ in range(2):
        await committer.sweep([KEY], abandoned_before=Timestamp(4_900))


OLD, NEW = ["c", "u"], ["u", "x"]
ARCHIVED = revision("a", 2, NEW)
BESIDE: dict[str, tuple[Batches | Callable[[Owner], Awaitable[None]], list[str] | None]] = {
    "the same version": ([ARCHIVED], NEW),
    "a newer version": ([revision("a", 3, OLD)], OLD),
    "the same and a newer version": ([ARCHIVED, revision("a", 3, OLD)], OLD),
    "its deletion": ([revision("a", 2, None)], None),
    "a later deletion": ([revision("a", 3, None)], None),
    "a deletion and what follows it": ([revision("a", 3, None), revision("a", 4, NEW)], NEW),
    "a sweep that gives up old attempts": (giving_up, NEW),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("clocks", [(5000, 6000), (6000, 5000)], ids=["one later", "the other later"])
@pytest.mark.parametrize("case", BESIDE)
async def test_no_order_of_calls_of_an_import_and_a_worker_makes_a_hole_or_goes_back(
    case: str, clocks: tuple[int, int]
) -> None:
    beside, expected = BESIDE[case]
    archive = await archive_of(revision("a", 1, OLD), ARCHIVED)

    async def ended(world: World) -> None:
        assert await world.texts("a") == expected

    jobs: list[Jobs] = [importing(archive), beside]
    assert await explore(revision("a", 1, OLD), jobs, clocks, switches=SWITCHES, ended=ended) > 20


async def test_two_imports_at_once_make_no_hole() -> None:
    archive = await archive_of(ARCHIVED)

    async def ended(world: World) -> None:
        assert await world.texts("a") == NEW

    jobs: list[Jobs] = [importing(archive), importing(archive)]
    assert await explore(revision("a", 1, OLD), jobs, (5000, 6000), switches=SWITCHES, ended=ended) > 20


@pytest.mark.parametrize(
    "edits",
    [
        [revision("a", 2, NEW), revision("a", 3, OLD)],
        [revision("a", 2, ["x", "y", "z"])],
        [revision("a", 2, None)],
        [revision("a", 2, None), revision("a", 3, NEW)],
    ],
    ids=["edits", "more parts", "deletion", "deletion and again"],
)
async def test_an_export_holds_one_revision_as_a_whole_whatever_workers_do_meanwhile(edits: Batches) -> None:
    archives: list[MemoryArchive] = []

    async def exporting(owner: Owner) -> None:
        archive = MemoryArchive(start_of(owner.index._generation, watermarks=await owner.index.watermarks()))
        archives.append(archive)
        await Exporter(index=owner, archive=archive, now=lambda: Timestamp(0)).export()

    def texts_of(batches: Sequence[ContextualChunkBatch]) -> list[str] | None:
        if batches[0].revision.operation is RevisionOperation.DELETE:
            return None
        return [each.chunk.text for batch in batches for each in batch.chunks]

    possible = [OLD, *map(texts_of, edits)]
    seen = []

    async def ended(_: World) -> None:
        manifest = archives[-1].manifest
        assert manifest.left_out == ()
        target = World()
        report = await imported(target, archives[-1])
        assert (manifest.documents, manifest.deleted, manifest.chunks) == (
            report.documents,
            report.deleted,
            report.chunks,
        )
        found = await target.texts("a")
        assert found in possible
        seen.append(found)

    jobs: list[Jobs] = [exporting, edits]
    await explore(revision("a", 1, OLD), jobs, (5000, 6000), switches=SWITCHES, ended=ended)
    assert all(each in seen for each in possible)


names = st.sampled_from("ab")
contents = st.none() | st.lists(st.sampled_from(["c", "u", "v", "w", "x"]), min_size=1, max_size=4, unique=True)
histories = st.lists(st.tuples(names, contents), max_size=5)


@settings(max_examples=100)
@given(theirs=histories, ours=histories, data=st.data())
async def test_an_import_ends_as_if_the_index_had_seen_the_changes_of_both(
    theirs: list[tuple[str, list[str] | None]], ours: list[tuple[str, list[str] | None]], data: st.DataObject
) -> None:
    """Versions are unique, so that the order of arrival does not matter."""
    versions = iter(data.draw(st.permutations(range(1, 20))))
    changes = [[(name, next(versions), text) for name, text in history] for history in (theirs, ours)]
    source, target, both = World(), World(), World()
    for world, some in ((source, changes[0]), (target, changes[1]), (both, [*changes[1], *changes[0]])):
        for change in some:
            await world.feed(revision(*change))

    if theirs:
        await imported(target, await exported(source.index))

    assert await texts(target, "a", "b") == await texts(both, "a", "b")
    assert await target.leftovers() == 0
