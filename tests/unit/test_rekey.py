from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.rekey import rekeyed_pages, rekeyed_root, rekeyed_row, to_write
from freki.schemas import Timestamp
from freki.schemas.index import Attempt, Root, RowId, standing
from tests.contract.index_records import chunk, page, root

roots = st.builds(
    lambda version, edition, deleted, attempt, recorded_at, tombstoned_at: root(
        "r",
        version=version,
        edition=0 if deleted else edition,
        deleted=deleted,
        attempt=Attempt(attempt),
        recorded_at=Timestamp(recorded_at),
        tombstoned_at=Timestamp(tombstoned_at if deleted else 0),
    ),
    *[st.integers(1, 3), st.integers(0, 2), st.booleans(), st.sampled_from(["a1", "a2"])],
    *[st.integers(0, 4), st.integers(0, 4)],
)
histories = st.lists(roots, min_size=1, max_size=3)


def counts(root: Root | None) -> tuple[int, bool, int]:
    assert root is not None
    return root.version, root.deleted, root.edition


@given(histories, histories, st.fixed_dictionaries({version: st.integers(0, 4) for version in (1, 2, 3)}))
def test_whichever_index_had_more_counts_and_nothing_is_written_twice(
    ours: list[Root], theirs: list[Root], recorded: dict[int, int]
) -> None:
    # A version is recorded once; the next test has the other case.
    ours, theirs = (
        [replace(each, recorded_at=Timestamp(recorded[each.version])) for each in history] for history in (ours, theirs)
    )
    archived, current = standing(theirs), standing(ours)
    assert archived is not None

    written = to_write(archived, current)

    assert counts(standing([*ours, *([written] if written else [])])) == counts(standing([*ours, *theirs]))
    if written:
        assert to_write(archived, standing([*ours, written])) is None


def test_a_version_that_was_buried_in_one_index_and_recorded_again_in_the_other_is_deleted() -> None:
    """As the fence has it: a version that was deleted does not come back."""
    theirs = [root("r", version=2), root("r", version=1, deleted=True, tombstoned_at=Timestamp(1))]
    archived = standing([replace(each, recorded_at=Timestamp(0)) for each in theirs])
    again = root("r", version=2, recorded_at=Timestamp(1))
    assert archived is not None

    written = to_write(archived, again)

    assert counts(written) == (2, True, 0)
    assert to_write(again, archived) is None


def test_an_unknown_document_is_written_also_if_it_is_deleted() -> None:
    for each in (root("r"), root("r", deleted=True)):
        assert to_write(each, None) == each


def test_neither_a_newer_nor_a_deleted_nor_an_equal_version_is_overwritten() -> None:
    archived = root("r", version=5, attempt=Attempt("a9"))

    for current in (root("r", version=6), root("r", version=5, deleted=True), root("r", version=5)):
        assert to_write(archived, current) is None


def test_a_revision_that_was_recorded_before_a_tombstone_comes_back_deleted() -> None:
    archived = root("r", version=5, recorded_at=Timestamp(10))
    buried = root("r", version=3, deleted=True, tombstoned_at=Timestamp(20))

    written = to_write(archived, buried)

    assert written is not None
    assert (written.version, written.deleted, written.pages, written.tombstoned_at) == (5, True, (), 20)


def test_rows_pages_and_root_of_a_revision_name_each_other_under_the_new_attempt() -> None:
    # A row that an older revision wrote, and pages of two attempts.
    pages = [page("r", 5, 0, 2, attempt="a1"), page("r", 5, 1, 1, attempt="a2", row_id="c1-0-a0")]
    archived = root("r", version=5, edition=1, pages=tuple(each.page_id for each in pages))

    moved_root = rekeyed_root(archived, Attempt("b7"))
    moved_pages = rekeyed_pages(archived, pages, Attempt("b7"))
    moved_row = rekeyed_row(chunk("c1-0", version=3, row_id="c1-0-a0"), archived, Attempt("b7"))

    assert moved_root == replace(archived, attempt=Attempt("b7"), pages=tuple(each.page_id for each in moved_pages))
    assert [entry.row_id for each in moved_pages for entry in each.entries] == ["c0-0-b7", "c0-1-b7", "c1-0-b7"]
    assert (moved_row.row_id, moved_row.version, moved_row.edition) == ("c1-0-b7", 5, 1)
    assert [replace(entry, row_id=RowId("")) for each in moved_pages for entry in each.entries] == [
        replace(entry, row_id=RowId("")) for each in pages for entry in each.entries
    ]
