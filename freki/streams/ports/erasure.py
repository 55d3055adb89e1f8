"""Protocols of what an erasure reaches: places with content, deletions, and the holds that it must wait for."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from freki.schemas import Coverage, DocumentId, Hold, RootId, TenantId, Timestamp
from freki.schemas.findings import CoveredDocuments, Findings, Removal
from freki.schemas.index import Root

StillFree = Callable[[], Awaitable[Collection[DocumentId]]]
"""Returns the documents that no hold covers now."""


class DocumentPlaces(Protocol):
    """All places that content of documents may be in: topics, store and claims. All methods can be repeated."""

    async def covered(self, tenant: TenantId, covers: Coverage) -> CoveredDocuments:
        """Return the documents that are covered: indexed, or still on the topic.

        A document is covered if any of its known versions is. Deleted ones are among them as long as something of
        them may be left.
        """

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Return a context within which no other erasure of this process finds and removes.

        Another one might send dead letters again that this one has found, so that it would remove them where they were.
        """

    async def find(
        self,
        tenant: TenantId,
        versions: Mapping[DocumentId, int],
        *,
        claims: Mapping[str, frozenset[DocumentId]] | None = None,
        before_ms: Timestamp | None = None,
        waits: bool = False,
    ) -> Findings:
        """Search everywhere.

        versions: the last version of each document that is meant; claims: addresses known besides, with their
        documents; before_ms: when a later version was searchable, which stays, by the broker's clock: answers and work
        records of before may quote what is meant. Without it the documents are to go. waits: for workers that have not
        read what they would copy content from.
        """

    async def remove(self, found: Findings, *, still_free: StillFree, superseded: bool = False) -> Removal:
        """Remove what was found of the documents that are still free at the time.

        superseded: a newer version of the documents stays, in place of a deletion.
        """

    async def destroy_keys(self, tenant: TenantId, documents: Collection[DocumentId]) -> int:
        """Destroy the data keys of deleted documents; return their number."""

    async def strip(self, tenant: TenantId, documents: Collection[DocumentId]) -> int:
        """Take names, readers, attributes and hashes from deleted documents; return their number. The fence stays."""


class IndexedRoots(Protocol):
    """Look-up of documents in the index."""

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        """Return the standing root of each document, including deleted ones."""


class Deletions(Protocol):
    """Publishes deletions."""

    async def delete(self, tenant: TenantId, versions: Mapping[DocumentId, int]) -> Mapping[DocumentId, bool]:
        """Publish deletions and wait for their receipts.

        Returns which documents are deleted now; False: a later version came. Those without a receipt in time are
        absent.
        """


class HoldBook(Protocol):
    """The holds that count now."""

    async def of(self, tenant: TenantId) -> Sequence[Hold]:
        """Return the holds of a tenant, no older than a second, and none older than a call before returned."""
