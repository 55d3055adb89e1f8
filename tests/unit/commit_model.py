"""The commit protocol as steps that can be copied, with the real rules for what counts and what may be deleted.

Each owner looks up, writes rows, writes the page, checks, commits, reads commits, reads pages and rows, deletes rows,
deletes pages and commits. It may stop for good anywhere, for every state is checked.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

from freki.operators.superseded import Superseded, superseded
from freki.schemas import ChunkId, DocumentId, RootId, TenantId, Timestamp
from freki.schemas.index import (
    Attempt,
    CommitId,
    PageHead,
    PageId,
    Rank,
    Root,
    RowHead,
    RowId,
    page_id,
    row_id,
    standing,
)

KEY = RootId("d")
Content = frozenset[str] | None
"""Chunks of a version; None: a deletion."""


class Job(NamedTuple):
    """A change that an owner is given."""

    version: int
    content: Content
    edition: int = 0
    """That a request asks for."""

    @property
    def rank(self) -> tuple[int, bool, int]:
        """As far as the change decides it."""
        return self.version, self.content is None, self.edition


Supersede = Callable[[Sequence[Root], Sequence[PageHead], Sequence[RowHead]], Superseded]


@cache
def root_of(job: Job, attempt: Attempt, page: PageId | None) -> Root:
    at = Timestamp(job.version)
    root = Root(
        root_id=KEY, tenant=TenantId("t"), document_id=DocumentId("d"), version=job.version, attempt=attempt,
        edition=job.edition, deleted=job.content is None, pages=() if page is None else (page,), chunks=0,
        content_hash="", metadata_hash="", chunker="",
        embedder="", fingerprint="", name="", media_type="", language="", source_uri=None, principals=(), attributes={},
        characters=0, occurred_at=at, recorded_at=at, received_at=at, searchable_at=at,
    )  # fmt: skip
    return ROOTS.setdefault(root.commit_id, root)


@cache
def head_of(job: Job, attempt: Attempt, rows: tuple[RowId, ...]) -> PageHead:
    name = page_id(KEY, job.version, 0, attempt)
    return PageHead(
        page_id=name,
        version=job.version,
        edition=job.edition,
        attempt=attempt,
        part=0,
        cut="",
        checked=False,
        row_ids=rows,
    )


ROOTS: dict[CommitId, Root] = {}
ROWS: dict[RowId, RowHead] = {}
"""By their keys, which are all that states hold: nothing is ever changed under a key."""


class Store(NamedTuple):
    roots: frozenset[CommitId]
    pages: frozenset[PageHead]
    """Whole, for what an attempt names depends on what it has read."""
    rows: frozenset[RowId]

    @property
    def root(self) -> Root | None:
        return _standing(self.roots)


@cache
def _standing(roots: frozenset[CommitId]) -> Root | None:
    return standing(ROOTS[name] for name in roots)


class Owner(NamedTuple):
    """Where an owner stands: everything that it remembers."""

    jobs: tuple[Job, ...]
    clock: int
    step: str = "look up"
    tries: int = 0
    base: Rank | None = None
    plan: tuple[RowId, ...] = ()
    commits: tuple[CommitId, ...] = ()
    gone: Superseded = Superseded((), (), ())

    @property
    def attempt(self) -> Attempt:
        return Attempt(f"{self.clock}{self.tries:02d}of{self.jobs[0].version}")


@dataclass
class Model:
    """Which of the mends are in; a test takes them out one by one."""

    checks: bool = True
    supersede: Supersede = superseded
    moves: dict[str, Callable[[Owner, Store], tuple[Owner, Store]]] = field(init=False)

    def __post_init__(self) -> None:
        self.moves = {
            "look up": self._look_up, "rows": self._rows, "page": self._page, "check": self._check,
            "commit": self._commit, "read commits": self._read_commits, "read rest": self._read_rest,
            "delete rows": self._delete_rows, "discard": self._discard,
        }  # fmt: skip

    def move(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        return self.moves[owner.step](owner, store)

    def _look_up(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        job, content, base = owner.jobs[0], owner.jobs[0].content, store.root
        if base is not None and base.rank[:3] >= job.rank:
            # Stale or a repetition: what an attempt before may have left is swept.
            return owner._replace(step="read commits"), store
        owner = owner._replace(base=None if base is None else base.rank, tries=owner.tries + 1)
        if content is None:
            return owner._replace(step="commit"), store
        pages = [page for page in store.pages if base is not None and page.page_id in base.pages]
        kept = {name.partition("-")[0]: name for page in pages for name in page.row_ids}
        plan = tuple(kept.get(chunk, row_id(ChunkId(chunk), owner.attempt)) for chunk in sorted(content))
        return owner._replace(step="rows", plan=plan), store

    def _rows(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        new = {name for name in owner.plan if name.endswith(f"-{owner.attempt}")}
        ROWS.update({name: _row_head(name, owner.jobs[0]) for name in new})
        return owner._replace(step="page"), store._replace(rows=store.rows | new)

    def _page(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        head = head_of(owner.jobs[0], owner.attempt, owner.plan)
        step = "check" if self.checks else "commit"
        return owner._replace(step=step), store._replace(pages=store.pages | {head})

    def _check(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        now = store.root
        same = (now and now.rank) == owner.base
        # What was written in vain stays, as if the owner had died: the worst that can happen.
        return owner._replace(step="commit" if same else "look up"), store

    def _commit(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        job = owner.jobs[0]
        page = None if job.content is None else page_id(KEY, job.version, 0, owner.attempt)
        root = root_of(job, owner.attempt, page)
        return owner._replace(step="read commits"), store._replace(roots=store.roots | {root.commit_id})

    def _read_commits(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        return owner._replace(step="read rest", commits=tuple(sorted(store.roots))), store

    def _read_rest(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        gone = _swept(self.supersede, owner.commits, store.pages, store.rows)
        return owner._replace(step="delete rows", commits=(), gone=gone), store

    def _delete_rows(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        return owner._replace(step="discard"), store._replace(rows=store.rows - set(owner.gone.rows))

    def _discard(self, owner: Owner, store: Store) -> tuple[Owner, Store]:
        done = Owner(owner.jobs[1:], owner.clock, tries=owner.tries)
        roots = store.roots - set(owner.gone.commits)
        pages = frozenset(page for page in store.pages if page.page_id not in owner.gone.pages)
        return done, store._replace(roots=roots, pages=pages)


@cache
def _swept(
    supersede: Supersede, commits: tuple[CommitId, ...], pages: frozenset[PageHead], rows: frozenset[RowId]
) -> Superseded:
    """Return what a sweep finds; many states have the same store."""
    gone = supersede([ROOTS[name] for name in commits], list(pages), [ROWS[name] for name in rows])
    return Superseded(tuple(sorted(gone.rows)), tuple(sorted(gone.pages)), tuple(sorted(gone.commits)))


def _row_head(name: RowId, job: Job) -> RowHead:
    return RowHead(row_id=name, version=job.version, edition=job.edition)


def hole(store: Store) -> str | None:
    """Say what a reader misses."""
    root = store.root
    pages = {page.page_id: page for page in store.pages}
    for page in root.pages if root is not None else ():
        if page not in pages:
            return f"page {page} is missing"
        if missing := set(pages[page].row_ids) - store.rows:
            return f"rows {sorted(missing)} of {page} are missing"
    return None


def first_store(content: frozenset[str]) -> Store:
    attempt, job = Attempt("000"), Job(1, content)
    rows = tuple(row_id(ChunkId(chunk), attempt) for chunk in sorted(content))
    head = head_of(job, attempt, rows)
    ROWS.update({name: _row_head(name, job) for name in rows})
    root = root_of(job, attempt, head.page_id)
    return Store(frozenset({root.commit_id}), frozenset({head}), frozenset(rows))


def violations(model: Model, owners: Sequence[Owner], store: Store) -> Iterator[str | None]:
    """Visit every state; yield None for each that is right, and what is wrong with each other one."""
    expected = max(job.rank for owner in owners for job in owner.jobs)
    seen = set()
    todo = [(tuple(owners), store, (0, False, 0))]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        owners, store, before = state
        root = store.root
        reached = (0, False, 0) if root is None else root.rank[:3]
        wrong = hole(store)
        if reached < before:
            wrong = f"from {before} back to {reached}"
        running = [place for place, owner in enumerate(owners) if owner.jobs]
        if not running and reached != expected:
            wrong = f"ended at {reached}"
        yield wrong
        if wrong:
            continue
        for place in running:
            owner, after = model.move(owners[place], store)
            todo.append(((*owners[:place], owner, *owners[place + 1 :]), after, reached))


def without_pages_in_flight(commits: Sequence[Root], pages: Sequence[PageHead], rows: Sequence[RowHead]) -> Superseded:
    """Sweep as if no other revision could be in flight."""
    root = standing(commits)
    live = [page for page in pages if root is not None and page.page_id in root.pages]
    kept = {name for page in live for name in page.row_ids}
    found = superseded(commits, pages, rows)
    return found._replace(rows=tuple(row.row_id for row in rows if row.row_id not in kept))


def without_editions(commits: Sequence[Root], pages: Sequence[PageHead], rows: Sequence[RowHead]) -> Superseded:
    """Sweep as if a version had one edition, that of the root that counts."""
    root = standing(commits)
    if root is None:
        return superseded(commits, pages, rows)
    flat_pages = [replace(page, edition=root.edition) if page.version == root.version else page for page in pages]
    flat_rows = [replace(row, edition=root.edition) if row.version == root.version else row for row in rows]
    return superseded(commits, flat_pages, flat_rows)
