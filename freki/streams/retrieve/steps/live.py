"""What is live of documents: which of the chunks that were found may be quoted, and where they stand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from freki.schemas import ChunkId, RootId
from freki.schemas.index import ManifestEntry, PageId, Place, Root, RowId
from freki.streams.ports import Roots


class Placeable(Protocol):
    """A chunk that was found."""

    @property
    def chunk_id(self) -> ChunkId:
        """The chunk."""

    @property
    def root_id(self) -> RootId:
        """Its document."""


@dataclass(frozen=True, slots=True)
class LiveDocument:
    """A document that may be quoted, as of one commit."""

    root: Root
    places: Mapping[ChunkId, Place]
    """Of the chunks that were found, those that are live, and where the manifest names each."""

    def row_id(self, chunk_id: ChunkId) -> RowId:
        """Return the row that the manifest names for a live chunk."""
        return self.places[chunk_id].row_id


async def read_live(roots: Roots, found: Iterable[Placeable]) -> dict[RootId, LiveDocument]:
    """Look up what was found: a document that is deleted or unknown is not there, nor is a chunk that is not live."""
    chunk_ids: dict[ChunkId, RootId] = {hit.chunk_id: hit.root_id for hit in found}
    live = {key: root for key, root in (await roots.roots(list(set(chunk_ids.values())))).items() if not root.deleted}
    placed = await roots.places(
        list(live.values()),
        [chunk_id for chunk_id, key in chunk_ids.items() if key in live],
    )
    return {key: LiveDocument(root, placed.get(key, {})) for key, root in live.items()}


async def read_around(roots: Roots, hits: Sequence[tuple[ChunkId, LiveDocument]]) -> dict[RootId, list[ManifestEntry]]:
    """Read what stands around hits: the part of the manifest that names each, and those beside it, in reading order.

    A document whose revision was replaced meanwhile has no entries, or not those of its hits.
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
