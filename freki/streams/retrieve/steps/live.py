"""Read which of the found chunks are live, and where they stand in their documents."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from freki.schemas import ChunkId, RootId
from freki.schemas.index import ManifestEntry, PageId, Place, Root, RowId, places_in
from freki.streams.ports import Roots

BESIDE = 32
"""Entries that are read at least on either side of a hit, for neighbours and sections of 4,000 characters."""


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

    def row_id(self, chunk_id: ChunkId) -> RowId:
        """Return the row that the manifest names for a live chunk."""
        return self.places[chunk_id].row_id


async def read_live(roots: Roots, found: Iterable[Placeable]) -> dict[RootId, LiveDocument]:
    """Look up the documents of found chunks, without deleted and unknown ones, and the places of live chunks."""
    chunk_ids: dict[ChunkId, RootId] = {hit.chunk_id: hit.root_id for hit in found}
    keys = list(dict.fromkeys(chunk_ids.values()))
    # At once: pages of a revision that is committed in between may be missing, so that its chunks are not live yet.
    standing, naming = await asyncio.gather(roots.roots(keys), roots.naming(keys, list(chunk_ids)))
    return {key: LiveDocument(root, places_in(root, naming)) for key, root in standing.items() if not root.deleted}


async def read_around(roots: Roots, hits: Sequence[tuple[ChunkId, LiveDocument]]) -> dict[RootId, list[ManifestEntry]]:
    """Return the manifest entries around hits in reading order, of their pages and of one beside a hit near an end.

    A document whose revision was replaced meanwhile has no entries, or none of its hits.
    """
    wanted: dict[PageId, None] = {}
    for chunk_id, document in hits:
        pages, place = document.root.pages, document.places[chunk_id]
        at = pages.index(place.page_id)
        first = at - (place.position < BESIDE)
        last = at + (place.entries - place.position <= BESIDE)
        wanted.update(dict.fromkeys(pages[max(0, first) : last + 1]))
    entries: dict[RootId, list[ManifestEntry]] = {document.root.root_id: [] for _, document in hits}
    for page in (await roots.pages(list(wanted))).values():
        entries[page.root_id] += page.entries
    return {key: sorted(found, key=lambda entry: entry.ordinal) for key, found in entries.items()}
