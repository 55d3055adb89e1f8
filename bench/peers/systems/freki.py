"""Freki: local stack with default settings, through the real topics."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager

from bench.peers.job import Document
from bench.peers.models import Background
from bench.peers.system import CANDIDATES, HITS, Hit, Leftovers, Place
from freki.cli.show_processes import report
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.schemas import (
    EVERYONE,
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    Filter,
    FilterOperator,
    Operation,
    OutcomeStatus,
    QueryId,
    RerankerChoice,
    TenantId,
    Timestamp,
)
from freki.streams.client import Asker, Publisher, Receipts
from freki.streams.wire.connect import open_asker, open_index, open_publisher, open_receipts
from freki.streams.wire.from_settings import wall_clock
from freki.streams.wire.provision import apply_topics

TENANT = TenantId("peers")
HYBRID, RERANKED = "hybrid", "reranked"
PATIENCE_S = 300.0
DEADLINE_MS = 60_000
"""Deadline in milliseconds: long, so that no step is skipped for time."""
_DELETED = 10**15
"""Version of deletions: above those of recorded streams."""


@contextmanager
def open_system(place: Place) -> Iterator["Freki"]:
    """Run a stack with an empty index."""
    with Background() as background:
        settings = Settings(tenant=TENANT, local=Settings().local.elsewhere(place.directory / "stack"))
        freki = Freki(background)
        background.wait(freki.start(settings))
        try:
            yield freki
        finally:
            background.wait(freki.stop())


class Freki:
    """Client that publishes changes, waits for their receipts, and runs queries."""

    ways = (HYBRID, RERANKED)

    def __init__(self, background: Background) -> None:
        self._background = background
        self._opened = AsyncExitStack()
        self._settings: Settings
        self._publisher: Publisher
        self._receipts: Receipts
        self._asker: Asker
        self.embedded = 0

    async def start(self, settings: Settings) -> None:
        """Start broker, store and workers; open the clients."""
        stack = await self._opened.enter_async_context(LocalStack(settings, report=report, prepare=apply_topics))
        self._settings = settings_for(settings, stack.state)
        self._receipts = await self._opened.enter_async_context(open_receipts(self._settings))
        self._publisher = await self._opened.enter_async_context(open_publisher(self._settings))
        self._asker = await self._opened.enter_async_context(open_asker(self._settings))

    async def stop(self) -> None:
        """Close the clients and stop the stack."""
        await self._opened.aclose()

    def ingest(self, documents: Sequence[Document]) -> None:
        """Index documents for the first time."""
        self._publish([change_of(document) for document in documents])

    def update(
        self,
        changed: Sequence[Document],
        gone: Sequence[str],
        current: Sequence[Document],  # noqa: ARG002 - it only needs the changes
    ) -> None:
        """Publish upserts and deletions."""
        self._publish([*map(change_of, changed), *map(_deletion, gone)])

    def search(self, question: str, *, way: str) -> list[Hit]:
        """Return the best hits."""
        result = self._ask(question, reranker=None if way == RERANKED else RerankerChoice.NONE)
        return [Hit(document_id=hit.document_id, text=hit.text) for hit in result.hits]

    def within(self, question: str, document_id: str) -> list[str]:
        """Search one document."""
        only = Filter(field="document_id", operator=FilterOperator.EQ, values=(document_id,))
        return [hit.text for hit in self._ask(question, filters=(only,), reranker=RerankerChoice.NONE).hits]

    def leftovers(self, current: Sequence[Document]) -> Leftovers:
        """Compare the chunk rows with the manifests of the live revisions."""
        return self._background.wait(self._leftovers([DocumentId(document.document_id) for document in current]))

    def _publish(self, changes: Sequence[DocumentChange]) -> None:
        self._background.wait(self._published(changes))

    async def _published(self, changes: Iterable[DocumentChange]) -> None:
        sent = 0
        for change in changes:
            self._receipts.expect(change)
            await self._publisher.publish(change)
            sent += 1
        for _ in range(sent):
            outcome = await self._receipts.next(patience_s=PATIENCE_S)
            if outcome.status in {OutcomeStatus.REJECTED, OutcomeStatus.STALE}:
                raise RuntimeError(f"{outcome.document_id} is {outcome.status.lower()}: {outcome.reason}")
            self.embedded += outcome.embedded

    def _ask(
        self, question: str, *, reranker: RerankerChoice | None, filters: tuple[Filter, ...] = ()
    ) -> ContextResult:
        query = ContextQuery(
            query_id=QueryId(str(uuid.uuid4())),
            tenant=TENANT,
            text=question,
            asked_at=wall_clock(),
            deadline_ms=DEADLINE_MS,
            top_k=HITS,
            filters=filters,
            reranker=reranker,
            rerank_candidates=CANDIDATES,
        )
        return self._background.wait(self._asker.ask(query, patience_s=PATIENCE_S))

    async def _leftovers(self, current: Sequence[DocumentId]) -> Leftovers:
        async with open_index(self._settings) as index:
            roots = await index.roots([root_id(TENANT, name) for name in current])
            live = {key: root for key, root in roots.items() if not root.deleted}
            pages = await index.pages([page_id for root in live.values() for page_id in root.pages])
            named = {entry.row_id for page in pages.values() for entry in page.entries}
            there = {head.row_id async for some in index.all_rows() for _, head in some}
        unknown = len(current) - len(live)
        return Leftovers(rows=len(there), left=len(there - named), missing=len(named - there) + unknown)


def change_of(document: Document) -> DocumentChange:
    """Return the upsert of a document."""
    return DocumentChange(
        tenant=TENANT,
        document_id=DocumentId(document.document_id),
        operation=Operation.UPSERT,
        version=document.version,
        occurred_at=Timestamp(document.version),
        name=document.title,
        media_type=document.media_type,
        principals=(EVERYONE,),
        content=document.text,
    )


def _deletion(name: str) -> DocumentChange:
    return DocumentChange(
        tenant=TENANT,
        document_id=DocumentId(name),
        operation=Operation.DELETE,
        version=_DELETED,
        occurred_at=wall_clock(),
    )
