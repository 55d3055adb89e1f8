"""What an index promises where some kinds of chunks have an embedder for themselves."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import MilvusSettings
from freki.schemas import ChunkId, ChunkKind, Filter, FilterOperator, RootId
from freki.schemas.arrays import Floats
from freki.schemas.errors import Rejected
from freki.schemas.index import IndexedChunk
from tests.contract.index_records import WITH_KIND_EMBEDDER, chunk, head, row, scope
from tests.memory_index import MemoryIndex

Index = MilvusIndex | MemoryIndex

PROSE, CODE = slice(0, 4), slice(4, 7)
WIDTH = 7


def code(chunk_id: str, **changes: Any) -> IndexedChunk:
    return chunk(chunk_id, kind=ChunkKind.CODE, embedder="coder@1", **changes)


def in_block(block: slice, *numbers: float) -> Floats:
    """Make a row that is 0 but for a block, of length 1."""
    row = np.zeros(WIDTH, np.float32)
    row[block.start : block.start + len(numbers)] = numbers
    return row / np.linalg.norm(row)


def asked(prose: tuple[float, ...], coded: tuple[float, ...]) -> Floats:
    return (in_block(PROSE, *prose) + in_block(CODE, *coded))[None]


class KindEmbedderContract:
    """A subclass supplies an empty index."""

    async def test_a_row_comes_back_with_the_vector_of_its_embedder(self, index: Index) -> None:
        rows = np.stack([in_block(PROSE, 1, 2, 3, 4), in_block(CODE, 3, 2, 1)])
        written = [chunk("p"), code("c")]

        await index.insert(written, rows)

        found = await index.fetch([row("c"), row("p"), row("absent")])
        assert {key: each for key, (each, _) in found.items()} == {each.row_id: each for each in written}
        np.testing.assert_allclose(np.stack([found[each.row_id][1] for each in written]), rows, atol=1e-6)
        contents = await index.contents([row("c"), row("p"), row("absent")])
        np.testing.assert_allclose(np.stack([contents[each.row_id][1] for each in written]), rows, atol=1e-6)
        assert set(await index.stored([ChunkId("c"), ChunkId("p"), ChunkId("absent")])) == {"c", "p"}
        assert set(await index.passages([row("c"), row("p"), row("absent")])) == {row("c"), row("p")}

    async def test_collections_that_have_no_row_give_none(self, index: Index) -> None:
        row_ids = [row("p"), row("c")]

        assert not await index.fetch(row_ids)
        assert not await index.passages(row_ids)
        assert not await index.stored([ChunkId("p"), ChunkId("c")])
        assert await index.rows_of([RootId("r0")]) == {"r0": []}
        assert await index.dense(asked((1,), (1,)), [scope()], limit=3, strong=True) == [[]]
        assert await index.lexical(["guid"], [scope()], limit=3, strong=True) == [[]]

        await index.insert([chunk("p")], in_block(PROSE, 1)[None])
        assert set(await index.fetch(row_ids)) == {row("p")}

    async def test_one_ranking_compares_the_cosines_of_all_embedders(self, index: Index) -> None:
        await index.insert(
            [chunk("p1"), chunk("p2"), code("c1"), code("c2")],
            np.stack([in_block(PROSE, 0.9, 0.4), in_block(PROSE, 0, 1), in_block(CODE, 1), in_block(CODE, 0.8, 0.6)]),
        )

        (ranking,) = await index.dense(asked((1, 0), (1, 0)), [scope()], limit=3, strong=True)

        assert [hit.chunk_id for hit in ranking] == ["c1", "p1", "c2"]
        assert [hit.score for hit in ranking] == pytest.approx([1, 0.9138, 0.8], abs=1e-3)

    async def test_words_are_as_rare_as_they_are_in_the_collection(self, index: Index) -> None:
        vectors = np.stack([in_block(PROSE, 1), in_block(PROSE, 1), in_block(CODE, 1)])
        await index.insert([chunk("p1", lexical="run"), chunk("p2", lexical="walk"), code("c", lexical="run")], vectors)

        (ranking,) = await index.lexical(["run"], [scope()], limit=9, strong=True)

        assert {hit.chunk_id for hit in ranking} == {"p1", "c"}
        assert ranking[0].chunk_id == "p1"

    async def test_filters_and_access_hold_for_all(self, index: Index) -> None:
        await index.insert(
            [chunk("p"), code("c"), code("secret", principals=("staff",))],
            np.stack([in_block(PROSE, 1), in_block(CODE, 1), in_block(CODE, 1)]),
        )
        only_code = Filter(field="kind", operator=FilterOperator.EQ, values=("CODE",))

        question = asked((1,), (1,)).repeat(2, axis=0)
        every, filtered = await index.dense(question, [scope(), scope(only_code)], limit=9, strong=True)

        assert [hit.chunk_id for hit in every] == ["c", "p"]
        assert [hit.chunk_id for hit in filtered] == ["c"]

    async def test_all_rows_are_listed_counted_and_deleted(self, index: Index) -> None:
        written = [chunk("p"), code("c"), code("late", version=9)]
        await index.insert(written, np.stack([in_block(PROSE, 1), in_block(CODE, 1), in_block(CODE, 1)]))
        heads = {head(each) for each in written}
        assert (await index.statistics()).chunks == 3
        assert set((await index.rows_of([RootId("r0")]))[RootId("r0")]) == heads
        assert {listed async for some in index.all_rows() for listed in some} == {("r0", each) for each in heads}

        await index.delete([row("p"), row("c"), row("absent")])

        assert await index.rows_of([RootId("r0")]) == {"r0": [head(written[2])]}
        assert (await index.statistics()).chunks == 1

    async def test_rows_of_several_attempts_are_stored_and_found_as_one_chunk(self, index: Index) -> None:
        written = [
            *(chunk("p", row_id=row("p", attempt)) for attempt in ("a1", "a2")),
            *(code("c", row_id=row("c", attempt)) for attempt in ("a1", "a2")),
        ]
        matrix = np.stack([in_block(PROSE, 1), in_block(PROSE, 1), in_block(CODE, 1), in_block(CODE, 1)])
        await index.insert(written, matrix)

        stored = await index.stored([ChunkId("p"), ChunkId("c")])
        [dense] = await index.dense(asked((1,), (1,)), [scope()], limit=9, strong=True)
        [lexical] = await index.lexical(["guid"], [scope()], limit=9, strong=True)

        assert {key: {each.row_id for each in rows} for key, rows in stored.items()} == {
            "p": {row("p", "a1"), row("p", "a2")},
            "c": {row("c", "a1"), row("c", "a2")},
        }
        assert [hit.chunk_id for hit in dense] == [hit.chunk_id for hit in lexical] == ["c", "p"]

    async def test_a_row_that_the_store_does_not_take_keeps_all_from_being_written(self, index: Index) -> None:
        rows = np.stack([in_block(PROSE, 1), in_block(CODE, 1)])

        with pytest.raises(Rejected):
            await index.insert([chunk("p"), code("c", text="x" * 70_000)], rows)
        with pytest.raises(Rejected):
            await index.insert([chunk("p"), code("c")], rows[:, :4])

        assert (await index.statistics()).chunks == 0


class TestMemoryIndex(KindEmbedderContract):
    @pytest.fixture
    def index(self) -> MemoryIndex:
        return MemoryIndex(WITH_KIND_EMBEDDER)


class TestMilvusIndex(KindEmbedderContract):
    @pytest.fixture
    async def index(self, store: MilvusSettings) -> AsyncIterator[MilvusIndex]:
        # New collections: those that had rows once behave in another way.
        async with MilvusIndex(store, replace(WITH_KIND_EMBEDDER, name=f"kinds_{secrets.token_hex(4)}")) as opened:
            yield opened
