"""Pages of documents, in the order of their ids."""

from hypothesis import given
from hypothesis import strategies as st

from freki.schemas import DocumentId, TenantId
from freki.schemas.index import Selection
from freki.streams.documents.listing import page_of
from tests.contract.index_records import GENERATION, root
from tests.memory_index import MemoryIndex

ACME = Selection(tenant=TenantId("acme"))


async def index_of(names: list[str]) -> MemoryIndex:
    index = MemoryIndex(GENERATION)
    await index.commit([root(f"r{at}", document_id=DocumentId(name)) for at, name in enumerate(names)], [])
    await index.commit([root("other", tenant=TenantId("other"), document_id=DocumentId("a"))], [])
    return index


@given(names=st.lists(st.text("abä/", min_size=1, max_size=4), unique=True), limit=st.integers(1, 5))
async def test_pages_after_each_other_show_every_document_once_in_order(names: list[str], limit: int) -> None:
    index = await index_of(names)

    shown: list[str] = []
    while True:
        page = await page_of(index, ACME, after=shown[-1] if shown else "", limit=limit)
        shown += [each.document_id for each in page.roots]
        assert page.total == len(names)
        assert len(page.roots) <= limit
        if page.is_last:
            break

    assert shown == sorted(names)


async def test_without_a_limit_one_page_has_all() -> None:
    index = await index_of(["b", "a", "c"])

    page = await page_of(index, ACME, limit=0)

    assert [each.document_id for each in page.roots] == ["a", "b", "c"]
    assert page.is_last
