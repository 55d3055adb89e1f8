"""Health and reflection of the gRPC API. They need no token, so each address may have only so many calls open."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

from freki.infra.api.callers import network_of
from freki.infra.api.sizes import QuerySizes
from freki.infra.grpc_server.calls import CallFailed, address_of, read_message, telling

MOST_OPEN: Final = 50
"""Most calls of one address, or IPv6 /64 network, that are open at once: each may hold a message of any size."""


class OpenCalls:
    """Counts the calls of each address that are open."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @asynccontextmanager
    async def entered(self, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[None]:
        """Count a call while it is open, and end it with a status for each error, such as one call too many."""
        async with telling(context):
            with self._counted(network_of(address_of(context.peer()))):
                yield

    @contextmanager
    def _counted(self, network: str) -> Iterator[None]:
        if self._open[network] >= MOST_OPEN:
            detail = f"{MOST_OPEN} calls of your address for health or reflection are open already: end some"
            raise CallFailed(grpc.StatusCode.RESOURCE_EXHAUSTED, detail, reason="TOO_MANY", retry_after_s=1)
        self._open[network] += 1
        try:
            yield
        finally:
            self._open[network] -= 1
            if not self._open[network]:
                del self._open[network]


class HealthService:
    """The service `grpc.health.v1.Health`: all services have one status.

    Not that of grpcio-health-checking, which writes under a lock: one watcher that does not read stops all others, and
    the end of the server.
    """

    def __init__(self, services: Sequence[str], calls: OpenCalls, *, sizes: QuerySizes) -> None:
        """Create it; services: names that are known."""
        self._services = frozenset(services)
        self._calls = calls
        self._sizes = sizes
        self._stopping = asyncio.Event()

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handler of each method."""
        written = HealthCheckResponse.SerializeToString
        return {
            "Check": grpc.stream_unary_rpc_method_handler(self._check, None, written),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch, None, written),
        }

    def stop(self) -> None:
        """Say NOT_SERVING from now on; whoever watches is told, and watches no longer."""
        self._stopping.set()

    async def _check(
        self, messages: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, Any]"
    ) -> HealthCheckResponse:
        async with self._calls.entered(context):
            service = await self._named(messages)
            if service not in self._services:
                raise CallFailed(grpc.StatusCode.NOT_FOUND, f"there is no service {service}", reason="NOT_FOUND")
            return self._response(service)

    async def _watch(
        self, messages: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, Any]"
    ) -> AsyncIterator[HealthCheckResponse]:
        async with self._calls.entered(context):
            service = await self._named(messages)
            if not self._stopping.is_set():
                yield self._response(service)
                await self._stopping.wait()
            yield self._response(service)

    async def _named(self, messages: AsyncIterator[bytes]) -> str:
        service: str = (await read_message(HealthCheckRequest, messages, self._sizes)).service
        return service

    def _response(self, service: str) -> HealthCheckResponse:
        status = HealthCheckResponse.NOT_SERVING if self._stopping.is_set() else HealthCheckResponse.SERVING
        return HealthCheckResponse(status=status if service in self._services else HealthCheckResponse.SERVICE_UNKNOWN)


class ReflectionService:
    """The service `grpc.reflection.v1alpha.ServerReflection`."""

    def __init__(self, services: Sequence[str], calls: OpenCalls) -> None:
        """Create it; services: names that it lists."""
        self._servicer = reflection.aio.ReflectionServicer(services)
        self._calls = calls

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handler of its method."""
        written = ServerReflectionResponse.SerializeToString
        return {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(self._reflect, None, written)}

    async def _reflect(
        self, messages: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, Any]"
    ) -> AsyncIterator[ServerReflectionResponse]:
        async with (
            self._calls.entered(context),
            aclosing(self._servicer.ServerReflectionInfo(_requests(messages), context)) as answers,
        ):
            async for answer in answers:
                yield answer


async def _requests(messages: AsyncIterator[bytes]) -> AsyncIterator[ServerReflectionRequest]:
    async for message in messages:
        try:
            yield ServerReflectionRequest.FromString(message)
        except DecodeError as error:
            raise CallFailed(grpc.StatusCode.INVALID_ARGUMENT, str(error), reason="INVALID") from error
