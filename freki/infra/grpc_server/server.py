"""The server of the gRPC API, with health and reflection."""

import grpc
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from freki.infra.api.callers import Callers, check_tokens
from freki.infra.api.certificate import Certificate
from freki.infra.api.gateway import Gateway
from freki.infra.api.sizes import QuerySizes
from freki.infra.grpc_server import freki_service, wolf_service
from freki.infra.grpc_server.freki_service import FrekiService
from freki.infra.grpc_server.unauthenticated import HealthService, OpenCalls, ReflectionService
from freki.infra.grpc_server.unread import Unread
from freki.infra.grpc_server.wolf_service import WolfService
from freki.infra.settings import ServeSettings
from freki.infra.tokens.verifier import MAX_BYTES as MOST_TOKEN_BYTES
from freki.schemas.errors import Misconfigured

LEAST_PING_INTERVAL_MS = 10_000
"""Least interval of a client's pings while no call is under way."""
MOST_IDLE_MS = 600_000
"""Time without a call after which a connection ends; clients reconnect with their next call by themselves."""
MOST_MESSAGE_BYTES = 2**31 - 1
"""Largest message of gRPC, which counts bytes in 32 bits."""
MOST_AGE_MS = 3_600_000
"""Age at which a connection takes no further call; clients reconnect with their next one by themselves."""
MOST_GRACE_MS = 900_000
"""Time for the calls of such a connection: the longest ones take a document, and wait for its receipt.

What its client has not taken by then is freed.
"""
MOST_METADATA_BYTES = 2 * MOST_TOKEN_BYTES
"""Most metadata of a call: the longest token, and others. By default gRPC refuses some calls from 8 KiB on."""
SERVICES = (freki_service.SERVICE, wolf_service.SERVICE)


class GrpcServer:
    """Server of all services on one port, in the event loop of the process."""

    def __init__(
        self,
        gateway: Gateway,
        settings: ServeSettings,
        *,
        tenant: str,
        callers: Callers,
        sizes: QuerySizes,
        certificate: Certificate | None,
    ) -> None:
        """Create a server that does not listen yet.

        tenant: of calls that name none; certificate: None: calls are not encrypted. Raises Misconfigured if
        callers are believed and other machines could call.
        """
        check_tokens(settings, tokens=callers.have_tokens)
        self._settings = settings
        self._certificate = certificate
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", min(MOST_MESSAGE_BYTES, int(settings.max_body_mb * 1_000_000))),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", MOST_METADATA_BYTES),
                # Anybody can open connections, also without a token.
                ("grpc.max_connection_idle_ms", MOST_IDLE_MS),
                ("grpc.max_connection_age_ms", MOST_AGE_MS),
                ("grpc.max_connection_age_grace_ms", MOST_GRACE_MS),
                # Services that watch their connections ping when idle, which would end a connection by default.
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", LEAST_PING_INTERVAL_MS),
                # Else a second server would take half of the calls of the first one.
                ("grpc.so_reuseport", 0),
            ]
        )
        calls, unread = OpenCalls(), Unread()
        self._health = HealthService(("", *SERVICES), calls, sizes=sizes)
        listed = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        documents = FrekiService(gateway, callers, tenant=tenant, sizes=sizes, unread=unread)
        prompts = WolfService(gateway, callers, tenant=tenant, sizes=sizes, unread=unread)
        services = {
            freki_service.SERVICE: documents.handlers(),
            wolf_service.SERVICE: prompts.handlers(),
            health.SERVICE_NAME: self._health.handlers(),
            reflection.SERVICE_NAME: ReflectionService(listed, calls).handlers(),
        }
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(name, methods) for name, methods in services.items()]
        )

    async def start(self) -> int:
        """Listen, and return the port. Raises Misconfigured if it is taken."""
        port = self._bind()
        await self._server.start()
        return port

    async def stop(self, grace_s: float) -> None:
        """Take no further call, and return when those under way are answered, or cancelled after `grace_s` seconds."""
        self._health.stop()
        await self._server.stop(grace_s)

    def _bind(self) -> int:
        settings = self._settings
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"{host}:{settings.grpc_port or 0}"
        try:
            if self._certificate is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, _credentials(self._certificate)))
        except RuntimeError as error:
            raise Misconfigured(
                f"gRPC cannot listen at {address}; is the port taken? FREKI_SERVE__GRPC_PORT names another one,"
                " or `none`"
            ) from error


def _credentials(certificate: Certificate) -> grpc.ServerCredentials:
    """Return the credentials that give each connection the certificate of the time."""
    used = certificate.pem

    def changed() -> object:
        # Called by threads of gRPC before each handshake; None: as before.
        nonlocal used
        if certificate.pem == used:
            return None
        used = certificate.pem
        return grpc.ssl_server_certificate_configuration([used])

    return grpc.dynamic_ssl_server_credentials(grpc.ssl_server_certificate_configuration([used]), changed)
