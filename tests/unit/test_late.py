"""Chunks are embedded by themselves or within their window, whatever company they have."""

import asyncio
from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.infra.claims import ClaimStore
from freki.infra.models import FakeEmbedder
from freki.infra.models.vectors import VectorCache
from freki.infra.settings import ChunkingSettings, ClaimSettings
from freki.operators.analyse_text import plain_terms
from freki.schemas import (
    EVERYONE,
    ChunkId,
    ChunkKind,
    ContextualChunkBatch,
    DocumentChange,
    DocumentId,
    Operation,
    TenantId,
    Timestamp,
)
from freki.schemas.index import Generation
from freki.streams.ingest.chunk import Chunker
from freki.streams.ingest.contextualise import contextualise
from freki.streams.ingest.index import Indexer, IndexRules, ReceivedPart
from freki.streams.ingest.late_chunking import Embeddable, embed_each
from freki.streams.ingest.outline import Outliner, OutlineRules
from freki.streams.wire.rules import limits_of
from tests.memory_index import MemoryIndex
from tests.parsing import parse_here
from tests.received import received

WINDOW = "Der Imker sieht nach den Bienen. Er füttert sie."
ALONE = Embeddable("Honig ist süß.")
FIRST, SECOND = Embeddable("", "", WINDOW, 0, 32), Embeddable("", "", WINDOW, 33, len(WINDOW))


async def test_chunks_in_windows_and_others_keep_their_order() -> None:
    embedder = FakeEmbedder()

    mixed = await embed_each(embedder, [FIRST, ALONE, SECOND])

    singles = [await embed_each(embedder, [each]) for each in (FIRST, ALONE, SECOND)]
    assert [each.match_code for each in mixed] == [single.match_code for (single,) in singles]
    expected = np.array([single.vector for (single,) in singles])
    assert np.array([each.vector for each in mixed]) == pytest.approx(expected)
    assert mixed[1].vector == pytest.approx((await embedder.embed_passages([ALONE.text])).vectors[0])


async def test_no_chunks_give_no_rows() -> None:
    assert await embed_each(FakeEmbedder(8), []) == []


async def revised(
    content: str, version: int, *, name: str = "bees.txt", apart: Collection[ChunkKind] = ()
) -> list[ContextualChunkBatch]:
    stage = Chunker(
        claims=ClaimStore(ClaimSettings()),
        outliner=Outliner(
            OutlineRules(
                limits=limits_of(ChunkingSettings(min_tokens=5, max_tokens=32)), window_tokens=64, apart=apart
            ),
            parse=parse_here,
            count_tokens=FakeEmbedder().count_tokens,
        ),
        part_chunks=8,
        now=lambda: Timestamp(0),
    )
    change = DocumentChange(
        tenant=TenantId("acme"),
        document_id=DocumentId(name),
        operation=Operation.UPSERT,
        version=version,
        occurred_at=Timestamp(0),
        principals=(EVERYONE,),
        content=content,
    )
    batches = await stage.revise(received(change, Timestamp(0)))
    return [contextualise(batch) for batch in batches]


TOLD = [f"Absatz {number} sagt etwas über {number * 7919 % 1009} Dinge und noch mehr." for number in range(90)]


async def test_each_part_has_the_windows_of_its_chunks_and_no_others() -> None:
    batches = await revised("\n\n".join(TOLD), 1)

    assert len(batches) > 2
    for batch in batches:
        chunks = [contextual.chunk for contextual in batch.chunks]
        assert {chunk.window for chunk in chunks} - {-1} == set(range(len(batch.windows)))
        for chunk in chunks:
            end = chunk.window_start + len(chunk.text)
            assert chunk.window < 0 or batch.windows[chunk.window][chunk.window_start : end] == chunk.text


@settings(max_examples=60, deadline=None)
@given(told=st.lists(st.sampled_from(TOLD[:3]), min_size=6, max_size=16), data=st.data())
def test_an_id_stands_for_one_place_in_one_window(told: list[str], data: st.DataObject) -> None:
    """Also that of a paragraph that comes several times, of which an edit removes one."""
    removed = data.draw(st.integers(0, len(told) - 1))

    before = _placed(asyncio.run(revised("\n\n".join(told), 1)))
    after = _placed(asyncio.run(revised("\n\n".join([*told[:removed], *told[removed + 1 :]]), 2)))

    assert {chunk: before[chunk] for chunk in before.keys() & after.keys()}.items() <= after.items()


def _placed(batches: list[ContextualChunkBatch]) -> dict[ChunkId, tuple[str, int]]:
    """Return the window of each chunk, and its place there."""
    return {
        each.chunk.chunk_id: (batch.windows[each.chunk.window], each.chunk.window_start)
        for batch in batches
        for each in batch.chunks
        if each.chunk.window >= 0
    }


@pytest.mark.parametrize("apart", [ChunkKind.CODE, ChunkKind.TABLE])
async def test_kinds_with_an_embedder_of_their_own_have_ids_of_their_own_and_no_window(apart: ChunkKind) -> None:
    content = "".join(
        f"def bee{number}(flowers):\n    return flowers[{number}].nectar * {number}\n\n" for number in range(3)
    )

    (before,) = await revised(content, 1, name="bees.py")
    (after,) = await revised(content, 1, name="bees.py", apart=[apart])

    leaves = [chunk.chunk for chunk in before.chunks if chunk.chunk.kind is ChunkKind.CODE]
    assert leaves
    assert all(leaf.window >= 0 for leaf in leaves)
    for old, new in zip(before.chunks, after.chunks, strict=True):
        if new.chunk.kind is apart:
            assert (new.chunk.window, new.chunk.text) == (-1, old.chunk.text)
            assert new.chunk.chunk_id != old.chunk.chunk_id
        else:
            assert new.chunk == old.chunk


async def test_an_edit_embeds_the_chunks_of_the_windows_that_it_touches_and_no_others() -> None:
    embedder = FakeEmbedder()
    index = MemoryIndex(Generation(name="g1", embedder=embedder.fingerprint, dim=embedder.dim, analyser="plain"))
    indexer = Indexer(
        IndexRules(
            generation="g1",
            analyse_text=plain_terms,
            analyser="plain",
            slice_tokens=500,
        ),
        store=index,
        embedder=embedder,
        vectors=VectorCache("", 1_000_000),
        now=lambda: Timestamp(0),
    )
    edited = await revised("\n\n".join([*TOLD[:40], "Hier steht nun etwas Neues.", *TOLD[40:]]), 2)
    before = {window for batch in await revised("\n\n".join(TOLD), 1) for window in batch.windows}
    expected = [
        contextual.chunk.chunk_id
        for batch in edited
        for contextual in batch.chunks
        if contextual.chunk.window >= 0 and batch.windows[contextual.chunk.window] not in before
    ]

    outcomes = []
    for batches in (await revised("\n\n".join(TOLD), 1), edited):
        async for some in indexer.index([ReceivedPart(batch, 0) for batch in batches]):
            outcomes += some

    first, second = outcomes
    assert second.embedded == len(set(expected))
    assert 0 < second.embedded < first.embedded / 4
