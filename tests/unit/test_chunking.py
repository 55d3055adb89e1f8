"""Documents that are in work together."""

import asyncio
from collections.abc import Callable

from freki.infra.claims import ClaimStore
from freki.infra.models.fake import FakeEmbedder
from freki.infra.settings import ChunkingSettings, ClaimSettings
from freki.schemas import ChunkBatch, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.streams.deliver.delivery import Handle
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.ingest.chunk import Chunker, chunk_handler
from freki.streams.ingest.outline import Outliner, OutlineRules
from freki.streams.ingest.parse import Parse, Parsed
from freki.streams.messages import Received
from freki.streams.observe.tracing import UNTRACED
from freki.streams.wire.from_settings import limits_of
from tests.parsing import parse_here
from tests.received import received
from tests.unit.deliveries import FakeProducer


def handler(parse: Parse, producer: FakeProducer, *, at_once: int) -> Handle[DocumentChange | None]:
    stage = Chunker(
        claims=ClaimStore(ClaimSettings()),
        outliner=Outliner(
            OutlineRules(limits=limits_of(ChunkingSettings())), parse=parse, count_tokens=FakeEmbedder().count_tokens
        ),
        part_chunks=4,
        now=lambda: Timestamp(3_000),
    )
    outbox = Outbox(producer, UNTRACED)
    return chunk_handler(stage, Sink(outbox, "chunks", Codec(ChunkBatch).encode), max_in_flight=at_once)


def arrived(name: str, priority: int = 0) -> Received[DocumentChange | None]:
    change = DocumentChange(
        tenant=TenantId("acme"),
        document_id=DocumentId(name),
        operation=Operation.UPSERT,
        version=1,
        occurred_at=Timestamp(1_000),
        priority=priority,
        content="Text",
    )
    return received(change, Timestamp(2_000))


def after(first: Callable[[str], asyncio.Event], then: Callable[[str], asyncio.Event]) -> Parse:
    """Parse once one event is set, then set another."""

    async def parse(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        await first(name).wait()
        parsed = await parse_here(name, media_type, content)
        then(name).set()
        return parsed

    return parse


async def test_a_document_that_takes_long_does_not_hold_up_the_parsing_of_the_next_but_is_sent_first() -> None:
    done = {name: asyncio.Event() for name in ("none", "slow.txt", "quick.txt")}
    done["none"].set()
    producer = FakeProducer()
    handle = handler(
        after(lambda name: done["quick.txt" if name == "slow.txt" else "none"], lambda name: done[name]),
        producer,
        at_once=2,
    )

    await handle([arrived("slow.txt"), arrived("quick.txt")])

    assert [sent.key for sent in producer.to("chunks")] == [b"acme/slow.txt", b"acme/quick.txt"]


async def test_no_more_documents_are_in_work_than_asked_for() -> None:
    producer = FakeProducer()
    seen: list[tuple[str, int]] = []

    async def parse(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        seen.append((name, len(producer.to("chunks"))))
        return await parse_here(name, media_type, content)

    await handler(parse, producer, at_once=1)([arrived("a"), arrived("b"), arrived("c", priority=1)])

    # Each begins when those before it are sent.
    assert seen == [("c", 0), ("a", 1), ("b", 2)]
