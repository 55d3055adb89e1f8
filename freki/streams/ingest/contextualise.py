"""Contextualise stage: add to each chunk its position in the document as context."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from opentelemetry.trace import get_current_span

from freki.operators.breadcrumb import VERSION, breadcrumb, context_key, joined
from freki.operators.define import explain
from freki.schemas import ChunkBatch, ContextualChunk, ContextualChunkBatch, Revision, RevisionOperation
from freki.streams.deliver.delivery import Handle
from freki.streams.deliver.outbox import Sink
from freki.streams.messages import Outgoing, Received, request_in
from freki.streams.observe import attributes
from freki.streams.observe.tracing import Attributes, describe, of_document

PLAIN = str(VERSION)
"""Fingerprint of contexts without text by a language model."""


class WriteContexts(Protocol):
    """Writer of contexts beyond name and headings."""

    def __call__(
        self, batch: Sequence[Received[ChunkBatch]]
    ) -> AsyncIterator[tuple[Received[ChunkBatch], ContextualChunkBatch]]:
        """Yield each part with its contexts as soon as they are ready, in order per document."""


def contextualise_handler(
    sink: Sink[ContextualChunkBatch], *, write_contexts: WriteContexts | None = None
) -> Handle[ChunkBatch]:
    """Return a handler that adds a context to each chunk and sends each part as soon as it is ready.

    write_contexts: None: derive contexts only from the part itself.
    """

    async def handle(batch: Sequence[Received[ChunkBatch]]) -> None:
        if write_contexts is None:
            await sink.send(*(outgoing(received, contextualise(received.value)) for received in batch))
            return
        async for received, part in write_contexts(batch):
            await sink.send(outgoing(received, part))

    def outgoing(received: Received[ChunkBatch], part: ContextualChunkBatch) -> Outgoing:
        describe(get_current_span(received.trace), partial(_described, part))
        return sink.record(part, key=received.key, trace=received.trace, headers=request_in(received.headers))

    return handle


def _described(part: ContextualChunkBatch) -> Attributes:
    return {**of_document(part.revision), attributes.FREKI_CHUNKS: len(part.chunks)}


def contextualise(batch: ChunkBatch, *, rules: str = PLAIN) -> ContextualChunkBatch:
    """Add document name, headings, explained abbreviations and header rows to the chunks of a part.

    rules: fingerprint of the rules of contexts, which becomes part of the revision's.
    """
    chunks = []
    for chunk in batch.chunks:
        explained = (
            explain(batch.definitions, "\n".join((*chunk.heading_path, chunk.text))) if batch.definitions else ""
        )
        beyond = "\n".join(lines for lines in (explained, chunk.header) if lines)
        context = joined(breadcrumb(batch.revision.name, chunk), beyond, "")
        chunks.append(ContextualChunk(chunk=chunk, context=context, context_key=context_key(beyond)))
    return ContextualChunkBatch(
        revision=situated(batch.revision, rules),
        part=batch.part,
        parts=batch.parts,
        chunks=tuple(chunks),
        windows=batch.windows,
    )


def situated(revision: Revision, rules: str) -> Revision:
    """Return a revision whose fingerprint covers the rules of contexts too; a deletion has none."""
    if revision.operation is not RevisionOperation.UPSERT:
        return revision
    return replace(revision, chunker=with_contexts(revision.chunker, rules))


def with_contexts(outline: str, rules: str) -> str:
    """Return the fingerprint of an outline whose chunks have contexts."""
    return f"{outline}+{rules}"
