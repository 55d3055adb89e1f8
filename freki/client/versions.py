"""Versions of changes that name none."""

from freki.schemas import DocumentChange, Timestamp

Document = tuple[str, str]
"""Tenant and id."""


class Versions:
    """Gives changes the time as their version, and each of one document a higher one.

    Two of one version are told apart by nothing: the second would be refused, with the receipt of the first.
    """

    def __init__(self) -> None:
        self._given: dict[Document, int] = {}

    def of(self, change: DocumentChange, *, now: Timestamp) -> int:
        """Return the version of a change: its own, or else the time, or one more than the last one given."""
        if change.version:
            return change.version
        # Earlier ones are below the time: they are in nobody's way.
        self._given = {document: version for document, version in self._given.items() if version >= now}
        document = (change.tenant, change.document_id)
        self._given[document] = version = max(now, self._given.get(document, 0) + 1)
        return version
