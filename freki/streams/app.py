"""The pipeline on one screen: what each stage reads, does and sends, in flow order."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from freki.schemas import (
    ChunkBatch,
    ContextQuery,
    ContextualChunkBatch,
    DocumentChange,
    DocumentQuery,
    DocumentReport,
    ErasureReport,
    ErasureRequest,
    IndexOutcome,
)
from freki.streams.deliver.intake import Intake, or_tombstone, required
from freki.streams.deliver.lanes import Lane, in_lane, lanes_of
from freki.streams.deliver.stage import Batching, Stage
from freki.streams.documents.handler import reject_with_report
from freki.streams.ingest.chunk import chunk_handler
from freki.streams.ingest.contextualise import contextualise_handler
from freki.streams.ingest.embed import embed_handler
from freki.streams.privacy.requests import reject_with_erasure_report
from freki.streams.wire.erasing.serve import open_erasure_requests
from freki.streams.wire.parts import Parts

LANES = {
    "chunk": (Lane.EXPRESS, Lane.REGULAR),
    "contextualise": tuple(Lane),
    "embed": tuple(Lane),
    "retrieve": (Lane.REGULAR,),
    "erase": (Lane.REGULAR,),
}
"""Lanes of each stage; `deliver/lanes.py` assigns changes to lanes."""
STAGES = tuple(LANES)


async def chunk(parts: Parts, lane: Lane) -> Stage:
    """Split document changes into chunks. Each lane reads the whole topic, at its own pace."""
    decode = or_tombstone(parts.codec(DocumentChange).decode)
    intake = parts.intake(decode, accepts=lambda stored: lane in lanes_of(stored, decode))
    topics = parts.topics.chunks
    handle = chunk_handler(
        await parts.open_chunker(),
        parts.sink(ChunkBatch, topics[lane]),
        large=parts.sink(ChunkBatch, topics[Lane.BULK if lane is Lane.REGULAR else lane]),
        max_in_flight=parts.settings.parsing.processes,
    )
    name, batching = in_lane("chunk", lane), parts.batching(parses=True)
    return parts.stage(
        name, parts.topics.documents, intake, handle, group=name, on_dead_letter=parts.reject(), batching=batching
    )


async def contextualise(parts: Parts, lane: Lane) -> Stage:
    """Add to each chunk its position in the document as context."""
    intake: Intake[ChunkBatch] = parts.intake(required(parts.codec(ChunkBatch).decode))
    write_contexts = await parts.open_context_writer()
    handle = contextualise_handler(
        parts.sink(ContextualChunkBatch, parts.topics.contextual_chunks[lane]), write_contexts=write_contexts
    )
    return parts.stage(
        in_lane("contextualise", lane),
        parts.topics.chunks[lane],
        intake,
        handle,
        group="contextualise",
        on_dead_letter=parts.reject(),
        batching=parts.batching(calls_llm=write_contexts is not None),
    )


async def embed(parts: Parts, lane: Lane) -> Stage:
    """Embed chunks and commit revisions. All lanes share a group, so that one process writes a whole document.

    Batches of the regular lane overlap: a small change waits for no large one. Parts of one document, in the other
    lanes, come one batch after the other.
    """
    intake = parts.intake(required(parts.codec(ContextualChunkBatch).decode))
    receipts = parts.sink(IndexOutcome, parts.topics.outcomes)
    handle = embed_handler(await parts.open_indexer(), receipts, lane=lane, meters=parts.meters)
    name, source = in_lane("embed", lane), parts.topics.contextual_chunks[lane]
    batching = replace(parts.batching(), in_flight=OVERLAPPING_BATCHES[lane])
    return parts.stage(name, source, intake, handle, group="embed", on_dead_letter=parts.reject(), batching=batching)


async def retrieve(parts: Parts, _: Lane) -> Stage:
    """Answer context queries."""
    intake = parts.intake(required(parts.codec(ContextQuery).decode))
    serving = await parts.open_serving()
    batching = parts.query_batching()
    return parts.stage(
        "retrieve",
        parts.topics.queries,
        intake,
        serving.handle,
        group="retrieve",
        on_dead_letter=serving.give_up,
        batching=batching,
    )


OVERLAPPING_BATCHES = {Lane.EXPRESS: 1, Lane.REGULAR: 4, Lane.BULK: 1}
"""Batches of each lane that are indexed at a time."""
REPORTING = Batching(records=1, wait_s=0.0, in_flight=4)
"""Reports take long and differ in length: each is by itself, and a long one lets some pass."""
ALONE = Batching(records=1, wait_s=0.0)
"""One erasure at a time: each searches whole topics."""


async def document_queries(parts: Parts, _: Lane) -> Stage:
    """List documents, show them, and tell their history."""
    intake = parts.intake(required(parts.codec(DocumentQuery).decode))
    serving = await parts.open_serving()
    return parts.stage(
        "document-queries",
        parts.topics.document_queries,
        intake,
        serving.report,
        group="retrieve",
        on_dead_letter=reject_with_report(parts.sink(DocumentReport, parts.topics.document_reports)),
        batching=REPORTING,
    )


async def erase(parts: Parts, _: Lane) -> Stage:
    """Erase what is requested on a topic; needs FREKI_ERASURE__ENABLED."""
    intake = parts.intake(required(parts.codec(ErasureRequest).decode))
    requests = await open_erasure_requests(parts)
    return parts.stage(
        "erase",
        parts.topics.erasure_requests,
        intake,
        requests.handle,
        group="erase",
        on_dead_letter=reject_with_erasure_report(parts.sink(ErasureReport, parts.topics.erasure_reports)),
        batching=ALONE,
    )


FLOW: Mapping[str, Sequence[Callable[[Parts, Lane], Awaitable[Stage]]]] = {
    "chunk": (chunk,),
    "contextualise": (contextualise,),
    "embed": (embed,),
    "retrieve": (retrieve, document_queries),
    "erase": (erase,),
}


async def make_stages(parts: Parts, names: Collection[str]) -> list[Stage]:
    """Create stages by name, each in all of its lanes."""
    chosen = [(make, lane) for name in FLOW if name in names for make in FLOW[name] for lane in LANES[name]]
    stages = [await make(parts, lane) for make, lane in chosen]
    await parts.check_sources(stages)
    return stages
