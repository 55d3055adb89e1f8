"""Documents that are in work together."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from freki.infra.claims import ClaimStore
from freki.infra.models.fake import FakeEmbedder
from freki.infra.settings import ChunkingSettings, ClaimSettings
from freki.operators.chunk import Similarities
from freki.operators.errors import InvalidChange, UnreadableContent
from freki.schemas import ChunkBatch, ContextualChunkBatch, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.errors import Unavailable
from freki.streams.deliver.delivery import Handle
from freki.streams.deliver.lanes import PRIORITY_HEADER
from freki.streams.deliver.outbox import Sink
from freki.streams.ingest.chunk import Chunker, chunk_handler
from freki.streams.ingest.contextualise import contextualise
from freki.streams.ingest.outline import Outliner, OutlineRules
from freki.streams.ingest.parse import LIGHT_LENGTH, Parse, Parsed
from freki.streams.messages import REINDEX_HEADER, Outgoing, Received
from freki.streams.ports import Scanner
from freki.streams.wire.rules import limits_of
from tests.parsing import parse_here
from tests.received import received

LONG = "langes " * (LIGHT_LENGTH // 6)
SMALLEST_RECORD_LIMIT = 1_000_000
"""In bytes."""


class Sends:
    """An outbox that keeps what each call sends; each takes until `may_end` is set."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.records: list[Outgoing] = []
        self._new: asyncio.Queue[list[str]] = asyncio.Queue()
        self.may_end = asyncio.Event()
        self.may_end.set()

    @property
    def sent(self) -> list[str]:
        return [name for call in self.calls for name in call]

    async def next(self) -> list[str]:
        """Return the next call, as soon as it is made."""
        async with asyncio.timeout(60):
            return await self._new.get()

    async def send(self, *records: Outgoing) -> None:
        self.calls.append([(record.key or b"").decode() for record in records])
        self.records += records
        self._new.put_nowait(self.calls[-1])
        await self.may_end.wait()


class TellingChunker(Chunker):
    """A chunker that tells when a document is chunked."""

    def __init__(self, revised: Mapping[bytes, asyncio.Event], **parts: Any) -> None:
        super().__init__(**parts)
        self._revised = revised

    async def revise(self, received: Received[DocumentChange | None]) -> list[ChunkBatch]:
        parts = await super().revise(received)
        if received.key in self._revised:
            self._revised[received.key].set()
        return parts


def handler(
    parse: Parse,
    sends: Sends,
    *,
    scanner: Scanner | None = None,
    similarities: Similarities | None = None,
    revised: Mapping[bytes, asyncio.Event] | None = None,
) -> Handle[DocumentChange | None]:
    chunker = TellingChunker(
        revised or {},
        claims=ClaimStore(ClaimSettings()),
        outliner=Outliner(
            OutlineRules(limits=limits_of(ChunkingSettings())),
            parse=parse,
            count_tokens=FakeEmbedder().count_tokens,
            similarities=similarities,
        ),
        part_chunks=10_000,
        now=lambda: Timestamp(3_000),
        scanner=scanner,
    )
    return chunk_handler(chunker, Sink(sends, "chunks", Codec(ChunkBatch).encode))


def arrived(
    name: str, priority: int = 0, *, content: str | bytes = "Text", version: int = 1
) -> Received[DocumentChange | None]:
    change = DocumentChange(
        tenant=TenantId("acme"),
        document_id=DocumentId(name),
        operation=Operation.UPSERT,
        version=version,
        occurred_at=Timestamp(1_000),
        priority=priority,
        content=content,
    )
    return received(change, Timestamp(2_000))


class Gates:
    """Parsing that waits for the gates of some documents, and notes what it has begun."""

    def __init__(self, *closed: str) -> None:
        self.gates = {name: asyncio.Event() for name in closed}
        self.begun: list[str] = []

    async def parse(self, name: str, media_type: str | None, content: str | bytes) -> Parsed:
        self.begun.append(name)
        if name in self.gates:
            await self.gates[name].wait()
        return await parse_here(name, media_type, content)


@pytest.mark.parametrize("value", [None, arrived("caf\ufffd").value])
async def test_a_key_that_is_no_text_names_no_document_not_even_one_whose_name_looks_like_it(
    value: DocumentChange | None,
) -> None:
    sends = Sends()
    record = replace(arrived("caf\ufffd"), key=b"acme/caf\xe9", value=value)

    with pytest.raises(InvalidChange, match=r"^key: b'acme/caf.*' is not UTF-8"):
        await handler(parse_here, sends)([record])

    assert sends.sent == []


async def test_a_document_that_takes_long_holds_up_none_of_its_batch() -> None:
    gates, sends = Gates("slow"), Sends()

    handled = asyncio.ensure_future(handler(gates.parse, sends)([arrived("slow"), arrived("quick")]))

    assert await sends.next() == ["acme/quick"]
    gates.gates["slow"].set()
    assert await sends.next() == ["acme/slow"]
    await handled


async def test_documents_that_are_chunked_while_others_are_sent_are_sent_together() -> None:
    gates, sends = Gates("b", "c", "d"), Sends()
    sends.may_end.clear()
    revised = {f"acme/{name}".encode(): asyncio.Event() for name in "bcd"}
    handle = handler(gates.parse, sends, revised=revised)

    handled = asyncio.ensure_future(handle([arrived(name) for name in "abcd"]))

    assert await sends.next() == ["acme/a"]
    async with asyncio.timeout(60):
        for name in "bcd":
            gates.gates[name].set()
            await revised[f"acme/{name}".encode()].wait()
    sends.may_end.set()
    assert await sends.next() == ["acme/b", "acme/c", "acme/d"]
    await handled


async def test_changes_of_one_document_stay_in_order() -> None:
    sends, versions = Sends(), []

    async def parse(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        versions.append(content)
        # The earlier, the longer.
        await asyncio.sleep(0.05 / len(versions))
        return await parse_here(name, media_type, content)

    batch = [arrived("a", content=f"Text {version}", version=version) for version in (1, 2, 3)]
    await handler(parse, sends)([batch[0], arrived("b"), *batch[1:]])

    assert [text for text in versions if text != "Text"] == ["Text 1", "Text 2", "Text 3"]
    decode = Codec(ChunkBatch).decode
    assert [decode(each.value or b"").revision.version for each in sends.records if each.key == b"acme/a"] == [1, 2, 3]
    assert sorted(sends.sent) == ["acme/a", "acme/a", "acme/a", "acme/b"]


class Clean:
    engine = "clean"

    async def scan(self, content: bytes) -> None:
        """Find nothing."""


def alike(texts: Sequence[str]) -> Sequence[float]:
    return [1.0] * (len(texts) - 1)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        pytest.param(LONG, {}, id="long text"),
        pytest.param(b"Text", {}, id="bytes, which may be a scan"),
        pytest.param("Text", {"scanner": Clean()}, id="text that a process scans"),
        pytest.param("Text", {"similarities": alike}, id="text that a model is asked for"),
    ],
)
async def test_no_more_documents_that_take_long_are_in_work_than_asked_for(
    content: str | bytes, options: dict[str, Any]
) -> None:
    sends = Sends()
    seen: list[tuple[str, list[str]]] = []

    async def parse(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        seen.append((name, sends.sent))
        return await parse_here(name, media_type, content)

    await handler(parse, sends, **options)([arrived(name, priority=name == "c", content=content) for name in "abc"])

    # Each begins when those before it are sent.
    assert seen == [("c", []), ("a", ["acme/c"]), ("b", ["acme/c", "acme/a"])]


async def test_a_priority_in_the_headers_orders_as_one_in_the_change() -> None:
    gates, sends = Gates(), Sends()
    plain = arrived("plain", priority=1, content=LONG)
    urgent = replace(arrived("urgent", content=LONG), headers=((PRIORITY_HEADER, b"2"),))
    anew = replace(arrived("anew", content=LONG), headers=((PRIORITY_HEADER, b"3"), (REINDEX_HEADER, b"1")))

    await handler(gates.parse, sends)([anew, plain, urgent])

    assert gates.begun == ["urgent", "plain", "anew"]


async def test_short_documents_wait_for_no_long_one() -> None:
    gates, sends = Gates("long"), Sends()

    batch = [arrived("long", content=LONG), arrived("other", content=LONG), arrived("a")]
    handled = asyncio.ensure_future(handler(gates.parse, sends)(batch))

    assert await sends.next() == ["acme/a"]
    assert gates.begun == ["long", "a"]
    gates.gates["long"].set()
    await handled
    assert sends.sent == ["acme/a", "acme/long", "acme/other"]


async def test_the_error_of_a_document_ends_the_batch() -> None:
    gates, sends = Gates("never"), Sends()

    async def parse(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        if name == "bad":
            raise UnreadableContent("bad")
        return await gates.parse(name, media_type, content)

    with pytest.raises(UnreadableContent, match=r"^bad$"):
        async with asyncio.timeout(60):
            await handler(parse, sends)([arrived("never"), arrived("bad")])

    assert sends.calls == []


async def test_the_error_of_sending_ends_the_batch() -> None:
    class Down(Sends):
        async def send(self, *records: Outgoing) -> None:  # noqa: ARG002 - it fails for all
            raise Unavailable("broker")

    gates = Gates("never")

    with pytest.raises(Unavailable, match=r"^broker$"):
        async with asyncio.timeout(60):
            await handler(gates.parse, Down())([arrived("a"), arrived("never")])


async def test_a_batch_with_a_cancelled_document_does_not_count_as_done() -> None:
    async def parse(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        if name == "b":
            raise asyncio.CancelledError
        return await parse_here(name, media_type, content)

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await handler(parse, Sends())([arrived("a"), arrived("b")])


async def test_a_batch_whose_sending_is_cancelled_does_not_count_as_done() -> None:
    class Closed(Sends):
        async def send(self, *records: Outgoing) -> None:  # noqa: ARG002 - it fails for all
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await handler(parse_here, Closed())([arrived("a"), arrived("b")])


async def test_a_part_with_its_contexts_fits_the_smallest_record_limit_whatever_its_chunks_carry() -> None:
    sends = Sends()
    headings = "".join(
        f"<div role='heading' aria-level='{level}'>{chr(0x20000 + level) * 200}</div>" for level in range(1, 12)
    )
    words = ("𠀀 " * 40 + f"{number} {number * number}" for number in range(600))
    page = headings + "".join(f"<p>{paragraph}</p>" for paragraph in words)

    await handler(parse_here, sends)([arrived("a", content=f"<html><body>{page}</body></html>")])

    parts = [Codec(ChunkBatch).decode(record.value) for record in sends.records if record.value]
    sizes = [len(Codec(ContextualChunkBatch).encode(contextualise(part))) for part in parts]
    assert len(parts[0].chunks) > 1
    assert max(*sizes, *(len(record.value or b"") for record in sends.records)) < SMALLEST_RECORD_LIMIT
