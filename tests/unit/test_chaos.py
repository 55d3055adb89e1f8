"""The run with faults must be able to fail: each kind of difference and each wrong answer is planted here once."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freki.schemas import (
    ContextHit,
    ContextPart,
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    QueryId,
    Timestamp,
)
from tests.chaos.books import Books, State
from tests.chaos.changes import CHARACTERS, MOST_CHARACTERS, TENANT, BareTombstone, Changes
from tests.chaos.plan import STAGES, Kind, first_workers, plan, stage_of
from tests.chaos.store import Contents, compare
from tests.unit.evaluations import hit, result
from tests.unit.receipts import a_receipt

TEXT = "Absatz z1 von d0"
OTHER = "Absatz z2 von d0"


def root(version: int, *, attempt: str = "a1", **fields: Any) -> dict[str, Any]:
    body = {
        "root_id": "r0",
        "tenant": TENANT,
        "document_id": "d0",
        "version": version,
        "edition": 0,
        "attempt": attempt,
        "deleted": False,
        "pages": [(attempt, 1)],
        "chunks": 1,
        "content_hash": hashlib.sha256(TEXT.encode()).hexdigest(),
        "principals": ["everyone"],
        "recorded_at": 5,
        "tombstoned_at": 0,
        **fields,
    }
    return {"id": f"r0:{version}:{attempt}", "key": "r0", "record": "root", "body": body}


def dead(version: int, **fields: Any) -> dict[str, Any]:
    return root(version, attempt="dead", deleted=True, pages=[], chunks=0, content_hash="", **fields)


def page(attempt: str = "a1", *, version: int = 1, mark: bool = False) -> dict[str, Any]:
    return {
        "id": f"r0:{version}:0:{attempt}" + (":checked" if mark else ""),
        "root_id": "r0",
        "is_mark": mark,
        "row_ids": [] if mark else [f"c-{attempt}"],
        "version": 1,
    }


def chunk(attempt: str = "a1", **fields: Any) -> dict[str, Any]:
    return {
        "row_id": f"c-{attempt}",
        "root_id": "r0",
        "tenant": TENANT,
        "document_id": "d0",
        "text": TEXT,
        "principals": ["everyone"],
        "version": 1,
        **fields,
    }


def good() -> Contents:
    return Contents([root(1)], [page(), page(mark=True)], [chunk()])


LIVE = {"d0": [State(1, TEXT, ("everyone",))]}
GONE = {"d0": [*LIVE["d0"], State(2, None)]}


def test_a_store_that_holds_what_was_published_differs_in_nothing() -> None:
    found = compare(good(), LIVE, TENANT)

    assert (found.differences, found.left_behind, found.live, found.rows) == ([], {}, 1, 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 3}, "version 1 is published, 3 is live"),
        ({"content_hash": "0"}, "another content hash"),
        ({"principals": ["team-b"]}, "may be read by"),
        ({"pages": [("a1", 1), ("lost", 1)]}, "['r0:1:1:lost'] of its manifest"),
        ({"chunks": 2}, "counts 2 chunks"),
        ({"tombstoned_at": 6}, "none is live"),
        ({"deleted": True}, "none is live"),
        ({"document_id": "d9"}, "d9: was never published"),
    ],
)
def test_a_root_that_is_wrong_is_a_difference(change: dict[str, Any], says: str) -> None:
    contents = good()
    contents.documents[0]["body"].update(change)

    assert any(says in each for each in compare(contents, LIVE, TENANT).differences)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"row_id": "c-other"}, "['c-a1'] of its manifest are lost"),
        ({"text": OTHER}, "never held the text"),
        ({"text": "Absatz von d0"}, "words of version 1 stand in no row: ['z1']"),
        ({"principals": ["team-b"]}, "row c-a1 may be read by"),
        ({"root_id": "r1"}, "names row c-a1 of d0"),
    ],
)
def test_a_row_that_is_wrong_is_a_difference(change: dict[str, Any], says: str) -> None:
    contents = good()
    contents.chunks[0].update(change)

    assert any(says in each for each in compare(contents, LIVE, TENANT).differences)


def test_a_deleted_document_that_is_live_is_a_difference() -> None:
    assert compare(good(), GONE, TENANT).differences == ["d0: deleted as version 2, live as 1"]


def test_the_highest_root_counts_unless_a_tombstone_came_after_it() -> None:
    lower = Contents([root(1), dead(2)], [], [])
    higher = Contents([dead(1), root(2)], [page(version=2)], [chunk()])
    tombstone = Contents([dead(0, tombstoned_at=6), root(1)], [], [])

    assert compare(lower, GONE, TENANT).differences == []
    assert compare(higher, {"d0": [State(2, TEXT, ("everyone",))]}, TENANT).differences == []
    assert compare(tombstone, GONE, TENANT).differences == []


def test_what_no_live_manifest_names_was_left_behind() -> None:
    contents = good()
    contents.documents.append(root(1, attempt="a0"))
    contents.manifests += [page("a2"), page("a2", mark=True)]
    contents.chunks.append(chunk("a2"))
    of_deleted = Contents([dead(2)], [], [chunk()])

    left = compare(contents, LIVE, TENANT)

    assert (left.differences, left.left_behind) == ([], {"d0": ["c-a2", "r0:1:0:a2", "r0:1:0:a2:checked", "r0:1:a0"]})
    assert compare(of_deleted, GONE, TENANT).left_behind == {"d0": ["c-a1"]}


def upsert(version: int, content: str, *principals: str) -> DocumentChange:
    return DocumentChange(
        tenant=TENANT,
        document_id=DocumentId("d0"),
        operation=Operation.UPSERT,
        version=version,
        occurred_at=Timestamp(version),
        principals=principals or ("everyone",),
        content=content,
    )


def delete(version: int) -> DocumentChange:
    return replace(upsert(version, ""), operation=Operation.DELETE, content=None, principals=())


def receipt(version: int, status: OutcomeStatus, *, recorded_at: int = 0) -> IndexOutcome:
    where = {"tenant": TENANT, "document_id": DocumentId("d0")}
    return a_receipt(status, version=version, recorded_at=Timestamp(recorded_at), **where)


def found(version: int, text: str) -> ContextHit:
    return replace(hit(1, "d0", 1.0), version=version, text=text)


def answer(*hits: ContextHit) -> ContextResult:
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="?", asked_at=Timestamp(0))
    return result(query, hits)


def books(*steps: DocumentChange | BareTombstone) -> Books:
    made = Books()
    for now_ms, step in enumerate(steps, start=1):
        made.publish(step, 1000 * now_ms).sent_ms = (1000 * now_ms, 1000 * now_ms + 10)
    return made


def judged(made: Books, *hits: ContextHit) -> list[str]:
    made.judge(answer(*hits), made.least())
    return [each.removeprefix("question q: ") for each in made.wrong]


def test_an_answer_may_show_any_version_until_a_receipt_is_out() -> None:
    made = books(upsert(1, TEXT), upsert(2, OTHER))

    assert judged(made, found(1, TEXT)) == []
    assert judged(made, found(2, OTHER)) == []
    assert judged(made, found(1, TEXT)) == ["d0 version 1, though version 2 was visible before the question"]


@pytest.mark.parametrize(
    ("last", "outcome", "says"),
    [
        (upsert(2, OTHER), receipt(2, OutcomeStatus.INDEXED), "version 2 was"),
        (upsert(2, TEXT), receipt(2, OutcomeStatus.UNCHANGED), "version 2 was"),
        (delete(2), receipt(2, OutcomeStatus.DELETED), "version 2, a deletion, was"),
        (
            BareTombstone(DocumentId("d0")),
            receipt(0, OutcomeStatus.DELETED, recorded_at=2005),
            "version of a bare tombstone, a deletion, was",
        ),
    ],
)
def test_nothing_older_than_a_receipt_may_be_shown(
    last: DocumentChange | BareTombstone, outcome: IndexOutcome, says: str
) -> None:
    made = books(upsert(1, TEXT), last)
    made.receive(receipt(1, OutcomeStatus.INDEXED))
    made.receive(outcome)

    assert made.due == set()
    assert judged(made, found(1, TEXT)) == [f"d0 version 1, though {says} visible before the question"]


def test_a_stale_receipt_promises_nothing() -> None:
    made = books(upsert(1, TEXT), upsert(2, OTHER))
    made.receive(receipt(2, OutcomeStatus.STALE))

    assert judged(made, found(1, TEXT)) == []


def test_a_revival_may_be_shown_after_a_deletion() -> None:
    made = books(upsert(1, TEXT), delete(2), upsert(3, TEXT))
    made.receive(receipt(2, OutcomeStatus.DELETED))

    assert judged(made, found(3, TEXT)) == []


def test_each_kind_of_wrong_answer_is_seen() -> None:
    part = ContextPart(chunk_id=None, path="0", start=0, end=1, text=OTHER)

    assert judged(books(upsert(1, TEXT)), found(2, TEXT)) == ["d0 version 2 was never published"]
    assert judged(books(upsert(1, TEXT)), found(1, OTHER)) == [f"d0 version 1 never held the text {OTHER!r}"]
    assert judged(books(upsert(1, TEXT)), replace(found(1, TEXT), parent=part)) == [
        f"d0 version 1 never held the text {OTHER!r}"
    ]
    assert judged(books(upsert(1, TEXT), upsert(2, OTHER)), found(2, OTHER), found(1, TEXT)) == [
        "d0 version 1 beside version 2"
    ]
    assert judged(books(upsert(1, TEXT, "team-b")), found(1, TEXT)) == ["d0 version 1 may be read by ('team-b',) only"]


def test_a_receipt_that_no_change_explains_is_told() -> None:
    made = books(upsert(1, TEXT))
    made.receive(receipt(7, OutcomeStatus.INDEXED))

    assert made.strange == ["receipt for d0 version 7, INDEXED: never published"]
    assert made.due == {("d0", 1, 0)}


def test_a_seed_gives_the_same_faults_and_changes_again() -> None:
    def drawn(seed: int) -> tuple[object, ...]:
        changes = Changes(seed)
        steps = [*changes.first(), *(changes.next() for _ in range(300))]
        return list(plan(seed, 100, wait_s=(1, 2))), steps

    assert drawn(4) == drawn(4)
    assert drawn(4) != drawn(5)


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_keeps_within_the_bounds_of_each_stage(seed: int) -> None:
    present = set(first_workers())
    for fault in plan(seed, 300, wait_s=(1, 2)):
        assert (fault.worker in present) == (fault.kind is not Kind.ADD)
        if fault.kind is Kind.ADD:
            present.add(fault.worker)
        elif fault.kind is Kind.REMOVE:
            present.remove(fault.worker)
        for stage, (fewest, _, most) in STAGES.items():
            assert fewest <= sum(stage_of(worker) == stage for worker in present) <= most


def test_changes_are_of_every_kind_and_versions_grow() -> None:
    changes = Changes(1)
    steps = [*changes.first(), *(changes.next() for _ in range(1000))]
    latest: dict[str, DocumentChange] = {}
    kinds = set()
    for step in steps:
        if isinstance(step, BareTombstone):
            kinds.add("bare tombstone")
            continue
        before = latest.get(step.document_id)
        latest[step.document_id] = step
        if before is None:
            continue
        assert step.version == before.version + 1 or step == before
        if step == before:
            kinds.add("repetition")
        elif step.operation is Operation.DELETE:
            kinds.add("deletion")
        elif before.operation is Operation.DELETE:
            kinds.add("revival")
        elif step.content == before.content and step.principals != before.principals:
            kinds.add("rights")
        else:
            kinds.add("edit")

    assert kinds == {"edit", "rights", "repetition", "deletion", "revival", "bare tombstone"}


def test_a_recorded_stream_is_taken_as_far_as_the_stages_keep_up_with(tmp_path: Path) -> None:
    stream = tmp_path / "laws.jsonl"
    long = "\n\n".join(f"§ {number} Wer etwas tut, muss es sagen." for number in range(1000))
    lines = [{"op": "upsert", "document_id": f"law-{number}", "version": 1, "content": long} for number in range(999)]
    stream.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    changes = Changes(1, stream)
    list(changes.first())

    steps = [changes.next() for _ in range(1000)]
    lengths = {
        str(step.document_id): len(step.content)
        for step in steps
        if isinstance(step, DocumentChange) and isinstance(step.content, str)
    }
    total = sum(len(getattr(step, "content", None) or "") for step in steps)

    assert len(long) > MOST_CHARACTERS
    assert 0.5 * CHARACTERS < total / len(steps) < 1.1 * CHARACTERS
    assert changes.taken > 50
    assert len({document for document in lengths if document.startswith("law-")}) > 50


def test_a_recorded_document_with_a_paragraph_of_ours_is_none_of_ours() -> None:
    recorded = State(1, f"{TEXT}\n\n# Gesetz\n\n* über *Gebühren*")

    assert State(1, f"{TEXT}\n\n{OTHER}").is_synthetic
    assert not recorded.is_synthetic
    assert recorded.holds("Gesetz über Gebühren")
    assert not recorded.holds("Gesetz über Fristen")
