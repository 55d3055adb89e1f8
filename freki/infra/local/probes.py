"""Readiness probes of local servers."""

import asyncio

import grpc

from freki.infra.local.ports import LOOPBACK

PROBE_TIMEOUT_S = 1.0

# ApiVersions, version 0, correlation id 1, no client id: the first request of every Kafka client.
_API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
_NO_ERROR = bytes.fromhex("00000001 0000")

_SHOW_COLLECTIONS = "/milvus.proto.milvus.MilvusService/ShowCollections"


async def broker_answers(port: int) -> bool:
    """Return whether a Kafka broker answers on the port."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(_API_VERSIONS)
                size = int.from_bytes(await reader.readexactly(4))
                return (await reader.readexactly(size)).startswith(_NO_ERROR)
            finally:
                writer.close()
    except (OSError, EOFError):
        return False


async def store_answers(port: int) -> bool:
    """Return whether Milvus answers on the port; raw gRPC, since importing its client takes half a second."""
    try:
        async with grpc.aio.insecure_channel(f"{LOOPBACK}:{port}") as channel:
            await channel.unary_unary(_SHOW_COLLECTIONS)(b"", timeout=PROBE_TIMEOUT_S)
    except grpc.aio.AioRpcError:
        return False
    return True
