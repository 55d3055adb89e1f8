"""All that the simulation knows of the store's protocol. Whoever changes the protocol changes this file."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from freki.infra.memory_index import MemoryIndex
from freki.schemas import DocumentId, TenantId, Timestamp
from freki.streams.indexing.commit import Committer
from freki.streams.indexing.reclaim import ABANDONED_MS
from freki.streams.indexing.reclaim import reclaim as sweep_all
from tests.simulation.virtual import NOW

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
    "upsert": _each_row,
    "write_pages": _each,
    "mark_checked": _each,
    "commit": _each_root,
    "delete": _each,
    "discard": _each_discarded,
}
"""Methods of the store that write, and how each is cut. A row is written at once; rows of one call are not."""

BOUNDED = ("dense", "lexical")
"""Methods that may see an older state where their argument `strong` is false."""


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
        named |= {root.commit_id, *pages, *(entry.row_id for entry in entries)}
        documents[root.tenant, root.document_id] = Held(
            version=root.version,
            deleted=root.deleted,
            texts=[rows[entry.row_id][0].text for entry in entries if entry.row_id in rows],
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


async def reclaim(store: Any) -> None:
    """Remove what nobody names any more, as the embed workers do on a timer, long after the last pause."""
    later = Timestamp(NOW.time_ns() // 1_000_000 + 2 * ABANDONED_MS)
    await sweep_all(store, Committer(rows=store, roots=store, now=lambda: later), now=lambda: later)


async def give_up(stages: Sequence[Any]) -> None:
    """Do what the pipeline's consumer does with the stages when their partitions are taken away."""
    await asyncio.gather(*(stage.release(HAND_OVER_S) for stage in stages))
