from hypothesis import given
from hypothesis import strategies as st

from freki.operators.reconcile import Expected, expect
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp


def change(version: int, operation: Operation = Operation.UPSERT) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId("d"),
        operation=operation,
        version=version,
        occurred_at=Timestamp(1),
        content="text" if operation is Operation.UPSERT else None,
    )


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
