"""Lists of documents."""

from bisect import insort
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, fields

from freki.operators.select_documents import is_selected
from freki.schemas import ListedDocument
from freki.schemas.index import Root, Selection
from freki.streams.ports import WholeIndex

_SAME = [field.name for field in fields(ListedDocument) if field.name != "made_by_these_settings"]


@dataclass(frozen=True, slots=True)
class Page:
    """Documents in the order of their ids."""

    roots: Sequence[Root]
    total: int
    """Number of selected documents, also on other pages."""
    left: int
    """Number of selected documents on this page and those after it."""

    @property
    def is_last(self) -> bool:
        """Whether no documents follow."""
        return len(self.roots) == self.left


async def selected(index: WholeIndex, selection: Selection) -> AsyncIterator[Root]:
    """Yield the roots of selected documents, unordered."""
    async for root in index.all_roots(tenant=selection.tenant, prefix=selection.prefix):
        if is_selected(root, selection):
            yield root


async def page_of(index: WholeIndex, selection: Selection, *, after: str = "", limit: int = 0) -> Page:
    """Return the first selected documents after an id, in the order of ids; limit 0: all of them."""
    roots: list[Root] = []
    total = left = 0
    async for root in selected(index, selection):
        total += 1
        if root.document_id <= after:
            continue
        left += 1
        insort(roots, root, key=lambda each: each.document_id)
        # Only as many as the page takes: an index may have more documents than fit in memory.
        if limit:
            del roots[limit:]
    return Page(roots, total, left)


def listed(root: Root, current: Collection[str]) -> ListedDocument:
    """Return a document as it is listed; current: fingerprints of revisions made by the settings in use."""
    return ListedDocument(
        **{name: getattr(root, name) for name in _SAME},
        made_by_these_settings=root.deleted or root.fingerprint in current,
    )
