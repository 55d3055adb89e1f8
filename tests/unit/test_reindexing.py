"""Versions that are reindexed on request: whole, once for each request, by the rules of who answers it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.operators.breadcrumb import with_context
from freki.operators.identify import root_id
from freki.schemas import ContextualChunkBatch, DocumentId, OutcomeStatus
from freki.schemas.index import Root
from tests.unit.revisions import TENANT, Crash, Crashing, World, revision, rows_of, situated_by

KEY = root_id(TENANT, DocumentId("a"))
CUT = ["u", "v", "w"]
ANEW = ["u", "v1", "v2", "w"]


def by(chunker: str, texts: list[str], version: int = 1) -> list[ContextualChunkBatch]:
    return revision("a", version, texts, content_hash="same", chunker=chunker)


async def root_in(world: World) -> Root:
    return (await world.index.roots([KEY]))[KEY]


async def test_a_root_tells_by_which_rules_its_revision_was_made() -> None:
    world = World()
    await world.feed(by("c1", CUT))
    first = (await root_in(world)).fingerprint

    await world.feed(by("c2", ANEW))
    repeated = (await root_in(world)).fingerprint
    await world.feed(by("c2", ANEW), edition=7)
    anew = await root_in(world)
    await world.feed(by("c1", CUT, version=2))

    assert repeated == first
    assert (anew.version, anew.edition, anew.fingerprint != first) == (1, 7, True)
    assert (await root_in(world)).fingerprint == first


async def test_a_request_makes_a_version_anew_and_a_mere_repetition_does_not() -> None:
    world = World()
    await world.feed(by("c1", CUT))

    (repeated,) = await world.feed(by("c2", ANEW))
    before = await world.texts("a")
    (anew,) = await world.feed(by("c2", ANEW), edition=7)

    assert (repeated.status, before) == (OutcomeStatus.UNCHANGED, CUT)
    assert (anew.status, anew.chunks, anew.embedded) == (OutcomeStatus.INDEXED, 4, 2)
    assert await world.texts("a") == ANEW
    assert await world.leftovers() == 0


async def test_each_request_is_answered_once_so_that_owners_with_other_settings_do_not_take_turns() -> None:
    world = World()
    await world.feed(by("c1", CUT))

    statuses = []
    for chunker, texts in (("c1", CUT), ("c2", ANEW), ("c1", CUT), ("c2", ANEW)):
        (outcome,) = await world.feed(by(chunker, texts), edition=7)
        statuses.append(outcome.status)
    (later,) = await world.feed(by("c2", ANEW), edition=8)

    assert statuses == [OutcomeStatus.INDEXED, *[OutcomeStatus.UNCHANGED] * 3]
    assert later.status is OutcomeStatus.INDEXED
    assert await world.texts("a") == ANEW


async def test_a_request_brings_back_what_was_lost_under_the_same_rules() -> None:
    world = World()
    await world.feed(by("c1", CUT))
    await world.index.delete(sorted(await rows_of(world.index, KEY))[:1])
    await world.index.discard((await root_in(world)).pages[1:])

    (outcome,) = await world.feed(by("c1", CUT), edition=7)

    assert outcome.status is OutcomeStatus.INDEXED
    assert await world.texts("a") == CUT


async def test_a_request_for_a_version_that_is_not_live_changes_nothing() -> None:
    world = World()
    await world.feed(by("c1", CUT, version=2))
    (older,) = await world.feed(by("c2", ANEW), edition=7)
    await world.feed(revision("a", 3, None))
    (dead,) = await world.feed(by("c2", ANEW, version=3), edition=7)

    assert (older.status, dead.status) == (OutcomeStatus.STALE, OutcomeStatus.STALE)
    assert await world.texts("a") is None


async def test_rows_by_other_rules_are_not_kept_and_their_vectors_only_where_the_context_is_the_same() -> None:
    world = World()
    await world.feed(by("c1", CUT))
    before = await rows_of(world.index, KEY)
    # Other rules may give the same key to another context, as a new release does.
    other = [
        replace(
            batch,
            chunks=tuple(replace(each, context="a > § 2") if each.chunk.text == "w" else each for each in batch.chunks),
        )
        for batch in by("c2", CUT, version=2)
    ]

    (outcome,) = await world.feed(other)

    rows = await rows_of(world.index, KEY)
    assert (outcome.embedded, outcome.chunks) == (1, 3)
    assert not before.keys() & rows.keys()
    for row, vector in rows.values():
        expected = (await world.embedder.embed_passages([with_context(row.context, row.text)])).vectors[0]
        assert np.allclose(vector, expected)


@pytest.mark.parametrize(("changed", "kept"), [(2, 2), (3, 0)], ids=["half", "above half"])
async def test_above_half_of_its_chunks_changed_a_document_is_written_whole(changed: int, kept: int) -> None:
    world = World()
    texts = ["u", "v", "w", "x"]
    await world.feed(revision("a", 1, texts))
    before = await rows_of(world.index, KEY)

    (outcome,) = await world.feed(revision("a", 2, [*texts[changed:], *(f"new {n}" for n in range(changed))]))

    assert outcome.embedded == changed
    assert len(before.keys() & (await rows_of(world.index, KEY)).keys()) == kept


async def test_contexts_by_the_same_rules_still_reach_a_version_that_is_live() -> None:
    world = World()
    await world.feed(by("c1", CUT))
    await world.feed(by("c1", CUT), edition=7)

    await world.feed(situated_by(by("c1", CUT), "k1", "v"))
    (again,) = await world.feed(by("c1", CUT), edition=7)

    assert (await root_in(world)).edition == 8
    assert again.status is OutcomeStatus.UNCHANGED
    assert await world.contexts("a") == {"u": "a", "v": "a k1", "w": "a"}


@settings(max_examples=100, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.sampled_from(["c1", "c2"]), st.integers(0, 3), st.integers(1, 12), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
async def test_whatever_crashes_a_version_is_whole_by_one_set_of_rules_and_editions_only_grow(
    arrivals: list[tuple[str, int, int, bool]],
) -> None:
    cuts = {"c1": CUT, "c2": ANEW}
    world = World()
    await world.feed(by("c1", CUT))
    edition = 0
    for chunker, requested, dies_at, after in arrivals:
        try:
            await world.feed(by(chunker, cuts[chunker]), Crashing(world.index, dies_at, after), edition=requested)
        except Crash:
            await world.feed(by(chunker, cuts[chunker]), edition=requested)
        root = await root_in(world)
        # A repetition may write the same cut once more where rows were lost.
        assert root.edition >= max(edition, requested)
        assert await world.texts("a") == cuts[root.chunker]
        edition = root.edition
    assert await world.leftovers() == 0
