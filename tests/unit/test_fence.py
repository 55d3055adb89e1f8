from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.fence import Action, decide
from freki.schemas import DocumentId, Revision, RevisionOperation, RootId, TenantId, Timestamp
from freki.schemas.index import Attempt, Root

EMBEDDER = "e5@int8"
FACETS = "f1"


def revision(operation: RevisionOperation = RevisionOperation.UPSERT, **changes: Any) -> Revision:
    return replace(
        Revision(
            tenant=TenantId("t"),
            document_id=DocumentId("d"),
            operation=operation,
            version=3,
            name="d",
            media_type="text/plain",
            language="de",
            source_uri=None,
            principals=(),
            attributes={},
            priority=0,
            content_hash="c3",
            chunker="k1",
            characters=10,
            occurred_at=Timestamp(0),
            recorded_at=Timestamp(30),
            received_at=Timestamp(0),
        ),
        **changes,
    )


def root(**changes: Any) -> Root:
    return replace(
        Root(
            root_id=RootId("r"),
            tenant=TenantId("t"),
            document_id=DocumentId("d"),
            version=3,
            deleted=False,
            attempt=Attempt("a"),
            pages=(),
            chunks=1,
            content_hash="c3",
            metadata_hash=FACETS,
            chunker="k1",
            embedder=EMBEDDER,
            fingerprint="f",
            name="d",
            media_type="text/plain",
            language="de",
            source_uri=None,
            principals=(),
            attributes={},
            characters=10,
            occurred_at=Timestamp(0),
            recorded_at=Timestamp(30),
            received_at=Timestamp(0),
            searchable_at=Timestamp(0),
        ),
        **changes,
    )


UPSERT, DELETE, TOMBSTONE = RevisionOperation.UPSERT, RevisionOperation.DELETE, RevisionOperation.TOMBSTONE
DELETED = root(deleted=True, content_hash="")
BURIED = replace(DELETED, tombstoned_at=Timestamp(30))


@pytest.mark.parametrize(
    ("held", "event", "action"),
    [
        pytest.param(None, revision(), Action.WRITE, id="a new document is written"),
        pytest.param(root(), revision(version=4, content_hash="c4"), Action.WRITE, id="a higher version is written"),
        pytest.param(root(), revision(version=4), Action.WRITE, id="so is one with the same content"),
        pytest.param(root(), revision(), Action.REPEAT, id="the same again is a repeat"),
        pytest.param(root(), revision(chunker="k2"), Action.REPEAT, id="another chunker repeats"),
        pytest.param(root(metadata_hash="x"), revision(), Action.STALE, id="other metadata is stale"),
        pytest.param(root(), revision(content_hash="x"), Action.STALE, id="a version is never used twice"),
        pytest.param(root(), revision(version=2), Action.STALE, id="a lower version is stale"),
        pytest.param(DELETED, revision(version=2), Action.STALE, id="the dead stay dead"),
        pytest.param(DELETED, revision(), Action.STALE, id="also at the version of their deletion"),
        pytest.param(DELETED, revision(version=4), Action.WRITE, id="a newer version lives again"),
        pytest.param(None, revision(DELETE), Action.DELETE, id="deleting the unknown fences what comes late"),
        pytest.param(root(), revision(DELETE, version=4), Action.DELETE, id="a higher version deletes"),
        pytest.param(root(), revision(DELETE), Action.DELETE, id="a deletion wins over its own version"),
        pytest.param(root(), revision(DELETE, version=2), Action.STALE, id="a lower deletion is stale"),
        pytest.param(DELETED, revision(DELETE), Action.ALREADY_DELETED, id="deleted is deleted"),
        pytest.param(DELETED, revision(DELETE, version=2), Action.ALREADY_DELETED, id="by an older one as well"),
        pytest.param(DELETED, revision(DELETE, version=5), Action.DELETE, id="a later deletion raises the fence"),
        pytest.param(None, revision(TOMBSTONE, version=0), Action.DELETE, id="a tombstone fences what comes late"),
        pytest.param(BURIED, revision(TOMBSTONE, version=0), Action.ALREADY_DELETED, id="buried already"),
        pytest.param(DELETED, revision(TOMBSTONE, version=0), Action.DELETE, id="a tombstone adds its time"),
        pytest.param(
            BURIED,
            revision(version=4, recorded_at=29),
            Action.STALE,
            id="what was recorded before a tombstone is gone",
        ),
        pytest.param(BURIED, revision(version=4, recorded_at=30), Action.WRITE, id="what came after it lives"),
        pytest.param(
            root(), revision(TOMBSTONE, version=0, recorded_at=31), Action.DELETE, id="a tombstone keeps the version"
        ),
        pytest.param(
            root(), revision(TOMBSTONE, version=0, recorded_at=30), Action.STALE, id="a tombstone needs to be later"
        ),
    ],
)
def test_a_root_fences_what_may_follow_it(held: Root | None, event: Revision, action: Action) -> None:
    decision = decide(held, event, metadata_hash=FACETS)

    assert decision.action is action
    assert bool(decision.reason) == (action is Action.STALE)


def test_a_version_that_was_used_twice_is_told_how_to_mend_it() -> None:
    decision = decide(root(), revision(content_hash="other"), metadata_hash=FACETS)

    assert "give each change a higher version" in decision.reason


def applied(events: Iterable[Revision], held: Root | None = None) -> Root | None:
    """Commit what `decide` says, as the indexing stage does."""
    for event in events:
        decision = decide(held, event, metadata_hash=FACETS)
        if decision.action in {Action.WRITE, Action.DELETE}:
            held = root(
                version=max(event.version, held.version if held is not None else 0),
                deleted=decision.action is Action.DELETE,
                content_hash=event.content_hash,
                recorded_at=event.recorded_at,
                tombstoned_at=_tombstoned_at(event, held),
            )
    return held


def _tombstoned_at(event: Revision, held: Root | None) -> Timestamp:
    before = held.tombstoned_at if held is not None else Timestamp(0)
    return max(before, event.recorded_at) if event.operation is TOMBSTONE else before


def log(operations: Sequence[RevisionOperation]) -> list[Revision]:
    """Events of one document as one partition holds them, each with its version but for tombstones."""
    return [
        revision(operation, version=0, content_hash="", recorded_at=10 * place)
        if operation is TOMBSTONE
        else revision(
            operation,
            version=place,
            content_hash=f"c{place}" if operation is UPSERT else "",
            recorded_at=10 * place,
        )
        for place, operation in enumerate(operations, start=1)
    ]


def visible(held: Root | None) -> str | None:
    return None if held is None or held.deleted else held.content_hash


versioned = st.lists(st.sampled_from([UPSERT, DELETE]), min_size=1, max_size=6).map(log)
histories = st.lists(st.sampled_from([UPSERT, UPSERT, DELETE, TOMBSTONE]), min_size=1, max_size=8).map(log)


@given(events=versioned, data=st.data())
def test_the_highest_version_wins_in_whatever_order_and_however_often_events_arrive(
    events: list[Revision], data: st.DataObject
) -> None:
    extra = data.draw(st.lists(st.sampled_from(events), max_size=6))
    shuffled = data.draw(st.permutations([*events, *extra]))

    assert applied(shuffled) == applied(events)


@given(events=histories)
def test_a_document_is_as_its_last_event_left_it(events: list[Revision]) -> None:
    held = applied(events)

    assert visible(held) == (events[-1].content_hash or None)


@given(events=histories, data=st.data())
def test_a_redelivered_suffix_changes_nothing(events: list[Revision], data: st.DataObject) -> None:
    delivered: list[Revision] = []
    end = 0
    for _ in range(data.draw(st.integers(0, 3))):
        # Read on to some place, crash, and start again from an earlier commit.
        start = data.draw(st.integers(0, end))
        end = data.draw(st.integers(end, len(events)))
        delivered += events[start:end]
    delivered += events[data.draw(st.integers(0, end)) :]

    assert visible(applied(delivered)) == visible(applied(events))


@given(events=histories, data=st.data())
def test_no_older_event_raises_a_deleted_document(events: list[Revision], data: st.DataObject) -> None:
    held = applied([*events, revision(DELETE, version=100, content_hash="", recorded_at=1000)])
    late = data.draw(st.lists(st.sampled_from(events)))

    assert applied(late, held) == held


@given(events=histories, data=st.data())
def test_a_document_ends_in_the_same_state_in_whatever_order_its_events_arrive(
    events: list[Revision], data: st.DataObject
) -> None:
    extra = data.draw(st.lists(st.sampled_from(events), max_size=4))
    shuffled = data.draw(st.permutations([*events, *extra]))

    assert visible(applied(shuffled)) == visible(applied(events))


@given(events=histories)
def test_what_compaction_leaves_gives_the_same_document(events: list[Revision]) -> None:
    assert visible(applied(events[-1:])) == visible(applied(events))
