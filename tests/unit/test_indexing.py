"""The commit protocol under crashes: every store call may be the last one, and every event may come again."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freki.infra.models.vectors import VectorCache
from freki.operators.breadcrumb import with_context
from freki.operators.identify import root_id
from freki.schemas import ChunkKind, ContextualChunkBatch, DocumentId, LlmUse, OutcomeStatus, TenantId
from freki.streams.ingest.index import ReceivedPart
from freki.streams.ingest.index.records import EmbedCounts
from freki.streams.ingest.index.vectors import REVISIONS
from tests.unit.revisions import TENANT, Crash, Crashing, World, revision, rows_of, situated_by

contents = st.one_of(st.none(), st.lists(st.sampled_from("uvwxyz"), max_size=5, unique=True))
histories = st.lists(st.tuples(st.sampled_from("ab"), contents), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    history=histories,
    crashes=st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=3),
    batch=st.integers(1, 4),
)
async def test_whatever_crashes_readers_see_whole_revisions_and_nothing_is_left_behind(
    history: list[tuple[str, list[str] | None]], crashes: list[tuple[int, bool]], batch: int
) -> None:
    world = World()
    allowed: dict[str, list[list[str] | None]] = {"a": [None], "b": [None]}
    events = []
    for version, (document, texts) in enumerate(history, start=1):
        allowed[document].append(texts)
        events += revision(document, version, texts)

    at = 0
    pending = list(crashes)
    while at < len(events):
        dies_at, after = pending[0] if pending else (10**9, False)
        store = Crashing(world.index, dies_at, after)
        try:
            await world.feed(events[at : at + batch], store)
        except Crash:
            # Nothing of this batch was acknowledged: it comes again, to a process that remembers nothing.
            pending.pop(0)
        else:
            at += batch
        for document, revisions in allowed.items():
            assert await world.texts(document) in revisions

    for document, revisions in allowed.items():
        assert await world.texts(document) == revisions[-1]
    assert await world.leftovers() == 0


async def test_an_edit_embeds_only_the_chunk_that_it_touches() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v", "w", "x"]))

    (outcome,) = await world.feed(revision("a", 2, ["u", "v", "new", "x"]))

    assert (outcome.status, outcome.embedded, outcome.removed, outcome.chunks) == (OutcomeStatus.INDEXED, 1, 1, 4)


async def test_moving_a_paragraph_embeds_nothing() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v", "w"]))

    (outcome,) = await world.feed(revision("a", 2, ["w", "u", "v"]))

    assert outcome.embedded == 0
    assert await world.texts("a") == ["w", "u", "v"]


async def test_a_text_that_comes_again_in_its_tenant_is_not_embedded_again() -> None:
    world = World(vectors=VectorCache("fake", 1_000_000))
    await world.feed(revision("a", 1, ["u", "v", "w"]))

    # Under another id, but in the same context.
    (copy,) = await world.feed([_situated(batch, "a") for batch in revision("b", 1, ["u", "v", "w", "x"])])
    (elsewhere,) = await world.feed(
        [_situated(batch, "a") for batch in revision("c", 1, ["u"], tenant=TenantId("other"))]
    )

    assert (copy.chunks, copy.embedded, copy.tokens) == (4, 1, 10)
    assert elsewhere.embedded == 1
    key = root_id(TENANT, DocumentId("b"))
    rows = await rows_of(world.index, key)
    for row, vector in rows.values():
        assert np.allclose(
            vector, ((await world.embedder.embed_passages([with_context(row.context, row.text)])).vectors)[0]
        )


@pytest.mark.parametrize("together", [True, False])
async def test_what_is_embedded_of_a_chunk_does_not_depend_on_chunks_of_before_or_beside_it(*, together: bool) -> None:
    """A table that goes on has its header in its context; another one begins with the same header in its text."""
    begun = [_situated(batch, "Preise") for batch in revision("a", 1, ["Ware | Preis\nMehl | 2"])]
    continued = [_situated(batch, "Preise\nWare | Preis") for batch in revision("b", 1, ["Mehl | 2"])]
    alone, world = World(), World(vectors=VectorCache("fake", 1_000_000))

    for batches in [begun, continued]:
        await alone.feed(batches)
    for batches in [[*begun, *continued]] if together else [begun, continued]:
        await world.feed(batches)

    for document in "ab":
        (expected,), (row,) = await alone.rows(document), await world.rows(document)
        assert row.match_code == expected.match_code


def _situated(batch: ContextualChunkBatch, context: str) -> ContextualChunkBatch:
    return replace(batch, chunks=tuple(replace(chunk, context=context) for chunk in batch.chunks))


async def test_the_same_event_again_is_unchanged() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v"]))

    (outcome,) = await world.feed(revision("a", 1, ["u", "v"]))

    assert (outcome.status, outcome.embedded, outcome.removed) == (OutcomeStatus.UNCHANGED, 0, 0)


async def test_the_receipt_of_an_indexed_document_says_what_of_it_cannot_be_found() -> None:
    world = World()

    (partly,) = await world.feed(revision("a", 1, ["u"], attributes={"pages_without_text": "3, 7-9"}))
    (nothing,) = await world.feed(revision("b", 1, []))

    assert partly.status is nothing.status is OutcomeStatus.INDEXED
    assert partly.reason.startswith("no text was found on pages 3, 7-9: run OCR")
    assert nothing.reason.startswith("the document holds no text")


async def test_the_receipt_of_a_mail_or_pdf_names_the_files_in_it() -> None:
    world, attached = World(), {"attachments": "factur-x.xml"}

    (pdf,) = await world.feed(
        revision("a", 1, ["u"], media_type="application/pdf", attributes={**attached, "pages_without_text": "3"})
    )
    (mail,) = await world.feed(revision("b", 1, ["u"], media_type="message/rfc822", attributes=attached))
    (markdown,) = await world.feed(revision("c", 1, ["u"], media_type="text/markdown", attributes=attached))

    assert pdf.reason.startswith("no text was found on pages 3: run OCR")
    for receipt in (pdf, mail):
        assert receipt.reason.endswith("attached files are not indexed, publish them on their own: factur-x.xml")
    assert not markdown.reason


async def test_new_readers_rewrite_rows_without_embedding() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v"]))

    (outcome,) = await world.feed(revision("a", 2, ["u", "v"], principals=("board",)))

    key = root_id(TENANT, DocumentId("a"))
    rows = await rows_of(world.index, key)
    assert outcome.embedded == 0
    assert {row.principals for row, _ in rows.values()} == {("board",)}


async def test_a_text_of_another_kind_has_its_row_rewritten_without_embedding() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v"]))
    table = [
        replace(
            batch, chunks=tuple(replace(each, chunk=replace(each.chunk, kind=ChunkKind.TABLE)) for each in batch.chunks)
        )
        for batch in revision("a", 2, ["u", "v"], content_hash="a table")
    ]

    (outcome,) = await world.feed(table)

    assert {row.kind for row in await world.rows("a")} == {ChunkKind.TABLE}
    assert outcome.embedded == 0


async def test_another_context_embeds_its_chunk_anew() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v"]))

    (outcome,) = await world.feed(situated_by(revision("a", 2, ["u", "v"]), "k1", "v"))

    assert await world.contexts("a") == {"u": "a", "v": "a k1"}
    assert (outcome.status, outcome.embedded) == (OutcomeStatus.UNCHANGED, 1)


async def test_a_better_context_reaches_a_version_that_is_live_and_changes_nothing_else() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v", "w"]))
    key = root_id(TENANT, DocumentId("a"))
    root = (await world.index.roots([key]))[key]

    # As another chunker would cut the same content.
    cut_anew = revision("a", 1, ["u", "v", "w", "never indexed"], content_hash="u|v|w")
    better = situated_by(cut_anew, "k1", "v", "w", "never indexed")
    (outcome,) = await world.feed(better)
    (again,) = await world.feed(better)

    assert await world.contexts("a") == {"u": "a", "v": "a k1", "w": "a k1"}
    assert (outcome.status, outcome.embedded, again.embedded) == (OutcomeStatus.UNCHANGED, 2, 0)
    edition = (await world.index.roots([key]))[key]
    assert replace(edition, edition=0, attempt=root.attempt, pages=root.pages) == root
    assert await world.texts("a") == ["u", "v", "w"]


async def test_a_version_that_comes_again_under_other_settings_mixes_nothing() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v", "w"], content_hash="same"))

    other = revision("a", 1, ["u", "v", "w1", "w2"], content_hash="same", chunker="c2")
    (outcome,) = await world.feed(situated_by(other, "k2", "u", "v", "w1", "w2"))

    assert (outcome.status, outcome.embedded) == (OutcomeStatus.UNCHANGED, 0)
    assert await world.contexts("a") == {"u": "a", "v": "a", "w": "a"}


async def test_a_repeated_version_without_better_contexts_keeps_those_that_it_has() -> None:
    world = World()
    await world.feed(situated_by(revision("a", 1, ["u", "v"]), "k1", "v"))

    (outcome,) = await world.feed(revision("a", 1, ["u", "v"]))

    assert outcome.embedded == 0
    assert await world.contexts("a") == {"u": "a", "v": "a k1"}


async def test_a_better_context_of_an_old_version_is_stale() -> None:
    world = World()
    await world.feed(revision("a", 2, ["u", "v"]))

    await world.feed(situated_by(revision("a", 1, ["u", "v"]), "k1", "u", "v"))

    assert await world.contexts("a") == {"u": "a", "v": "a"}


@pytest.mark.parametrize("after", [False, True])
async def test_a_crash_while_contexts_get_better_is_made_good_by_the_repeated_event(*, after: bool) -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v"]))
    better = situated_by(revision("a", 1, ["u", "v"]), "k1", "u", "v")

    with pytest.raises(Crash):
        await world.feed(better, Crashing(world.index, 1, after))
    seen = await world.texts("a")
    (outcome,) = await world.feed(better)

    assert seen == ["u", "v"]
    assert outcome.status is OutcomeStatus.UNCHANGED
    assert await world.contexts("a") == {"u": "a k1", "v": "a k1"}


async def test_better_contexts_are_taken_where_another_page_of_the_manifest_is_lost() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u", "v", "w"]))
    key = root_id(TENANT, DocumentId("a"))
    await world.index.discard([(await world.index.roots([key]))[key].pages[1]])

    (outcome,) = await world.feed(situated_by(revision("a", 1, ["u", "v", "w"]), "k1", "u"))

    assert outcome.status is OutcomeStatus.UNCHANGED
    assert (await world.index.roots([key]))[key].edition == 1


async def test_the_receipt_says_what_the_last_part_says_of_the_language_model() -> None:
    world = World()
    first, last = revision("a", 1, ["u", "v", "w"])
    use = LlmUse(written=2, kept=0, missing=1, reason="down", prompt_tokens=9, cached_tokens=4, completion_tokens=3)

    await world.feed([replace(first, llm=replace(use, missing=0))])
    (outcome,) = await world.feed([replace(last, llm=use)])

    assert outcome.llm == use


async def test_counts_of_revisions_whose_last_part_another_process_gets_do_not_pile_up() -> None:
    world = World()
    indexer = world.indexer()
    firsts = [revision(f"d{number}", 1, [f"{number}u", "v", "w"])[0] for number in range(REVISIONS + 50)]
    # What other tests left is not collected before its time.
    left = len(embed_counts())

    async for outcomes in indexer.index([ReceivedPart(part, 0) for part in firsts]):
        assert outcomes == []

    assert len(embed_counts()) - left <= REVISIONS


def embed_counts() -> list[EmbedCounts]:
    """Find all in this process."""
    return [each for each in gc.get_objects() if type(each) is EmbedCounts]


async def test_an_older_event_is_stale_and_changes_nothing() -> None:
    world = World()
    await world.feed(revision("a", 5, ["new"]))

    (outcome,) = await world.feed(revision("a", 4, ["old"]))

    assert outcome.status is OutcomeStatus.STALE
    assert outcome.searchable_at is None
    assert await world.texts("a") == ["new"]


async def test_a_deletion_leaves_a_root_without_content_that_fences_late_events() -> None:
    world = World()
    await world.feed(revision("a", 1, ["secret"]))

    (deleted,) = await world.feed(revision("a", 2, None))
    (late,) = await world.feed(revision("a", 1, ["secret"]))

    key = root_id(TENANT, DocumentId("a"))
    root = (await world.index.roots([key]))[key]
    assert (deleted.status, deleted.removed) == (OutcomeStatus.DELETED, 1)
    assert late.status is OutcomeStatus.STALE
    assert await world.texts("a") is None
    assert (root.name, root.principals, root.content_hash) == ("", ("everyone",), "")
    assert await rows_of(world.index, key) == {}


async def test_a_late_worker_does_not_delete_what_its_successor_writes() -> None:
    world = World()
    await world.feed(revision("a", 1, ["u"]))
    first, last = revision("a", 2, ["v", "w", "x"])
    await world.feed([first])

    # A worker that was thought dead gets the old event once more, between two parts of the new one.
    await world.feed(revision("a", 1, ["u"]))
    await world.feed([last])

    assert await world.texts("a") == ["v", "w", "x"]


async def test_small_and_important_documents_do_not_wait_for_a_large_one() -> None:
    world = World()
    large = revision("a", 1, [f"chunk {number}" for number in range(20)])
    small = revision("b", 1, ["one"])
    order = []

    async for outcomes in world.indexer().index([ReceivedPart(batch, 0) for batch in [*large, *small]]):
        order += [outcome.document_id for outcome in outcomes]

    assert order == ["b", "a"]


@pytest.mark.parametrize("batch", [1, 2, 7])
async def test_outcomes_do_not_depend_on_how_parts_arrive(batch: int) -> None:
    world = World()
    events = [*revision("a", 1, ["u", "v", "w", "x", "y"]), *revision("a", 2, ["u", "v", "w"]), *revision("a", 3, None)]

    outcomes = []
    for at in range(0, len(events), batch):
        outcomes += await world.feed(events[at : at + batch])

    assert [outcome.status for outcome in outcomes] == [
        OutcomeStatus.INDEXED,
        OutcomeStatus.INDEXED,
        OutcomeStatus.DELETED,
    ]
    assert await world.leftovers() == 0
