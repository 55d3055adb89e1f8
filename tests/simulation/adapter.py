"""All that the simulation knows of the store's protocol. Whoever changes the protocol changes this file."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from freki.infra.memory_index import MemoryIndex
from freki.schemas import DocumentId, TenantId

Split = Callable[..., list[tuple[Any, ...]]]
"""Cuts the arguments of one call into those of calls whose effects may come one by one."""


def _each_row(rows: Sequence[Any], vectors: Any) -> list[tuple[Any, ...]]:
    return [([row], vectors[at : at + 1]) for at, row in enumerate(rows)]


def _each(values: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [([value],) for value in values]


def _each_root(roots: Sequence[Any], watermarks: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [*(([root], []) for root in roots), *(([], [mark]) for mark in watermarks)]


def _each_pair(pairs: Mapping[Any, Any]) -> list[tuple[Any, ...]]:
    return [({key: value},) for key, value in pairs.items()]


WRITES: dict[str, Split] = {
    "upsert": _each_row,
    "write_pages": _each,
    "commit": _each_root,
    "delete": _each,
    "sweep_pages": _each_pair,
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
    named_pages: set[tuple[str, int, int]] = set()
    for root in [root async for root in index.all_roots()]:
        pages = (await index.pages({root.root_id: root.version}))[root.root_id] if not root.deleted else []
        pages = [page for page in pages if page.part < root.parts]
        named_pages |= {(page.root_id, page.version, page.part) for page in pages}
        entries = sorted((entry for page in pages for entry in page.entries), key=lambda entry: entry.ordinal)
        rows = await index.fetch([entry.chunk_id for entry in entries])
        named |= {entry.chunk_id for entry in entries}
        documents[root.tenant, root.document_id] = Held(
            version=root.version,
            deleted=root.deleted,
            texts=[rows[entry.chunk_id][0].text for entry in entries if entry.chunk_id in rows],
            principals=root.principals,
            missing=len({entry.chunk_id for entry in entries} - set(rows)) + root.parts - len(pages),
        )
    stored = {chunk_id: row for rows in index._shards.values() for chunk_id, (row, _) in rows.items()}
    left = [f"row {chunk_id[:8]} of {row.document_id} v{row.version}" for chunk_id, row in stored.items()]
    leftovers = [line for line, chunk_id in zip(left, stored, strict=True) if chunk_id not in named]
    leftovers += [
        f"page {part} of root {key[:8]} v{version}"
        for key, version, part in index._pages
        if (key, version, part) not in named_pages
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
    """Remove what nobody names any more, as far as the store has a method for it."""


async def give_up(stages: Sequence[Any]) -> None:
    """Do what the pipeline's consumer does with the stages when their partitions are taken away: here, nothing."""
