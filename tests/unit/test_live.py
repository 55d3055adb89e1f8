"""Places of chunks are kept, and what is live is always what the roots say now."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from freki.schemas import ChunkId, RootId
from freki.schemas.index import Attempt, ManifestPage, PageId, Place
from freki.streams.retrieve.steps.live import read_around, read_live
from tests.contract.index_records import GENERATION, page, root, row
from tests.memory_index import MemoryIndex
from tests.unit.questions import stores

CHUNKS = [ChunkId(f"c{number}") for number in range(8)]
DOCUMENTS = [RootId("r0"), RootId("r1")]


class Found(NamedTuple):
    chunk_id: ChunkId
    root_id: RootId


class CountingIndex(MemoryIndex):
    """Knows how often it told what pages name, and which pages were read."""

    asked = 0
    read: tuple[Sequence[PageId], ...] = ()

    async def pages(self, page_ids: Sequence[PageId]) -> Mapping[PageId, ManifestPage]:
        self.read = (*self.read, page_ids)
        return await super().pages(page_ids)

    async def naming(
        self, root_ids: Sequence[RootId], chunk_ids: Sequence[ChunkId]
    ) -> Mapping[PageId, Mapping[ChunkId, Place]]:
        self.asked += 1
        return await super().naming(root_ids, chunk_ids)


def pages_of(key: RootId, version: int, chunk_ids: Sequence[ChunkId], *, size: int = 2) -> list[ManifestPage]:
    parts = [chunk_ids[start : start + size] for start in range(0, len(chunk_ids), size)]
    pages = [page(key, version, part, entries=len(own), attempt=f"a{version}") for part, own in enumerate(parts)]
    return [
        replace(
            each,
            entries=tuple(
                replace(entry, chunk_id=chunk_id, row_id=row(chunk_id, f"a{version}"))
                for entry, chunk_id in zip(each.entries, own, strict=True)
            ),
        )
        for each, own in zip(pages, parts, strict=True)
    ]


async def commit(
    index: MemoryIndex, key: RootId, version: int, pages: Sequence[ManifestPage], *, deleted: bool = False
) -> None:
    await index.write_pages(pages)
    names = tuple(each.page_id for each in pages)
    committed = root(key, version=version, attempt=Attempt(f"a{version}"), pages=names, deleted=deleted)
    await index.commit([committed], [])


async def test_what_pages_name_is_read_once() -> None:
    index = CountingIndex(GENERATION)
    reading = stores(index)
    await commit(index, DOCUMENTS[0], 1, pages_of(DOCUMENTS[0], 1, CHUNKS[:4]))
    first, second = ([Found(chunk_id, DOCUMENTS[0]) for chunk_id in own] for own in (CHUNKS[:1], CHUNKS[:2]))

    live = [await read_live(reading, found, now_ns=0) for found in (first, second, first)]

    assert [list(each[DOCUMENTS[0]].places) for each in live] == [CHUNKS[:1], CHUNKS[:2], CHUNKS[:1]]
    assert index.asked == 1


async def test_a_document_that_was_deleted_has_no_places_that_are_kept() -> None:
    index = CountingIndex(GENERATION)
    reading, found = stores(index), [Found(CHUNKS[0], DOCUMENTS[0])]
    await commit(index, DOCUMENTS[0], 1, pages_of(DOCUMENTS[0], 1, CHUNKS[:2]))
    assert await read_live(reading, found, now_ns=0)
    await commit(index, DOCUMENTS[0], 2, [], deleted=True)

    assert await read_live(reading, found, now_ns=0) == {}


@given(
    changes=st.lists(
        st.tuples(
            st.sampled_from(DOCUMENTS),
            st.lists(st.sampled_from(CHUNKS), unique=True),
            st.integers(0, 4),
            st.booleans(),
            st.lists(st.builds(Found, st.sampled_from(CHUNKS), st.sampled_from(DOCUMENTS))),
        ),
        max_size=8,
    )
)
async def test_places_that_are_kept_never_change_what_is_live(
    changes: list[tuple[RootId, list[ChunkId], int, bool, list[Found]]],
) -> None:
    """Revisions take over pages of those before, as pieces that stayed the same do."""
    index = MemoryIndex(GENERATION)
    reading = stores(index)
    last: dict[RootId, list[ManifestPage]] = {}
    for version, (key, chunk_ids, stay, deleted, found) in enumerate(changes, start=1):
        stayed = last.get(key, [])[:stay]
        there = {entry.chunk_id for each in stayed for entry in each.entries}
        new = pages_of(key, version, [chunk_id for chunk_id in chunk_ids if chunk_id not in there])
        last[key] = [] if deleted else [*stayed, *new]
        await commit(index, key, version, last[key], deleted=deleted)

        assert await read_live(reading, found, now_ns=0) == await read_live(stores(index), found, now_ns=0)


async def test_a_manifest_page_is_read_once() -> None:
    index = CountingIndex(GENERATION)
    reading = stores(index)
    await commit(index, DOCUMENTS[0], 1, pages_of(DOCUMENTS[0], 1, CHUNKS[:6]))
    hits = [Found(CHUNKS[0], DOCUMENTS[0]), Found(CHUNKS[4], DOCUMENTS[0])]
    live = (await read_live(reading, hits, now_ns=0))[DOCUMENTS[0]]

    around = [await read_around(reading, [(chunk_id, live)]) for chunk_id in (CHUNKS[0], CHUNKS[0], CHUNKS[4])]

    read = [{entry.chunk_id for entry in each[DOCUMENTS[0]]} for each in around]
    assert read == [set(CHUNKS[:4]), set(CHUNKS[:4]), set(CHUNKS[2:6])]
    assert [len(pages) for pages in index.read] == [2, 1]
