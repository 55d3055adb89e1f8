"""Read which of the found chunks are live, and where they stand in their documents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from freki.schemas import ChunkId, RootId
from freki.schemas.index import ManifestEntry, PageId, Place, Root, RowId
from freki.streams.ports import Roots


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
    live = {key: root for key, root in (await roots.roots(list(set(chunk_ids.values())))).items() if not root.deleted}
    placed = await roots.places(
        list(live.values()),
        [chunk_id for chunk_id, key in chunk_ids.items() if key in live],
    )
    return {key: LiveDocument(root, placed.get(key, {})) for key, root in live.items()}


async def read_around(roots: Roots, hits: Sequence[tuple[ChunkId, LiveDocument]]) -> dict[RootId, list[ManifestEntry]]:
    """Read the manifest pages of hits and the pages beside them; return their entries in reading order.

    A document whose revision was replaced meanwhile has no entries, or none of its hits.
    """
    wanted: dict[PageId, None] = {}
    for chunk_id, document in hits:
        pages = document.root.pages
        at = pages.index(document.places[chunk_id].page_id)
        wanted.update(dict.fromkeys(pages[max(0, at - 1) : at + 2]))
    entries: dict[RootId, list[ManifestEntry]] = {document.root.root_id: [] for _, document in hits}
    for page in (await roots.pages(list(wanted))).values():
        entries[page.root_id] += page.entries
    return {key: sorted(found, key=lambda entry: entry.ordinal) for key, found in entries.items()}
