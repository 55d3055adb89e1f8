import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.reconcile import Difference, Expected, RepairAction, expect, reconcile, reconcile_rows
from freki.schemas import DocumentChange, Operation
from freki.schemas.index import PageId, Root, RowId
from tests.contract.index_records import root
from tests.unit.document_changes import change

changes = st.lists(
    st.builds(change, st.integers(1, 5), st.sampled_from(Operation)), max_size=8, unique_by=lambda one: one.version
)


@given(found=changes, data=st.data())
def test_the_highest_version_is_expected_in_whatever_order_changes_come(
    found: list[DocumentChange], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(found))

    state: Expected | None = None
    for one in [*shuffled, *shuffled]:
        state = expect(state, "t/d", one, f"hash {one.version}")

    latest = max(found, key=lambda one: one.version, default=None)
    if latest is None:
        assert state is None
    else:
        assert state is not None
        assert state.version == latest.version
        assert state.deleted is (latest.operation is Operation.DELETE)


def test_a_tombstone_deletes_whatever_is_there() -> None:
    before = expect(None, "t/d", change(3), "hash")

    after = expect(before, "t/d", None, "")

    assert after == Expected("t/d", 3, deleted=True, content_hash="")


def test_a_deletion_of_the_version_that_is_there_wins_in_either_order() -> None:
    upsert, deletion = change(1), change(1, Operation.DELETE)
    for first, second in ((upsert, deletion), (deletion, upsert)):
        after: Expected | None = None
        for each in (first, second):
            after = expect(after, "t/d", each, "hash" if each is upsert else "")
        assert after is not None
        assert after.deleted


def held(**changes: object) -> Root:
    return root("r", **{"version": 3, "content_hash": "same", **changes})


NAME = f"{held().tenant}/{held().document_id}"
STATED = Expected(NAME, 3, deleted=False, content_hash="same")


@pytest.mark.parametrize(
    ("expected", "found", "repairs"),
    [
        pytest.param(STATED, held(), [], id="the same is no difference"),
        pytest.param(STATED, held(edition=7), [], id="nor is another edition of it"),
        pytest.param(STATED, None, [RepairAction.REINDEX], id="what is missing is sent again"),
        pytest.param(STATED, held(version=2), [RepairAction.REINDEX], id="so is what is newer than the index"),
        pytest.param(STATED, held(version=2, deleted=True), [RepairAction.REINDEX], id="also where that is deleted"),
        pytest.param(STATED, held(content_hash="x"), [RepairAction.REINDEX], id="the stream has the word on a version"),
        pytest.param(STATED, held(version=4), [RepairAction.BY_HAND], id="what is newer in the index cannot be undone"),
        pytest.param(STATED, held(deleted=True), [RepairAction.BY_HAND], id="nor can its deletion"),
        pytest.param(
            STATED._replace(deleted=True), held(), [RepairAction.DELETE], id="what the stream deleted is deleted"
        ),
        pytest.param(STATED._replace(deleted=True), None, [], id="what is deleted may be forgotten"),
        pytest.param(None, held(), [RepairAction.DELETE], id="what the stream does not have is deleted"),
        pytest.param(None, held(deleted=True), [], id="a deletion may be remembered for longer than the stream does"),
    ],
)
def test_each_difference_has_its_repair(
    expected: Expected | None, found: Root | None, repairs: list[RepairAction]
) -> None:
    differences = filter(None, [reconcile(expected, found)])

    assert [(each.name, each.repair) for each in differences] == [(NAME, repair) for repair in repairs]


def test_lost_rows_and_pages_are_made_anew_and_rows_too_many_are_swept() -> None:
    damaged = held(pages=(PageId("p1"), PageId("p2")))

    differences = reconcile_rows(damaged, [RowId("a"), RowId("b")], 1, [RowId("b"), RowId("c")])

    assert differences == [
        Difference(NAME, "has 1 manifest pages, its root says 2", RepairAction.REINDEX),
        Difference(NAME, "rows missing: 1 of 2", RepairAction.REINDEX),
        Difference(NAME, "rows that its manifest does not name: 1 of 2", RepairAction.SWEEP),
    ]
