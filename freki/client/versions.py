"""Versions of changes that name none."""

from typing import Final

from freki.schemas import DocumentChange, Timestamp

Document = tuple[str, str]
"""Tenant and id."""
REMEMBERED_MS: Final = 86_400_000
"""How far a clock may be set back so that versions still grow, in milliseconds."""


class Versions:
    """Gives changes the time as their version, and each of one document a higher one.

    Two of one version are told apart by nothing: the second would be refused, with the receipt of the first.
    """

    def __init__(self) -> None:
        self._given: dict[Document, int] = {}
        """In the order of giving."""

    def of(self, change: DocumentChange, *, now: Timestamp) -> int:
        """Return the version of a change: its own, or else the time, or one more than the last one given."""
        if change.version:
            return change.version
        document = (change.tenant, change.document_id)
        version = max(now, self._given.pop(document, 0) + 1)
        while self._given and self._given[first := next(iter(self._given))] < now - REMEMBERED_MS:
            del self._given[first]
        self._given[document] = version
        return version
