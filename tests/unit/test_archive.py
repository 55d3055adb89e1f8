"""Files of an archive: what is written is read back bit for bit, an interrupted archive goes on, damage is named."""

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from freki.infra.archive import writer
from freki.infra.archive.folder import MANIFEST, UNFINISHED, dated_folders, remove_folder
from freki.infra.archive.reader import ArchiveReader, read_manifest
from freki.infra.archive.tables import Table, read_rows
from freki.infra.archive.writer import ArchiveWriter, continues
from freki.infra.durable_files import write_atomically
from freki.infra.milvus.layout import CHUNKS, DOCUMENTS, MANIFESTS, PLACEHOLDER, Kind
from freki.infra.milvus.rows import chunk_of, chunk_row, page_of, page_row, root_of, root_row
from freki.schemas import ChunkKind, RootId, TenantId, Timestamp
from freki.schemas.archive import ArchiveManifest, ArchiveStart
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.index import Attempt, IndexedChunk, ManifestPage, Root
from tests.contract.index_records import (
    GENERATION,
    NASTY,
    WITH_KIND_EMBEDDER,
    any_vectors,
    chunk,
    page,
    root,
    watermark,
)
from tests.memory_archive import start_of
from tests.strategies import records

FEW = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
START = start_of(GENERATION, watermarks=[watermark(0, 1), watermark(3, 2, commits=7)])

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(NASTY)
any_float = st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True)


def bits(vector: Floats) -> list[int]:
    return list(vector.view(np.uint32))


@FEW
@given(
    values=st.lists(texts, min_size=1, max_size=4),
    vectors=arrays(np.float32, (4, 4), elements=any_float),
)
def test_chunk_rows_are_read_back_as_they_were_written_and_vectors_bit_for_bit(
    tmp_path: Path, values: list[str], vectors: Floats
) -> None:
    chunks = [
        chunk(f"c{number}", text=value, name=value, heading_path=tuple(values), attributes={value: value}, tokens=2**60)
        for number, value in enumerate(values)
    ]
    path = tmp_path / "chunks.parquet"
    table = Table(CHUNKS, 4)
    for each, vector in zip(chunks, vectors, strict=False):
        table.add([chunk_row(each, vector)])

    table.write(path)

    read = [chunk_of(row) for rows in read_rows(path, CHUNKS, 4) for row in rows]
    assert [each for each, _ in read] == chunks
    assert [bits(vector) for _, vector in read] == [bits(vector) for vector in vectors[: len(chunks)]]


@FEW
@given(each=records(Root))
def test_roots_are_read_back_as_they_were_written(tmp_path: Path, each: Root) -> None:
    path = tmp_path / "documents.parquet"
    table = Table(DOCUMENTS, len(PLACEHOLDER))
    written = replace(
        each,
        root_id=RootId("r"),
        attempt=Attempt("a"),
        pages=tuple(page("r", each.version, n, 0).page_id for n in range(3)),
    )
    table.add([root_row(written)])

    table.write(path)

    [[row]] = read_rows(path, DOCUMENTS, len(PLACEHOLDER))
    assert root_of(row) == written


def test_pages_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    pages = [page("r", 1, 0, 0), page("r", 1, 1, 3), page("s", 2, 0, 1, overlap="ä\x00", path="")]
    path = tmp_path / "manifests.parquet"
    table = Table(MANIFESTS, len(PLACEHOLDER))
    table.add([page_row(each) for each in pages])

    table.write(path)

    assert [page_of(row) for rows in read_rows(path, MANIFESTS, len(PLACEHOLDER)) for row in rows] == pages


def test_a_column_of_any_kind_can_be_added(tmp_path: Path) -> None:
    values = {
        Kind.TEXT: "a",
        Kind.TEXTS: ["a", ""],
        Kind.INTEGER: -1,
        Kind.INTEGERS: [1, 2],
        Kind.FLAG: True,
        Kind.JSON: {"a": [None]},
    }
    layout = DOCUMENTS._replace(
        columns=tuple(DOCUMENTS.columns[0]._replace(name=kind.name, kind=kind) for kind in values)
    )
    row = {kind.name: value for kind, value in values.items()}
    table = Table(layout, 1)
    table.add([row, row])

    table.write(tmp_path / "x.parquet")

    assert list(read_rows(tmp_path / "x.parquet", layout, 1)) == [[row, row]]


Documents = Sequence[tuple[Root, Sequence[ManifestPage], Sequence[IndexedChunk]]]


def documents(*names: str) -> Documents:
    """Make documents of two chunks each, the second of them code."""
    made = []
    for name in names:
        own = page(name, 1, 0, 2)
        rows = [
            chunk(f"{name}{number}", row_id=entry.row_id, root_id=RootId(name), kind=kind)
            for number, (entry, kind) in enumerate(zip(own.entries, (ChunkKind.PROSE, ChunkKind.CODE), strict=True))
        ]
        made.append((root(name, pages=(own.page_id,), chunks=2), [own], rows))
    return made


async def write(archive: ArchiveWriter, some: Documents, *, width: int = 4) -> None:
    for each, pages, rows in some:
        await archive.add_chunks(rows, np.ones((len(rows), width), np.float32))
        await archive.add_documents([each], pages)
        await archive.end_documents(each.root_id)


async def written(folder: Path, some: Documents, start: ArchiveStart = START, *, width: int = 4) -> ArchiveManifest:
    async with ArchiveWriter(folder, start) as archive:
        await write(archive, some, width=width)
        return await archive.finish(Timestamp(9_000))


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


async def test_an_archive_holds_what_was_added_and_says_so(tmp_path: Path) -> None:
    some = [*documents("r1", "r2"), (root("r3", deleted=True), [], [])]

    manifest = await written(tmp_path / "new" / "archive", some)

    assert manifest == read_manifest(tmp_path / "new" / "archive")
    assert (manifest.documents, manifest.deleted, manifest.chunks) == (2, 1, 4)
    assert manifest.start == START
    reader = ArchiveReader(tmp_path / "new" / "archive", manifest)
    [volume] = manifest.volumes
    await reader.check(volume)
    assert await reader.roots(volume) == [each for each, _, _ in some]
    assert [each async for pages in reader.pages(volume) for each in pages] == [
        each for _, pages, _ in some for each in pages
    ]
    assert [each async for rows, _ in reader.chunks(volume) for each in rows] == [
        each for *_, rows in some for each in rows
    ]
    names = {path.name for path in (tmp_path / "new" / "archive").iterdir()}
    assert names == {"README.md", MANIFEST, *(file.name for file in volume.files)}


async def test_chunks_with_an_embedder_of_their_own_have_a_file_of_their_own(tmp_path: Path) -> None:
    manifest = await written(tmp_path, documents("r1"), start_of(WITH_KIND_EMBEDDER), width=7)

    [volume] = manifest.volumes
    assert {file.holds: file.rows for file in volume.files} == {
        "documents": 1,
        "manifests": 1,
        "chunks": 1,
        "chunks_code": 1,
    }
    read = [
        (each.kind, vectors[at])
        async for rows, vectors in ArchiveReader(tmp_path, manifest).chunks(volume)
        for at, each in enumerate(rows)
    ]
    assert {kind: list(vector) for kind, vector in read} == {"PROSE": [1] * 4 + [0] * 3, "CODE": [0] * 4 + [1] * 3}


async def test_the_readme_names_every_column(tmp_path: Path) -> None:
    await written(tmp_path, documents("r1"), replace(START, tenant=TenantId("acme")))

    text = (tmp_path / "README.md").read_text(encoding="utf-8")

    for layout in (CHUNKS, DOCUMENTS, MANIFESTS):
        section = text.split(f"## {layout.name}\n")[1].split("\n## ")[0]
        held = {column.name for column in layout.columns} - {"placeholder"}
        assert {line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if " | " in line} >= held
    assert "tenant `acme`" in text


@pytest.fixture
def small_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FILE_BYTES", 1)


@pytest.mark.usefixtures("small_volumes")
async def test_files_are_of_limited_size(tmp_path: Path) -> None:
    manifest = await written(tmp_path, documents("r1", "r2", "r3"))

    assert [volume.last for volume in manifest.volumes] == ["r1", "r2", "r3"]
    assert all(file.rows <= 2 for volume in manifest.volumes for file in volume.files)


@pytest.mark.parametrize("is_there", [False, True])
async def test_an_export_that_has_written_nothing_leaves_its_folder_to_another_one(
    tmp_path: Path, *, is_there: bool
) -> None:
    folder = tmp_path / "backup"
    if is_there:
        folder.mkdir()

    with pytest.raises(Rejected):
        async with ArchiveWriter(folder, replace(START, tenant=TenantId("mistyped"))):
            raise Rejected("no document of this tenant")

    assert folder.exists() == is_there
    assert (await written(folder, documents("r1"))).documents == 1


@pytest.mark.usefixtures("small_volumes")
async def test_an_interrupted_archive_goes_on_after_its_last_volume(tmp_path: Path) -> None:
    async with ArchiveWriter(tmp_path, START) as archive:
        await write(archive, documents("r1", "r2"))
        await archive.add_chunks(documents("r3")[0][2], any_vectors(2))
    # A file that was being written, and a line that was cut off.
    (tmp_path / "chunks-000009-000.parquet.partial").write_bytes(b"x")
    with (tmp_path / UNFINISHED).open("ab") as file:
        file.write(b'{"number":2,')
    with pytest.raises(Misconfigured, match="interrupted export: finish it with `freki export"):
        read_manifest(tmp_path)

    async with ArchiveWriter(tmp_path, replace(START, began_at=Timestamp(7), watermarks=())) as archive:
        assert archive.after == "r2"
        assert archive.chunks == 4
        assert archive.start == START, "complete up to the first watermarks"
        await write(archive, documents("r3"))
        manifest = await archive.finish(Timestamp(9_000))

    assert await written(tmp_path / "at once", documents("r1", "r2", "r3")) == manifest
    assert files_in(tmp_path / "at once") == files_in(tmp_path)


@pytest.mark.usefixtures("small_volumes")
async def test_an_archive_is_left_once_nothing_is_written_to_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After Ctrl-C a file appeared beside no start: the same export took the folder for somebody else's.
    folder = tmp_path / "backup"
    begun, may_go_on = Event(), Event()

    def slowly(path: Path, content: Callable[[Path], object]) -> None:
        begun.set()
        may_go_on.wait()
        write_atomically(path, content)

    async def export() -> None:
        async with ArchiveWriter(folder, START) as archive:
            monkeypatch.setattr(writer, "write_atomically", slowly)
            await write(archive, documents("r1"))

    exporting = asyncio.create_task(export())
    await asyncio.to_thread(begun.wait)
    exporting.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    is_left = exporting.done()
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await exporting

    assert not is_left
    assert (await written(folder, documents("r1"))).documents == 1


@pytest.mark.usefixtures("small_volumes")
@pytest.mark.parametrize("cut_off", [b"", b'{"number":2,'])
async def test_an_archive_that_finds_no_room_when_it_goes_on_keeps_its_volumes(tmp_path: Path, cut_off: bytes) -> None:
    async with ArchiveWriter(tmp_path, START) as archive:
        await write(archive, documents("r1", "r2"))
    with (tmp_path / UNFINISHED).open("ab") as file:
        file.write(cut_off)
    limits = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (10, limits[1]))
    try:
        with suppress(Unavailable):
            async with ArchiveWriter(tmp_path, START):
                pass
    finally:
        setrlimit(RLIMIT_FSIZE, limits)

    async with ArchiveWriter(tmp_path, START) as archive:
        assert archive.after == "r2"


async def test_rows_that_find_no_room_are_no_error_of_the_program(tmp_path: Path) -> None:
    # A backup that goes on again and again tries once more only after Unavailable.
    async with ArchiveWriter(tmp_path, START) as archive:
        (tmp_path / "documents-000000-000.parquet.partial").symlink_to("/dev/full")
        await write(archive, documents("r1"))
        with pytest.raises(Unavailable, match="No space left on device; make room, then run the command again"):
            await archive.finish(Timestamp(2_000))

    assert (await written(tmp_path, documents("r1"))).documents == 1


async def test_an_archive_whose_first_line_was_not_finished_begins_anew(tmp_path: Path) -> None:
    (tmp_path / f"{UNFINISHED}.partial").write_bytes(b'{"format":')
    manifest = await written(tmp_path, documents("r1"))
    assert read_manifest(tmp_path) == manifest


@pytest.mark.usefixtures("small_volumes")
async def test_an_archive_goes_on_only_from_the_same_index(tmp_path: Path) -> None:
    async with ArchiveWriter(tmp_path, START) as archive:
        await write(archive, documents("r1"))

    other = replace(START, generation=replace(GENERATION, embedder="model@2"))
    assert continues(tmp_path, START)
    assert not continues(tmp_path, other)
    with pytest.raises(
        Misconfigured, match=r"interrupted export of generation g1 \(embedder model@1.*, not of .*model@2"
    ):
        await ArchiveWriter(tmp_path, other).__aenter__()
    with pytest.raises(Misconfigured, match="not of tenant acme in generation"):
        await ArchiveWriter(tmp_path, replace(START, tenant=TenantId("acme"))).__aenter__()


async def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    await written(tmp_path / "full", documents("r1"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()

    with pytest.raises(Misconfigured, match="already holds a complete archive: name an empty or a new folder"):
        await ArchiveWriter(tmp_path / "full", START).__aenter__()
    with pytest.raises(Misconfigured, match=r"already holds notes\.txt"):
        await ArchiveWriter(tmp_path / "other", START).__aenter__()


async def test_two_exports_do_not_write_one_archive(tmp_path: Path) -> None:
    async with ArchiveWriter(tmp_path, START):
        with pytest.raises(Misconfigured, match="another export writes to"):
            await ArchiveWriter(tmp_path, START).__aenter__()


@pytest.mark.parametrize("kind", ["cut", "changed", "removed"])
async def test_a_damaged_file_is_named(tmp_path: Path, kind: str) -> None:
    manifest = await written(tmp_path, documents("r1"))
    path = tmp_path / "manifests-000000-000.parquet"
    content = path.read_bytes()
    match kind:
        case "cut":
            path.write_bytes(content[:-1])
        case "changed":
            path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        case _:
            path.unlink()

    with pytest.raises(Rejected, match=r"manifests-000000-000\.parquet is (damaged|missing): .*restore it from a copy"):
        await ArchiveReader(tmp_path, manifest).check(manifest.volumes[0])


async def test_a_file_that_is_no_parquet_or_lacks_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"nonsense")
    table = Table(DOCUMENTS, 1)
    table.add([root_row(root("r"))])
    table.write(tmp_path / "y.parquet")

    with pytest.raises(Rejected, match=r"x\.parquet cannot be read as Parquet"):
        list(read_rows(tmp_path / "x.parquet", DOCUMENTS, 1))
    with pytest.raises(Rejected, match=r"y\.parquet has the column row_id as None, not String"):
        list(read_rows(tmp_path / "y.parquet", CHUNKS, 4))


async def test_files_that_no_export_writes_are_named_although_their_checksums_are_right(tmp_path: Path) -> None:
    manifest = await written(tmp_path, documents("r1"))
    path = tmp_path / MANIFEST
    path.write_text(path.read_text("utf-8").replace("manifests-000000", "../x/manifests-000000"), "utf-8")
    table = Table(DOCUMENTS, len(PLACEHOLDER))
    table.add([root_row(root("r1")) | {"body": {}}])
    table.write(tmp_path / "documents-000000-000.parquet")

    with pytest.raises(Misconfigured, match=r"names the file '\.\./x/manifests-000000-000\.parquet', which no export"):
        read_manifest(tmp_path)
    with pytest.raises(Rejected, match=r"documents-000000-000\.parquet has rows that no export writes"):
        await ArchiveReader(tmp_path, manifest).roots(manifest.volumes[0])


def test_a_folder_that_is_no_archive_is_named_and_one_inside_it_is_pointed_at(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"is no archive of `freki export`: manifest\.json is missing$"):
        read_manifest(tmp_path)

    (tmp_path / "freki-1").mkdir()
    (tmp_path / "freki-1" / MANIFEST).write_text("{}", encoding="utf-8")
    with pytest.raises(Misconfigured, match="it has archives in freki-1: name one of them"):
        read_manifest(tmp_path)
    with pytest.raises(Misconfigured, match="damaged, or of another version"):
        read_manifest(tmp_path / "freki-1")


@pytest.mark.usefixtures("small_volumes")
async def test_complete_and_unfinished_backups_are_told_apart_and_removed(tmp_path: Path) -> None:
    assert dated_folders(tmp_path / "none") == ([], [])
    await written(tmp_path / "a", documents("r1"))
    async with ArchiveWriter(tmp_path / "b", START) as archive:
        await write(archive, documents("r1"))
    (tmp_path / "c").mkdir()

    assert dated_folders(tmp_path) == (["a"], ["b"])
    remove_folder(tmp_path / "a")
    assert dated_folders(tmp_path) == ([], ["b"])


@pytest.mark.usefixtures("small_volumes")
@pytest.mark.parametrize("left", range(1, 9))
async def test_a_removal_that_was_interrupted_is_seen_and_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    await written(tmp_path / "a", documents("r1"))
    unlink, files = os.unlink, itertools.count()

    def unlink_some(*args: Any, **kwargs: Any) -> None:
        if next(files) == left:
            raise KeyboardInterrupt
        unlink(*args, **kwargs)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(os, "unlink", unlink_some)
        remove_folder(tmp_path / "a")
    if (tmp_path / "a").exists():
        assert dated_folders(tmp_path) == ([], ["a"])
        assert not continues(tmp_path / "a", START)
        remove_folder(tmp_path / "a")

    assert not (tmp_path / "a").exists()
