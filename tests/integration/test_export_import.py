"""An index leaves one store and comes back in another, with the same answers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freki.infra.archive import writer
from freki.infra.archive.reader import ArchiveReader
from freki.infra.archive.writer import ArchiveWriter
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import MilvusSettings
from freki.schemas import ChunkKind, Timestamp
from freki.schemas.index import Attempt, Candidate, Generation, KindEmbedder, Root, RowId, Scope
from freki.streams.archive import Exporter, Importer, ImportReport, export_index
from tests.memory_archive import start_of
from tests.stack import free_port, serving
from tests.unit.revisions import ANALYSER, TENANT, World, a_family, revision

SCOPE = Scope(tenant=TENANT, principals=(), levels=(0, 1, 2), filters=())
CODE = KindEmbedder(kinds=(ChunkKind.CODE,), embedder="fake@48+aligned1", dim=49)
GENERATION = Generation(name="source", embedder="fake@64+aligned1", dim=65, analyser=ANALYSER, kind_embedders=(CODE,))


async def fill(index: MilvusIndex) -> None:
    world = World(index=index, embedder=a_family())  # type: ignore[arg-type] # with the promises of the fake
    for number in range(30):
        texts = [f"word{number} w{at} common" for at in range(number % 7 + 1)]
        await world.feed(revision(f"d{number}", 1, texts, code=texts[3:]))
    await world.feed(revision("d1", 2, ["word1 edited", "word1 w0 common"]))
    await world.feed(revision("d2", 2, None))


async def rankings(index: MilvusIndex) -> list[list[Candidate]]:
    """Search by both retrievers for all that has a score.

    Without the keys of rows and the version that wrote each, which differ: an import writes all at the last version.
    """
    queries = [f"word{number} common" for number in range(10)]
    vectors = (await a_family().embed_queries(queries)).vectors
    scopes = [SCOPE] * len(queries)
    found = await index.dense(vectors, scopes, limit=200, strong=True)
    found += await index.lexical([f"de {query}" for query in queries], scopes, limit=200, strong=True)
    return [[replace(hit, row_id=RowId(""), version=0) for hit in ranking] for ranking in found]


async def roots_of(index: MilvusIndex) -> list[Root]:
    return [replace(root, attempt=Attempt(""), pages=()) async for root in index.all_roots()]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make volumes and slices of a few rows."""
    monkeypatch.setattr(writer, "FILE_BYTES", 20_000)
    monkeypatch.setattr(export_index, "SLICE_CHUNKS", 10)


@pytest.mark.usefixtures("small")
async def test_another_store_answers_with_the_same_chunks_and_scores(store: MilvusSettings, tmp_path: Path) -> None:
    other = MilvusSettings(uri=f"http://127.0.0.1:{free_port()}", timeout_s=20)
    async with MilvusIndex(store, GENERATION) as source:
        await fill(source)
        async with ArchiveWriter(tmp_path, start_of(GENERATION, watermarks=await source.watermarks())) as archive:
            manifest = await Exporter(index=source, archive=archive, now=lambda: Timestamp(2_000)).export()
        assert len(manifest.volumes) > 2

        async def import_into(index: Any) -> ImportReport:
            reader = ArchiveReader(tmp_path, manifest)
            return await Importer(index=index, archive=reader, now=lambda: Timestamp(3_000)).import_all()

        port = int(other.uri.rpartition(":")[2])
        with serving(tmp_path / "other.db", port):
            async with MilvusIndex(other, replace(GENERATION, name="target")) as target:
                first, again = await import_into(target), await import_into(target)

                assert (first.documents, first.deleted, again.present, again.present_deleted) == (29, 1, 29, 1)
                assert await roots_of(target) == await roots_of(source)
                assert nonempty(await rankings(target)) == nonempty(await rankings(source))
                assert await target.statistics() == await source.statistics()


def nonempty(found: Sequence[Sequence[Candidate]]) -> list[Sequence[Candidate]]:
    assert all(found)
    return list(found)
