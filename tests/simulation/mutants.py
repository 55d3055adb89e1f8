"""Defects that can be put into the pipeline or its client on purpose: how soon does the simulation find each?

Each takes one mend away; whoever mends something of the protocol adds what takes it away here. What breaks no promise
where it is missing is not here: docs/commit-protocol.md names it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, cast
from unittest.mock import patch

from freki.operators import fence
from freki.operators import superseded as superseded_module
from freki.operators.fence import Action, Decision
from freki.operators.superseded import Superseded
from freki.schemas import ChunkId, Revision, RootId, Timestamp
from freki.schemas.index import Attempt, PageHead, Root, RowHead, RowId, StoredRow, standing
from freki.streams.app import LANES
from freki.streams.deliver import lanes
from freki.streams.deliver.stage import Stage
from freki.streams.ingest.index import commit, indexer, reclaim, repair
from freki.streams.ingest.index.commit import Committer, Draft
from freki.streams.ingest.index.compare import compare
from freki.streams.ingest.index.pieces import Piece, Slice
from tests import memory_index
from tests.simulation import nodes
from tests.simulation.consumer import Consumer
from tests.simulation.producer import Producer

Mutant = Callable[[], AbstractContextManager[Any]]


@contextmanager
def _acknowledges_first() -> Iterator[None]:
    """Acknowledge a batch before it is delivered."""

    async def take(self: Stage, stream: Any, events: Sequence[Any], delivery: Any, most: int) -> None:
        for event in events:
            await stream.ack(event)
        await whole(self, cast("Any", _Deaf()), events, delivery, most)

    whole = Stage._take
    with patch.object(Stage, "_take", take):
        yield


class _Deaf:
    async def ack(self, event: Any) -> None:
        """Do nothing."""


@contextmanager
def _skips_fence() -> Iterator[None]:
    """Write every upsert, whatever the index holds."""

    def write(root: Root | None, revision: Revision, *, metadata_hash: str, edition: int = 0) -> Decision:
        decided = fence.decide(root, revision, metadata_hash=metadata_hash, edition=edition)
        return Decision(Action.WRITE) if decided.action is Action.STALE else decided

    with patch.object(indexer, "decide", write):
        yield


def _drops_bulk() -> AbstractContextManager[Any]:
    """Give large documents of both lanes to nobody."""
    lanes = {**LANES, "embed": LANES["embed"][:2], "contextualise": LANES["contextualise"][:2]}
    return patch.object(nodes, "LANES", lanes)


async def _finds_nothing_changed(_self: Committer, bases: Mapping[RootId, Root | None]) -> Any:
    return set(bases), {key: base for key, base in bases.items() if base is not None}


def _in_flight_too(commits: Sequence[Root], pages: Sequence[PageHead], rows: Sequence[RowHead], **_: Any) -> Superseded:
    """Sweep all that the root that counts does not name."""
    root = standing(commits)
    if root is None:
        return Superseded((), (), ())
    live = {row_id for page in pages if page.page_id in root.pages for row_id in page.row_ids}
    return Superseded(
        tuple(row.row_id for row in rows if row.row_id not in live),
        tuple(page.page_id for page in pages if page.page_id not in root.pages),
        (),
    )


def _any_row(
    piece: Piece, stored: Mapping[ChunkId, Sequence[StoredRow]], _: object, *, fits: Any, keeps: bool
) -> Slice:
    """Keep any row that fits, whether the base names it or not."""
    return compare(
        piece, stored, {chunk_id: rows[0].row_id for chunk_id, rows in stored.items()}, fits=fits, keeps=keeps
    )


def _latest(roots: Iterable[Root]) -> Root | None:
    """Let the root count whose attempt is the latest; tombstones keep their force."""
    every = list(roots)
    tombstoned_at = max((root.tombstoned_at for root in every), default=Timestamp(0))
    last = max(every, key=lambda root: root.attempt, default=None)
    return None if last is None else standing([replace(last, tombstoned_at=tombstoned_at)])


def _without_tombstones(roots: Iterable[Root]) -> Root | None:
    return max(roots, key=lambda root: root.rank, default=None)


def _everywhere(name: str, other: Any) -> AbstractContextManager[Any]:
    """Exchange a function in every module that has it."""
    stack = ExitStack()
    for module in (memory_index, commit, superseded_module):
        if hasattr(module, name):
            stack.enter_context(patch.object(module, name, other))
    return stack


async def _unchecked_too(self: Committer, pieces: Sequence[Piece], draft: Draft) -> Any:
    """Take parts of another process although they may name rows that are gone."""
    store = self._store

    class Checked:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def page_heads(self, root_ids: Sequence[RootId]) -> Any:
            heads = await store.page_heads(root_ids)
            return {key: [replace(head, checked=True) for head in some] for key, some in heads.items()}

    with patch.object(self, "_store", Checked()):
        return await _MANIFESTS(self, pieces, draft)


_MANIFESTS = Committer.manifests


async def _looks_at_nothing(*_: object) -> bool:
    return True


def _shared(chunk_id: ChunkId, _attempt: Attempt) -> RowId:
    return RowId(f"{chunk_id}-0")


@contextmanager
def _shares_rows() -> Iterator[None]:
    """Give the row of a chunk the same key in every attempt."""
    with patch.object(indexer, "row_id", _shared), patch.object(repair, "row_id", _shared):
        yield


def _stays_alive(root: Root | None, revision: Revision) -> Decision:
    """Let the deletion of a version lose to that version."""
    if root is not None and revision.version == root.version and not root.deleted:
        return Decision(Action.STALE)
    return _DELETE(root, revision)


_DELETE = fence._delete


async def _reads_pages_first(self: Committer, root_ids: Any, **options: Any) -> Any:
    """Sweep by pages and rows that were read before the roots."""
    store = self._store

    class Early:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def commits(self, keys: Sequence[RootId]) -> Any:
            self.heads, self.rows = await store.page_heads(keys), await store.rows_of(keys)
            return await store.commits(keys)

        async def page_heads(self, _: Sequence[RootId]) -> Any:
            return self.heads

        async def rows_of(self, _: Sequence[RootId]) -> Any:
            return self.rows

    early = Early()
    own = Committer(store=cast("Any", early), now=self._now, entropy=self._entropy)
    return await _SWEEP(own, root_ids, **options)


_SWEEP = Committer.sweep


MUTANTS: dict[str, Mutant] = {
    "acknowledges-first": _acknowledges_first,
    "skips-fence": _skips_fence,
    "drops-bulk-lane": _drops_bulk,
    "reads-uncommitted": lambda: patch.object(Consumer, "committed_only", new=False),
    "commits-past-gaps": lambda: patch.object(Consumer, "passes_gaps", new=True),
    "confirms-early": lambda: patch.object(Producer, "confirms_early", new=True),
    "commits-unchecked": lambda: patch.object(Committer, "unchanged", _finds_nothing_changed),
    "sweeps-in-flight": lambda: _everywhere("superseded", _in_flight_too),
    "keeps-any-row": lambda: patch.object(indexer, "compare", _any_row),
    "last-write-wins": lambda: _everywhere("standing", _latest),
    "ignores-tombstones": lambda: _everywhere("standing", _without_tombstones),
    "takes-unchecked-parts": lambda: patch.object(Committer, "manifests", _unchecked_too),
    "repeats-blindly": lambda: patch.object(repair.Repair, "__call__", _looks_at_nothing),
    "shares-rows": _shares_rows,
    "stays-alive": lambda: patch.object(fence, "_delete", _stays_alive),
    "reclaims-at-once": lambda: patch.object(reclaim, "ABANDONED_MS", 0),
    "sweeps-by-an-old-view": lambda: patch.object(Committer, "sweep", _reads_pages_first),
    "leaves-what-it-cannot-read": lambda: patch.object(lanes, "_UNDECIDED", lanes._REGULAR),
    "mixes-cuts": lambda: patch.object(Piece, "cut", property(lambda _: "")),
}
"""What is taken away, by the name of the defect."""
