"""Read which of the found chunks are live, and where they stand in their documents."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from freki.schemas import ChunkId, RootId
from freki.schemas.index import CommitId, ManifestEntry, ManifestPage, PageId, Place, Root, RowId, root_of_page
from freki.streams.retrieve.dependencies import Places, Stores

BESIDE = 32
"""Entries that are read at least on either side of a hit, for neighbours and sections of 4,000 characters."""
MAX_ROOT_AGE_NS = 250_000_000
"""Age above which roots are read again before they are quoted, in nanoseconds: a model may rank for seconds."""
MAX_ROOT_AGE_S = MAX_ROOT_AGE_NS / 1e9
MAX_RECHECK_NS = 1_000_000_000
"""Duration of the last look at roots above which what it read does not count any more, in nanoseconds: the process may
have stood still meanwhile. Longer than the age of roots, as a store under load takes its time for each look."""
_PLACE_BYTES = 400
"""Approximate size of a kept place: two ids, and the records around them."""
_ENTRY_BYTES = 600
"""Approximate size of a kept entry of a page, without its overlap."""


class Placeable(Protocol):
    """A found chunk."""

    @property
    def chunk_id(self) -> ChunkId:
        """Id of the chunk."""

    @property
    def root_id(self) -> RootId:
        """Root of its document."""


@dataclass(frozen=True, slots=True)
class LiveDocument:
    """A document as of one commit, not deleted."""

    root: Root
    places: Mapping[ChunkId, Place]
    """Manifest places of the found chunks that are live."""
    read_ns: int
    """Time at which reading its root began, by the clock of the query."""

    def row_id(self, chunk_id: ChunkId) -> RowId:
        """Return the row that the manifest names for a live chunk."""
        return self.places[chunk_id].row_id


async def read_live(stores: Stores, found: Iterable[Placeable], *, now_ns: int) -> dict[RootId, LiveDocument]:
    """Look up the documents of found chunks, without deleted and unknown ones, and the places of live chunks.

    Roots are read each time. Pages never change, so that what was read of one counts as long as a root names it.
    """
    wanted: defaultdict[RootId, dict[ChunkId, None]] = defaultdict(dict)
    for hit in found:
        wanted[hit.root_id][hit.chunk_id] = None
    places = stores.places.get_all(wanted)
    kept = {key: places.get(key, {}) for key in wanted}
    unknown = _unplaced(wanted, kept)
    # At once: pages of a revision that is committed in between may be missing, so that its chunks are not live yet.
    standing, read = await asyncio.gather(stores.roots.roots(list(wanted)), _read_places(stores, unknown))
    live = {key: root for key, root in standing.items() if not root.deleted}
    named = {key: _named_by(root, {**kept[key], **read.get(key, {})}) for key, root in live.items()}
    moved = {key: own for key, own in _unplaced(wanted, named).items() if key not in unknown}
    again = await _read_places(stores, moved)
    named |= {key: {**named[key], **_named_by(live[key], pages)} for key, pages in again.items()}
    for key in live.keys() & (read.keys() | again.keys()):
        stores.places.keep(key, named[key], size=_PLACE_BYTES * sum(map(len, named[key].values())))
    return {key: LiveDocument(root, _placed(named[key], wanted[key]), now_ns) for key, root in live.items()}


async def _read_pages(stores: Stores, page_ids: Collection[PageId]) -> list[ManifestPage]:
    """Return manifest pages, without missing ones; one that was read before is not read again."""
    pages = stores.pages.get_all(page_ids)
    unknown = [page_id for page_id in page_ids if page_id not in pages]
    read = await stores.roots.pages(unknown) if unknown else {}
    for page_id, page in read.items():
        stores.pages.keep(page_id, page, size=sum(_ENTRY_BYTES + 2 * len(entry.overlap) for entry in page.entries))
    return [*pages.values(), *read.values()]


async def _read_places(stores: Stores, wanted: Mapping[RootId, Collection[ChunkId]]) -> Mapping[RootId, Places]:
    """Read what pages name that name any of these chunks, by document."""
    found: defaultdict[RootId, dict[PageId, Mapping[ChunkId, Place]]] = defaultdict(dict)
    if not wanted:
        return found
    naming = await stores.roots.naming(list(wanted), [chunk_id for own in wanted.values() for chunk_id in own])
    for page, places in naming.items():
        found[root_of_page(page)][page] = places
    return found


def _named_by(root: Root, pages: Places) -> Places:
    """Return the pages that a root names."""
    return {page: pages[page] for page in root.pages if page in pages}


def _unplaced(
    wanted: Mapping[RootId, Collection[ChunkId]], named: Mapping[RootId, Places]
) -> dict[RootId, Collection[ChunkId]]:
    """Return the documents whose pages lack the place of some chunk, with all their wanted chunks."""
    return {key: wanted[key] for key, pages in named.items() if len(_placed(pages, wanted[key])) < len(wanted[key])}


def _placed(pages: Places, chunk_ids: Collection[ChunkId]) -> dict[ChunkId, Place]:
    """Return the places of these chunks."""
    return {chunk_id: places[chunk_id] for places in pages.values() for chunk_id in chunk_ids if chunk_id in places}


async def read_around(
    stores: Stores, hits: Sequence[tuple[ChunkId, LiveDocument]]
) -> dict[RootId, list[ManifestEntry]]:
    """Return the manifest entries around hits in reading order, of their pages and of one beside a hit near an end.

    Pages that were swept meanwhile have no entries.
    """
    wanted: dict[PageId, None] = {}
    for chunk_id, document in hits:
        pages, place = document.root.pages, document.places[chunk_id]
        at = pages.index(place.page_id)
        first = at - (place.position < BESIDE)
        last = at + (place.entries - place.position <= BESIDE)
        wanted.update(dict.fromkeys(pages[max(0, first) : last + 1]))
    entries: dict[RootId, list[ManifestEntry]] = {document.root.root_id: [] for _, document in hits}
    for page in await _read_pages(stores, wanted):
        entries[page.root_id] += page.entries
    return {key: sorted(found, key=lambda entry: entry.ordinal) for key, found in entries.items()}


def is_recent(documents: Iterable[LiveDocument], *, now_ns: int) -> bool:
    """Return whether the roots of documents may be quoted without reading them again."""
    return all(0 <= now_ns - document.read_ns <= MAX_ROOT_AGE_NS for document in documents)


def may_send(checked_ns: int, *, now_ns: int) -> bool:
    """Return whether an answer may be sent whose roots were last checked at that time."""
    return 0 <= now_ns - checked_ns <= MAX_RECHECK_NS


def fresh_s(documents: Iterable[LiveDocument], *, now_ns: int) -> float:
    """Return for how many more seconds the roots of documents may be quoted without reading them again."""
    oldest_ns = min((document.read_ns for document in documents), default=now_ns)
    return (MAX_ROOT_AGE_NS - (now_ns - oldest_ns)) / 1e9


async def read_standing(stores: Stores, documents: Iterable[LiveDocument]) -> frozenset[CommitId]:
    """Return which of the revisions are live now."""
    known = {document.root.root_id: document.root.commit_id for document in documents}
    standing = await stores.roots.roots(list(known))
    return frozenset(root.commit_id for root in standing.values()) & frozenset(known.values())
