"""What is live of documents: which of the chunks that were found may be quoted, and where they stand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from freki.schemas import ChunkId, RootId
from freki.schemas.index import ManifestEntry, Root
from freki.streams.ports import PageKey, Roots


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
    parts: Mapping[ChunkId, int]
    """Of the chunks that were found, those that are live, and the part of the manifest that names each."""


async def read_live(roots: Roots, found: Iterable[Placeable]) -> dict[RootId, LiveDocument]:
    """Look up what was found: a document that is deleted or unknown is not there, nor is a chunk that is not live."""
    chunk_ids: dict[ChunkId, RootId] = {hit.chunk_id: hit.root_id for hit in found}
    live = {key: root for key, root in (await roots.roots(list(set(chunk_ids.values())))).items() if not root.deleted}
    placed = await roots.places(
        {key: root.version for key, root in live.items()},
        [chunk_id for chunk_id, key in chunk_ids.items() if key in live],
    )
    return {
        # An attempt that died may have left further pages, if the document was cut in another way then.
        key: LiveDocument(root, {chunk_id: part for chunk_id, part in placed.get(key, {}).items() if part < root.parts})
        for key, root in live.items()
    }


async def read_around(roots: Roots, hits: Sequence[tuple[ChunkId, LiveDocument]]) -> dict[RootId, list[ManifestEntry]]:
    """Read what stands around hits: the part of the manifest that names each, and those beside it, in reading order.

    A document whose revision was replaced meanwhile has no entries, or not those of its hits.
    """
    wanted: dict[PageKey, None] = {}
    for chunk_id, document in hits:
        part = document.parts[chunk_id]
        for near in range(max(0, part - 1), min(document.root.parts, part + 2)):
            wanted[document.root.root_id, document.root.version, near] = None
    pages = await roots.parts(list(wanted))
    return {
        key: sorted((entry for page in found for entry in page.entries), key=lambda entry: entry.ordinal)
        for key, found in pages.items()
    }
