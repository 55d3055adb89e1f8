"""Clients of a running Freki: those of `freki.client`, and an asker whose queries have spans."""

from collections.abc import AsyncIterable, Callable, Sequence

from opentelemetry.trace import SpanKind, Tracer

from freki.client.exchange import Asker as PlainAsker
from freki.client.exchange import DocumentAsker, Publisher, ReceiptBoard, Receipts
from freki.client.messages import Sink, Stored
from freki.schemas import ContextQuery, ContextResult
from freki.streams.observe.tracing import describe
from freki.streams.retrieve.trace import answered, asked

__all__ = ["Asker", "DocumentAsker", "Publisher", "ReceiptBoard", "Receipts"]


class Asker(PlainAsker):
    """Sender of queries that waits for their results; each has a span."""

    def __init__(
        self,
        *,
        queries: Sink[ContextQuery],
        answers: Sequence[AsyncIterable[Stored]],
        decode: Callable[[bytes], ContextResult],
        tracer: Tracer,
        content: bool = False,
        token: str | Callable[[], str] | None = None,
        id_of_token: Callable[[str], str | None] | None = None,
    ) -> None:
        """Create a sender; content: may spans hold texts?"""
        super().__init__(queries=queries, answers=answers, decode=decode, token=token, id_of_token=id_of_token)
        self._tracer = tracer
        self._content = content

    async def _sent(self, query: ContextQuery, *, patience_s: float, token: str | None) -> ContextResult:
        with self._tracer.start_as_current_span("ask", kind=SpanKind.CLIENT, record_exception=False) as span:
            describe(span, lambda: asked(query, content=self._content))
            result = await super()._sent(query, patience_s=patience_s, token=token)
            describe(span, lambda: answered(result, content=self._content))
            return result
