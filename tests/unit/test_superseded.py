from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from freki.operators.superseded import Superseded, superseded
from freki.schemas import RootId, Timestamp
from freki.schemas.index import (
    Attempt,
    PageHead,
    Root,
    RowHead,
    RowId,
    deleted,
    page_id,
    standing,
)
from tests.contract import index_records

ROOT = RootId("r")

NOTHING = Superseded((), (), ())


def root(version: int, **changes: Any) -> Root:
    return index_records.root(ROOT, **{"version": version, "recorded_at": Timestamp(version), **changes})


def page(version: int, *row_ids: str, attempt: str = "a1", edition: int = 0, part: int = 0) -> PageHead:
    return PageHead(
        page_id=page_id(ROOT, version, part, Attempt(attempt)),
        version=version,
        edition=edition,
        attempt=Attempt(attempt),
        part=part,
        cut="cut",
        checked=True,
        row_ids=tuple(map(RowId, row_ids)),
    )


def row(row_id: str, version: int, edition: int = 0) -> RowHead:
    return RowHead(row_id=RowId(row_id), version=version, edition=edition)


def naming(version: int, *pages: PageHead, **changes: Any) -> Root:
    return root(version, pages=tuple(each.page_id for each in pages), **changes)


def revision_of(page: PageHead) -> tuple[int, int, str]:
    return page.version, page.edition, page.cut


def gone(rows: Sequence[str] = (), pages: Sequence[PageHead] = (), commits: Sequence[Root] = ()) -> Superseded:
    return Superseded(
        tuple(map(RowId, rows)), tuple(each.page_id for each in pages), tuple(each.commit_id for each in commits)
    )


def test_without_a_root_nothing_is_superseded() -> None:
    assert standing([]) is None
    assert superseded([], [page(1, "x")], [row("x", 1), row("y", 2)]) == NOTHING


def test_a_newer_revision_gives_up_what_it_does_not_keep_of_the_older_one() -> None:
    old, new = page(1, "same", "old"), page(2, "same", "new")
    commits = [naming(1, old), naming(2, new)]

    listed = superseded(commits, [old, new], [row("same", 1), row("old", 1), row("new", 2)])

    assert listed == gone(["old"], [old], commits[:1])


def test_a_deletion_gives_up_all_rows_up_to_its_version() -> None:
    old, late = page(4, "x"), page(5, "y", attempt="a9", edition=3)
    live, dead = naming(4, old), root(5, deleted=True, attempt=Attempt("a0"))
    rows = [row("x", 4), row("y", 5, 3), row("lost", 5), row("in-flight", 6)]

    assert superseded([live, dead], [old, late], rows) == gone(["x", "y", "lost"], [old, late], [live])


def test_what_a_revision_in_flight_keeps_stays_whoever_wrote_it() -> None:
    first, second, third = page(1, "a", "b"), page(2, "b", "c"), page(3, "a", "d")
    commits = [naming(1, first), naming(2, second)]

    listed = superseded(commits, [first, second, third], [row(name, 1) for name in "abcd"])

    assert listed == gone([], [first], commits[:1])


def test_rows_without_a_page_stay_where_they_are_of_a_higher_version_or_edition() -> None:
    # Pages that name other ones would be written after the root, and fail their check.
    live = page(3, "live", attempt="a2", edition=1)
    root_ = naming(3, live, edition=1, attempt=Attempt("a2"))
    rows = [row("live", 3, 1), row("older", 2, 9), row("edition", 3, 0), row("same", 3, 1), row("later", 4)]

    assert superseded([root_], [live], rows) == gone(["older", "edition", "same"])


def test_pages_of_an_attempt_that_lost_go_with_their_rows_and_those_of_one_that_may_win_stay() -> None:
    live = page(3, "live", attempt="a2")
    lost, rival = page(3, "lost", attempt="a1"), page(3, "rival", attempt="a3")
    rows = [row(name, 3) for name in ("live", "lost", "rival", "unnamed")]

    assert superseded([naming(3, live, attempt=Attempt("a2"))], [live, lost, rival], rows) == gone(
        ["lost", "unnamed"], [lost]
    )


def test_a_part_that_was_written_again_after_a_crash_goes_once_the_revision_is_committed() -> None:
    first = page(3, "first", attempt="a1")
    crashed, again = page(3, "x", attempt="a2", part=1), page(3, "y", attempt="a3", part=1)
    rows = [row(name, 3) for name in ("first", "x", "y")]

    listed = superseded([naming(3, first, again, attempt=Attempt("a3"))], [first, crashed, again], rows)

    assert listed == gone(["x"], [crashed])


def test_an_edition_keeps_the_pages_that_it_names_of_the_one_before() -> None:
    stayed, old = page(3, "a", part=0), page(3, "b", part=1)
    better = page(3, "b2", part=1, attempt="a2", edition=1)
    commits = [naming(3, stayed, old), naming(3, stayed, better, edition=1, attempt=Attempt("a2"))]

    listed = superseded(commits, [stayed, old, better], [row("a", 3), row("b", 3), row("b2", 3, 1)])

    assert listed == gone(["b"], [old], commits[:1])


def test_a_root_that_a_tombstone_outdates_counts_as_deleted_and_keeps_nothing() -> None:
    live_page = page(5, "x")
    live = naming(5, live_page, recorded_at=Timestamp(50))
    tomb = root(2, deleted=True, tombstoned_at=Timestamp(100))

    assert standing([live, tomb]) == deleted(live, tombstoned_at=Timestamp(100))
    # Neither root may go: without the one there is no tombstone, without the other its version is free again.
    assert superseded([live, tomb], [live_page], [row("x", 5)]) == gone(["x"], [live_page])


def test_a_root_that_a_tombstone_outdates_is_deleted_since_the_tombstone_and_not_since_it_was_written_itself() -> None:
    """Deletions are forgotten by that time: as old as the content they would go at once, and it could come back."""
    live = root(5, recorded_at=Timestamp(50), searchable_at=Timestamp(60))
    tomb = root(2, deleted=True, tombstoned_at=Timestamp(100), searchable_at=Timestamp(110))

    for each in ([live, tomb], [tomb, live]):
        counts = standing(each)
        assert counts is not None
        assert (counts.version, counts.deleted, counts.searchable_at) == (5, True, 110)


def test_what_was_recorded_with_a_tombstone_or_after_it_lives_and_remembers_it() -> None:
    tomb = root(2, deleted=True, tombstoned_at=Timestamp(100))
    live = root(5, recorded_at=Timestamp(100))

    assert standing([live, tomb]) == replace(live, tombstoned_at=Timestamp(100))


@dataclass(frozen=True)
class Document:
    """All that a store may hold of a document: revisions that were committed, in flight, or left behind."""

    commits: tuple[Root, ...]
    pages: tuple[PageHead, ...]
    rows: tuple[RowHead, ...]

    @property
    def counts(self) -> Root:
        found = standing(self.commits)
        assert found is not None
        return found

    @property
    def superseded(self) -> Superseded:
        return superseded(self.commits, self.pages, self.rows)

    def without(self, listed: Superseded, *, kinds: Collection[str] = ("rows", "pages", "commits")) -> "Document":
        """Apply a deletion, or a part of it."""
        return Document(
            tuple(each for each in self.commits if "commits" not in kinds or each.commit_id not in listed.commits),
            tuple(each for each in self.pages if "pages" not in kinds or each.page_id not in listed.pages),
            tuple(each for each in self.rows if "rows" not in kinds or each.row_id not in listed.rows),
        )


class Try(NamedTuple):
    """How one attempt at a revision went."""

    version: int
    edition: int
    deletes: bool
    chunks: frozenset[str]
    """Of which some may have rows that it keeps."""
    parts: int
    """Pages that it wrote; its last one, and so its root, may be missing."""
    commits: bool
    recorded_at: int
    tombstoned_at: int


tries = st.builds(
    Try,
    version=st.integers(1, 4),
    edition=st.integers(0, 1),
    deletes=st.booleans(),
    chunks=st.frozensets(st.sampled_from("abcd"), max_size=4),
    parts=st.integers(0, 2),
    commits=st.booleans(),
    recorded_at=st.integers(1, 6),
    tombstoned_at=st.sampled_from([0, 0, 0, 2, 4, 6]),
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Let attempts write rows of their own, keep rows of lower revisions, write pages, and commit; or die before."""
    found = Document((), (), ())
    for number, each in enumerate(draw(st.lists(tries, min_size=1, max_size=6))):
        attempt = Attempt(f"a{number}")
        if each.deletes:
            dead = root(each.version, attempt=attempt, deleted=True, tombstoned_at=Timestamp(each.tombstoned_at))
            found = replace(found, commits=(*found.commits, dead))
            continue
        reusable = [one for one in found.rows if (one.version, one.edition) < (each.version, each.edition)]
        kept = draw(st.lists(st.sampled_from(reusable), unique=True, max_size=2)) if reusable else []
        own = [row(f"{name}-{attempt}", each.version, each.edition) for name in sorted(each.chunks)]
        row_ids = [one.row_id for one in (*kept, *own)]
        pages = [
            page(each.version, *row_ids[part :: each.parts], attempt=attempt, edition=each.edition, part=part)
            for part in range(each.parts)
        ]
        committed = naming(
            each.version,
            *pages,
            attempt=attempt,
            edition=each.edition,
            recorded_at=Timestamp(each.recorded_at),
            tombstoned_at=Timestamp(each.tombstoned_at),
        )
        found = Document(
            (*found.commits, *([committed] if each.commits else [])), (*found.pages, *pages), (*found.rows, *own)
        )
    return found


committed_documents = documents().filter(lambda document: bool(document.commits))


@given(document=committed_documents, data=st.data())
def test_the_order_of_roots_pages_and_rows_does_not_matter(document: Document, data: st.DataObject) -> None:
    shuffled = Document(
        tuple(data.draw(st.permutations(document.commits))),
        tuple(data.draw(st.permutations(document.pages))),
        tuple(data.draw(st.permutations(document.rows))),
    )

    assert shuffled.counts == document.counts
    assert [set(keys) for keys in shuffled.superseded] == [set(keys) for keys in document.superseded]


@given(document=committed_documents)
def test_the_root_that_counts_has_the_highest_rank_unless_a_tombstone_outdates_it(document: Document) -> None:
    highest = max(document.commits, key=lambda each: each.rank)
    tombstoned_at = max(each.tombstoned_at for each in document.commits)

    counts = document.counts

    assert counts.version == highest.version
    assert counts.tombstoned_at == tombstoned_at
    assert counts.deleted is (highest.deleted or highest.recorded_at < tombstoned_at)
    if not counts.deleted:
        assert counts == replace(highest, tombstoned_at=tombstoned_at)


@given(document=committed_documents)
def test_the_root_that_counts_is_never_listed_nor_are_its_pages_nor_their_rows(document: Document) -> None:
    counts, listed = document.counts, document.superseded
    highest = max(document.commits, key=lambda each: each.rank)
    rows = {row_id for each in document.pages if each.page_id in counts.pages for row_id in each.row_ids}

    assert highest.commit_id not in listed.commits
    assert not set(counts.pages) & set(listed.pages)
    assert not rows & set(listed.rows)


@given(document=committed_documents)
def test_what_may_still_end_above_the_root_is_never_listed(document: Document) -> None:
    counts, listed = document.counts, document.superseded
    edition = 10**9 if counts.deleted else counts.edition
    pages = [each for each in document.pages if (each.version, each.edition) > (counts.version, edition)]
    rows = [each for each in document.rows if (each.version, each.edition) > (counts.version, edition)]

    assert not {each.page_id for each in pages} & set(listed.pages)
    assert not {row_id for each in pages for row_id in each.row_ids} & set(listed.rows)
    assert not {each.row_id for each in rows} & set(listed.rows)


def test_parts_that_a_late_root_may_have_joined_make_it_rank_below() -> None:
    # An owner wrote a part at a1 and checked its revision at a5; before it commits, another one commits its own of a3.
    joined, last, other = page(1, "x", attempt="a1"), page(1, "y", attempt="a5", part=1), page(1, "z", attempt="a3")
    committed = naming(1, other, attempt=Attempt("a3"))
    late = naming(1, joined, last, attempt=Attempt("a5"))

    assert superseded([committed], [joined, last, other], []) == gone(pages=[joined])
    assert standing([committed, late]) == committed


@given(document=committed_documents)
def test_of_lower_revisions_nothing_stays_but_what_others_name(document: Document) -> None:
    counts, listed = document.counts, document.superseded
    after = document.without(listed)
    named = {row_id for each in after.pages for row_id in each.row_ids}

    assert all((each.version, each.edition) >= (counts.version, counts.edition) for each in after.pages)
    assert all(
        each.row_id in named or (each.version, each.edition) > (counts.version, counts.edition) for each in after.rows
    )
    if counts.deleted:
        assert all(each.version > counts.version or each.row_id in named for each in after.rows)


@given(
    document=committed_documents,
    kinds=st.lists(st.sampled_from(["rows", "pages", "commits"]), unique=True, max_size=3),
)
def test_deleting_it_all_or_in_part_leaves_the_same_root_counting(document: Document, kinds: list[str]) -> None:
    after = document.without(document.superseded, kinds=kinds)

    assert after.counts == document.counts


@given(document=committed_documents)
def test_a_second_look_lists_nothing_more(document: Document) -> None:
    after = document.without(document.superseded)

    assert after.superseded == NOTHING


@given(document=committed_documents)
def test_a_tombstone_is_not_lost_whichever_root_carries_it(document: Document) -> None:
    tombstoned_at = max(each.tombstoned_at for each in document.commits)
    late = root(99, recorded_at=Timestamp(tombstoned_at - 1), attempt=Attempt("late"))

    after = document.without(document.superseded)
    again = Document((*after.commits, late), after.pages, after.rows)
    swept = again.without(again.superseded)

    for each in (after, again, swept):
        assert max(one.tombstoned_at for one in each.commits) == tombstoned_at
    assert swept.counts.deleted is again.counts.deleted is (late.recorded_at < tombstoned_at)


@given(document=committed_documents, data=st.data())
def test_what_is_listed_stays_unneeded_whatever_is_committed_later(document: Document, data: st.DataObject) -> None:
    """So a deletion may take effect at any time, also beside late roots that join parts of several attempts."""
    # Before a sweep lists anything it writes a dead root where a tombstone outdates the one that counts.
    assume(any(each.rank == document.counts.rank for each in document.commits))
    listed = document.superseded
    later = []
    for first in data.draw(st.lists(st.sampled_from(document.pages), max_size=3) if document.pages else st.just([])):
        # All parts of one cut, the first one among them; the attempt that commits has written a part of its own.
        alike = [each for each in document.pages if revision_of(each) == revision_of(first)]
        parts = data.draw(st.lists(st.sampled_from(alike), unique_by=lambda each: each.page_id))
        own = [each.attempt for each in (first, *parts) if each.page_id not in document.counts.pages]
        if first.part == 0 and own:
            attempt = data.draw(st.sampled_from(own))
            recorded_at = Timestamp(99)
            joined = {each.page_id: each for each in (first, *parts)}.values()
            later.append(
                naming(first.version, *joined, edition=first.edition, attempt=attempt, recorded_at=recorded_at)
            )

    after = Document((*document.commits, *later), document.pages, document.rows)
    before_and_after = after.without(listed)

    assert before_and_after.counts == after.counts
    named = {row_id for each in after.pages if each.page_id in after.counts.pages for row_id in each.row_ids}
    assert not named & set(listed.rows)
    assert not set(after.counts.pages) & set(listed.pages)
