"""What is live of documents: their roots and manifests, with a bounded memory of manifests.

A manifest never changes once its root is committed, so it is kept under the root's version and commit time;
the root itself is read from the store every time.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from freki.schemas import ChunkId, RootId, Timestamp
from freki.schemas.index import ManifestEntry, Root
from freki.streams.ports import Roots

# About 250 bytes each: 100 MB at most.
MAX_ENTRIES = 400_000
# A manifest that is swept between two reads was replaced by a newer one; each try reads that one.
MAX_TRIES = 4


class Manifest:
    """The ordered live chunks of one revision."""

    def __init__(self, entries: Sequence[ManifestEntry]) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: entry.ordinal))

    @cached_property
    def by_id(self) -> Mapping[ChunkId, ManifestEntry]:
        """Entries by chunk."""
        return {entry.chunk_id: entry for entry in self.entries}


@dataclass(frozen=True, slots=True)
class LiveDocument:
    """A document that may be quoted."""

    root: Root
    manifest: Manifest


class LiveDocuments:
    """Reads roots and manifests; a document that is deleted or unknown is not there."""

    def __init__(self, roots: Roots, *, max_entries: int = MAX_ENTRIES) -> None:
        self._roots = roots
        self._max_entries = max_entries
        self._kept: OrderedDict[tuple[RootId, int, Timestamp], Manifest] = OrderedDict()
        self._size = 0

    async def read(self, root_ids: Sequence[RootId]) -> dict[RootId, LiveDocument]:
        """Give the live documents among these, each one as of a single commit."""
        live: dict[RootId, LiveDocument] = {}
        missing = list(dict.fromkeys(root_ids))
        for _ in range(MAX_TRIES):
            roots = {key: root for key, root in (await self._roots.roots(missing)).items() if not root.deleted}
            unread = {key: root.version for key, root in roots.items() if _key(root) not in self._kept}
            pages = await self._roots.pages(unread) if unread else {}
            missing = []
            for key, root in roots.items():
                manifest = self._kept.get(_key(root))
                if manifest is None:
                    # An attempt that died may have left further pages, if the document was cut in another way then.
                    found = [page for page in pages.get(key, []) if page.part < root.parts]
                    if len(found) != root.parts:
                        missing.append(key)
                        continue
                    manifest = Manifest([entry for page in found for entry in page.entries])
                self._keep(root, manifest)
                live[key] = LiveDocument(root, manifest)
            if not missing:
                break
        return live

    def _keep(self, root: Root, manifest: Manifest) -> None:
        key = _key(root)
        if key not in self._kept:
            self._size += len(manifest.entries)
        self._kept[key] = manifest
        self._kept.move_to_end(key)
        while self._size > self._max_entries and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest.entries)


def _key(root: Root) -> tuple[RootId, int, Timestamp]:
    return root.root_id, root.version, root.searchable_at
