"""Deletions that are published and awaited: satisfies Deletions of `streams.ports`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.schemas import DocumentChange, DocumentId, Operation, OutcomeStatus, TenantId
from freki.streams.wire.connect import open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock

if TYPE_CHECKING:
    from freki.infra.milvus.index import MilvusIndex

_REJECTED = OutcomeStatus.REJECTED


class PublishedDeletions:
    """Publishes deletions as any producer does, and looks in the index what became of them."""

    def __init__(self, settings: Settings, index: "MilvusIndex", *, patience_s: float) -> None:
        """Set the index; patience_s: longest wait for the next receipt."""
        self._settings = settings
        self._index = index
        self._patience_s = patience_s

    async def delete(self, tenant: TenantId, versions: Mapping[DocumentId, int]) -> Mapping[DocumentId, bool]:
        """Publish deletions and wait for their receipts."""
        statuses = await self._published(tenant, versions)
        keys = {name: root_id(tenant, name) for name in statuses}
        roots = await self._index.roots(list(keys.values()))
        gone = {name: key not in roots or roots[key].deleted for name, key in keys.items()}
        # A change that breaks a rule was never indexed, and the deletion of its version breaks the same rule.
        return {name: is_gone for name, is_gone in gone.items() if is_gone or statuses[name] is not _REJECTED}

    async def _published(
        self, tenant: TenantId, versions: Mapping[DocumentId, int]
    ) -> Mapping[DocumentId, OutcomeStatus]:
        """Publish deletions; return the status of those that get a receipt in time."""
        statuses: dict[DocumentId, OutcomeStatus] = {}
        async with open_receipts(self._settings) as receipts, open_publisher(self._settings) as publisher:
            changes = [_deletion(tenant, name, version) for name, version in versions.items()]
            for change in changes:
                receipts.expect(change)
            await publisher.publish(*changes)
            for _ in changes:
                try:
                    outcome = await receipts.next(patience_s=self._patience_s)
                except TimeoutError:
                    break
                statuses[outcome.document_id] = outcome.status
        return statuses


def _deletion(tenant: TenantId, name: DocumentId, version: int) -> DocumentChange:
    return DocumentChange(
        tenant=tenant,
        document_id=name,
        operation=Operation.DELETE,
        version=version,
        occurred_at=wall_clock(),
    )
