"""All that the simulation knows of the store's protocol. Whoever changes the protocol changes this file."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple, TypeVar, cast

from freki.operators.identify import root_id
from freki.schemas import DocumentId, RootId, TenantId, Timestamp
from freki.schemas.index import Root, RowId, standing
from freki.streams.ingest.index import reclaim as reclaim_module
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.index.reclaim import ABANDONED_MS
from tests.memory_index import MemoryIndex
from tests.simulation.virtual import NOW

T = TypeVar("T")

HAND_OVER_S = 0.4
"""As that of the profile of the local broker."""

Split = Callable[..., list[tuple[Any, ...]]]
"""Cuts the arguments of one call into those of calls whose effects may come one by one."""


def _each_row(rows: Sequence[Any], vectors: Any) -> list[tuple[Any, ...]]:
    return [([row], vectors[at : at + 1]) for at, row in enumerate(rows)]


def _each(values: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [([value],) for value in values]


def _each_root(roots: Sequence[Any], watermarks: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [*(([root], []) for root in roots), *(([], [mark]) for mark in watermarks)]


def _each_discarded(pages: Sequence[Any], commits: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    return [*(([page], []) for page in pages), *(([], [commit]) for commit in commits)]


WRITES: dict[str, Split] = {
    "insert": _each_row,
    "write_pages": _each,
    "mark_checked": _each,
    "commit": _each_root,
    "delete": _each,
    "discard": _each_discarded,
}
"""Methods of the store that write, and how each is cut. A row is written at once; rows of one call are not."""

BOUNDED = ("dense", "lexical")
"""Methods that may see an older state where their argument `strong` is false."""


def concerns(args: Sequence[Any], key: str) -> bool:
    """Tell whether a call of the store names a document, given as tenant/document."""
    wanted = _root_of(key)
    return any(getattr(each, "root_id", each) == wanted for each in args[0])


@cache
def _root_of(key: str) -> RootId:
    tenant, _, document = key.partition("/")
    return root_id(TenantId(tenant), DocumentId(document))


class Held(NamedTuple):
    """What the index holds of a document in the end."""

    version: int
    deleted: bool
    texts: list[str]
    """Of the leaves, in reading order; those whose row is missing are missing."""
    principals: tuple[str, ...]
    missing: int
    """Rows and manifest pages that the live root promises and that are not there."""


class FinalState(NamedTuple):
    """What the index holds in the end."""

    documents: dict[tuple[TenantId, DocumentId], Held]
    leftovers: list[str]
    """Rows and pages that no live root names."""


async def final_state(index: MemoryIndex) -> FinalState:
    """Read the whole index."""
    documents: dict[tuple[TenantId, DocumentId], Held] = {}
    named: set[str] = set()
    for root in [root async for root in index.all_roots()]:
        pages = await index.pages(root.pages)
        entries = sorted((entry for page in pages.values() for entry in page.entries), key=lambda entry: entry.ordinal)
        rows = await index.fetch([entry.row_id for entry in entries])
        texts = [(rows[entry.row_id][0].level, rows[entry.row_id][0].text) for entry in entries if entry.row_id in rows]
        named |= {root.commit_id, *pages, *(entry.row_id for entry in entries)}
        documents[root.tenant, root.document_id] = Held(
            version=root.version,
            deleted=root.deleted,
            texts=[text for level, text in texts if level == max(level for level, _ in texts)],
            principals=root.principals,
            missing=len({entry.row_id for entry in entries} - set(rows)) + len(root.pages) - len(pages),
        )
    stored = [row for rows in index._shards.values() for row, _ in rows.values()]
    leftovers = [
        f"row {row.row_id[:8]}…{row.row_id[-6:]} of {row.document_id} v{row.version}"
        for row in stored
        if row.row_id not in named
    ]
    leftovers += [f"page {page_id}" for pages in index._pages.values() for page_id in pages if page_id not in named]
    leftovers += [f"mark {page_id}" for marks in index._marks.values() for page_id in marks if page_id not in named]
    # A root below a tombstone keeps the tombstone's time until the next commit carries it on.
    leftovers += [
        f"root {commit_id}"
        for roots in index._roots.values()
        for commit_id, root in roots.items()
        if commit_id not in named and not root.tombstoned_at
    ]
    return FinalState(documents, sorted(leftovers))


def brief(argument: Any) -> str:
    """Tell of an argument of a write what a reader of a trace needs."""
    if isinstance(argument, Mapping):
        return ", ".join(f"{str(key)[:6]}<{value}" for key, value in argument.items()) or "-"
    if not isinstance(argument, Sequence):
        return ""
    return ", ".join(_brief(each) for each in argument) or "-"


def _brief(value: Any) -> str:
    if isinstance(value, str):
        return value[:6]
    named = [str(getattr(value, name))[:6] for name in ("chunk_id", "root_id", "document_id") if hasattr(value, name)]
    version = f"v{value.version}" if hasattr(value, "version") else ""
    return " ".join([*named, version, "deleted" if getattr(value, "deleted", False) else ""]).strip()


def entropy() -> str:
    """Draw what makes attempts unique."""
    return f"{NOW.chance.getrandbits(32):08x}"


async def reclaim(store: Any, now: Callable[[], Timestamp]) -> None:
    """Remove what nobody names any more, as the embed workers do on a timer."""
    await reclaim_module.reclaim(store, Committer(store=store, now=now, entropy=entropy), now=now)


async def reclaim_at_last(store: Any) -> None:
    """Do that long after the last pause."""
    later = Timestamp(NOW.time_ns() // 1_000_000 + 2 * ABANDONED_MS)
    await reclaim(store, lambda: later)


def lose(index: MemoryIndex, share: float, random: Random) -> list[RowId]:
    """Remove some of the rows that live revisions name, as no protocol does."""
    named = sorted(
        entry.row_id
        for roots in index._roots.values()
        if (root := standing(roots.values())) is not None
        for page_id in root.pages
        if (page := index._pages[root.root_id].get(page_id)) is not None
        for entry in page.entries
    )
    gone = [row_id for row_id in named if random.random() < share]
    run_now(index.delete(gone))
    return gone


class Watch:
    """Looks at the store after each write: what readers see of a document never goes back, and has no hole."""

    def __init__(self, index: MemoryIndex) -> None:
        self._index = index
        self._seen: dict[RootId, Root] = {}
        self._tombstoned: dict[RootId, Timestamp] = {}
        self._named: dict[str, RootId] = {}
        """Rows and pages of what readers see, and its document."""
        self.lost: set[str] = set()
        """Rows that the store itself has lost."""
        self.found: list[tuple[str, str]] = []
        """Rules that were broken, and how."""

    def after(self, write: str, args: Sequence[Any]) -> None:
        """Look at what a write may have changed."""
        match write:
            case "commit":
                for root in args[0]:
                    at = max(root.tombstoned_at, self._tombstoned.get(root.root_id, root.tombstoned_at))
                    self._tombstoned[root.root_id] = at
                    self._look(root.root_id)
            case "delete":
                self._gone(args[0])
            case "discard":
                self._gone(args[0])
                for key in dict.fromkeys(key.partition(":")[0] for commits in args[1:] for key in commits):
                    self._look(RootId(key))

    def _gone(self, keys: Sequence[str]) -> None:
        for key in keys:
            if key in self._named and key not in self.lost:
                root = self._seen[self._named[key]]
                self.found.append(("hole", f"{key} was deleted, which {root.document_id} v{root.version} names"))

    def _look(self, key: RootId) -> None:
        root, before = run_now(self._index.roots([key])).get(key), self._seen.get(key)
        if before is not None and (root is None or (root.version, root.deleted) < (before.version, before.deleted)):
            now = "nothing" if root is None else _named(root)
            self.found.append(("back", f"{before.document_id} went from {_named(before)} to {now}"))
        if root is not None and not root.deleted and root.recorded_at < self._tombstoned.get(key, 0):
            self.found.append(("back", f"{root.document_id} {_named(root)} is live, and older than its tombstone"))
        if root is None or (before is not None and (root.commit_id, root.pages) == (before.commit_id, before.pages)):
            return
        self._seen[key] = root
        self._named = {name: other for name, other in self._named.items() if other != key}
        pages = run_now(self._index.pages(root.pages))
        rows = [entry.row_id for page in pages.values() for entry in page.entries]
        self._named |= dict.fromkeys([*root.pages, *rows], key)
        there = {*pages, *run_now(self._index.fetch(rows)), *self.lost}
        missing = [name for name in (*root.pages, *rows) if name not in there]
        if missing:
            self.found.append(("hole", f"{missing[0]} is missing, which {_named(root)} of {root.document_id} names"))


def _named(root: Root) -> str:
    return f"v{root.version}{' deleted' if root.deleted else ''}"


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of the index in memory, which waits for nothing."""
    try:
        work.send(None)
    except StopIteration as stopped:
        return cast("T", stopped.value)
    raise AssertionError("the index in memory waits for something")


async def give_up(stages: Sequence[Any]) -> None:
    """Do what the pipeline's consumer does with the stages when their partitions are taken away."""
    await asyncio.gather(*(stage.release(HAND_OVER_S) for stage in stages))
