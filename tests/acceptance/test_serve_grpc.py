"""`freki serve` for services: gRPC beside HTTP, over the topics and within the process."""

import asyncio
import re
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
import pytest

from freki.schemas.proto.freki.v1 import freki_pb2, wolf_pb2
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import environment, until_asked

TEXT = "Die Hundegebühr beträgt zehn Euro im Jahr."
QUESTION = "Wie hoch ist die Hundegebühr?"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@dataclass
class Served:
    """A server process."""

    url: str
    grpc_address: str
    channel: grpc.aio.Channel
    process: asyncio.subprocess.Process

    def call(self, method: str, request: Any, response: Any, **how: Any) -> Any:
        return self.channel.unary_unary(f"/freki.v1.{method}", type(request).SerializeToString, response.FromString)(
            request, **how
        )

    def ask(self, **query: Any) -> Any:
        request = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(text=QUESTION, **query))
        metadata = (("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01"),)
        return self.call("Freki/RetrieveContext", request, freki_pb2.ContextResult, metadata=metadata, timeout=60)

    async def publish(self, name: str, text: str) -> None:
        document = freki_pb2.Document(document_id=name, text=text, principals=["everyone"])
        request = freki_pb2.IndexDocumentRequest(document=document, wait_ms=60_000)
        published = await self.call("Freki/IndexDocument", request, freki_pb2.ChangeResponse, timeout=90)
        assert published.receipt.status == freki_pb2.OUTCOME_STATUS_INDEXED

    async def delete(self, name: str) -> None:
        request = freki_pb2.DeleteDocumentRequest(document_id=name, wait_ms=60_000)
        deleted = await self.call("Freki/DeleteDocument", request, freki_pb2.ChangeResponse, timeout=90)
        assert deleted.receipt.status == freki_pb2.OUTCOME_STATUS_DELETED

    async def stream(self) -> list[Any]:
        """Ask; give each event."""
        streaming = self.channel.unary_stream(
            "/freki.v1.Freki/StreamContext",
            freki_pb2.RetrieveContextRequest.SerializeToString,
            freki_pb2.ContextEvent.FromString,
        )
        request = freki_pb2.RetrieveContextRequest(query=freki_pb2.ContextQuery(text=QUESTION, deadline_ms=30_000))
        return [event async for event in streaming(request)]


@asynccontextmanager
async def serving(freki: Freki, *arguments: str, tenant: str) -> AsyncIterator[Served]:
    free = {"FREKI_SERVE__PORT": "0", "FREKI_SERVE__GRPC_PORT": "0", "FREKI_TENANT": tenant}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "serve", *arguments),
        env=environment(freki) | free,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    said = b""
    while (found := re.search(rb"serving at (http://\S+)/ ", said)) is None:
        line = await process.stderr.readline()
        assert line, said
        said += line
    at = re.search(rb"gRPC at (\S+)", said)
    assert at is not None, said
    # Logs follow, and a full pipe would stop the process.
    logs = asyncio.create_task(process.stderr.read())
    async with grpc.aio.insecure_channel(at[1].decode()) as channel:
        yield Served(found[1].decode(), at[1].decode(), channel, process)
    if process.returncode is None:
        process.terminate()
    await process.wait()
    await logs


async def test_a_service_publishes_asks_and_deletes_over_grpc(freki: Freki) -> None:
    tenant = f"grpc-{secrets.token_hex(4)}"
    async with serving(freki, tenant=tenant) as served:
        await served.publish("hunde.md", TEXT)

        answers = await asyncio.gather(*(served.ask(top_k=n, deadline_ms=30_000) for n in range(1, 9)))
        assert {answer.hits[0].document_id for answer in answers} == {"hunde.md"}
        assert {answer.trace_id for answer in answers} == {TRACE}

        prompt = f"{QUESTION} " + "Bitte freundlich antworten. " * 40_000
        request = wolf_pb2.WolfRequest(request_id="1", prompt=prompt[:1_000_000])
        response = await served.call("Wolf/Enrich", request, wolf_pb2.WolfResponse, timeout=60)
        assert response.rag_context.documents[0].content == TEXT
        assert "the query has 1000000 characters" in response.metadata.error

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.ask(alpha=3)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "alpha" in str(refused.value.details())

        await served.delete("hunde.md")
        assert (await served.ask(deadline_ms=30_000)).status == freki_pb2.RESULT_STATUS_EMPTY
        with pytest.raises(grpc.aio.AioRpcError) as nothing:
            await served.call("Wolf/Enrich", request, wolf_pb2.WolfResponse, timeout=60)
        assert nothing.value.code() is grpc.StatusCode.NOT_FOUND

        # A call under way is answered, then the server ends.
        async with until_asked(freki, tenant) as is_under_way:
            last = asyncio.ensure_future(served.ask(deadline_ms=30_000))
            await is_under_way()
        served.process.send_signal(signal.SIGTERM)
        assert (await last).status == freki_pb2.RESULT_STATUS_EMPTY
        assert await served.process.wait() == 0


async def test_a_direct_call_gets_the_answer_of_the_topic_and_hears_its_steps_before(freki: Freki) -> None:
    tenant = f"direct-{secrets.token_hex(4)}"
    async with serving(freki, "--direct", tenant=tenant) as direct, serving(freki, tenant=tenant) as topics:
        await direct.publish("hunde.md", TEXT)

        asked = [served.ask(deadline_ms=30_000) for served in (direct, topics)]
        here, there = [[(hit.chunk_id, round(hit.score, 4)) for hit in (await each).hits] for each in asked]
        assert here == there != []

        for served in (direct, topics):
            events = await served.stream()
            assert [event.WhichOneof("event") for event in events[-2:]] == ["hit", "result"]
            assert events[0].step.stage == "analyse"
        question = {"text": QUESTION, "deadline_ms": 30_000}
        async with httpx.AsyncClient(base_url=direct.url, timeout=60) as client:
            names: list[str] = []
            async with client.stream("POST", "/v1/queries/stream", json=question) as reply:
                async for line in reply.aiter_lines():
                    names += [line.removeprefix("event: ")] if line.startswith("event: ") else []
            assert names[0] == "step"
            assert names[-2:] == ["hit", "result"]
            listed = (await client.get("/v1/documents")).json()
            assert [each["document_id"] for each in listed["documents"]] == ["hunde.md"]

        await direct.delete("hunde.md")
        assert (await direct.ask(deadline_ms=30_000)).status == freki_pb2.RESULT_STATUS_EMPTY
