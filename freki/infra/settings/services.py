"""Settings of what runs beside the stages: telemetry, the tool server for agents, the local stack."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from freki.infra.settings.section import RELOADS, Network, SecretFile, ServerUrl, SettingsSection, TenantPrincipal


class TelemetrySettings(SettingsSection):
    """Export of traces, metrics and logs."""

    otlp_endpoint: ServerUrl | None = Field(
        default=None, description="OTLP/HTTP base URL, such as http://localhost:4318"
    )
    otlp_metrics: bool = Field(default=True, description="Send metrics there too; some take traces only")
    trace_dir: Path | None = Field(default=None, description="Directory for traces as JSON lines")
    trace_share: float = Field(
        default=1.0, ge=0, le=1, description="Share of traces that are kept, 0..1", json_schema_extra=RELOADS
    )
    content: bool = Field(default=False, description="May traces hold text of queries and documents?")
    candidates: bool = Field(
        default=False,
        description="Log of each query which candidates were found and not shown, by step and reason; ids, no text",
    )
    service_name: str = Field(default="freki", description="First part of the service name in traces")
    http_host: str = Field(default="127.0.0.1", description="Where a worker listens for `/metrics` and `/health`")
    http_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port of `/metrics` and `/health`; 0: a free one, as always in `freki up`; none: not served",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Minimum level logged", json_schema_extra=RELOADS
    )
    log_format: Literal["console", "json"] = Field(
        default="console", description="For people, or for machines", json_schema_extra=RELOADS
    )


class McpSettings(SettingsSection):
    """Server of `freki mcp` for agents; `docs/tools.md` explains it."""

    principals: tuple[str, ...] = Field(
        default=(), description="Users and groups in whose name agents ask, as JSON; none: what everyone may read"
    )
    host: str = Field(
        default="127.0.0.1", description="With `--http`: address to listen on; other than loopback needs a token"
    )
    port: int = Field(default=8765, ge=1, le=65535, description="With `--http`")
    token: SecretStr | None = Field(default=None, description="With `--http`: what clients send as bearer token")
    token_file: SecretFile = Field(default=None, description="File that holds it")
    url: ServerUrl | None = Field(
        default=None,
        description="With `--http` and FREKI_AUTH__JWKS: URL of `/mcp` for clients; none: where it listens",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="With `--http`: more names, `host:port`, by which clients may call, as JSON"
    )


class ServeSettings(SettingsSection):
    """Server of `freki serve`: HTTP and gRPC for services, and a page for people; `docs/serve.md` explains it.

    The limits of calls, and the proxies, also count for `freki mcp --http`.
    """

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; other than loopback needs FREKI_AUTH__JWKS"
    )
    port: int = Field(default=8780, ge=0, le=65535, description="Of HTTP; 0: a free one")
    grpc_port: int | None = Field(
        default=8781, ge=0, le=65535, description="Of gRPC; 0: a free one; none: gRPC is not served"
    )
    direct: bool = Field(
        default=False,
        description="Answer in this process, with models and store of its own, instead of over the topics",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="More names, without a port, by which clients may call, as JSON",
        json_schema_extra=RELOADS,
    )
    cert_file: Path | None = Field(
        default=None, description="PEM file of the server's certificate, read again when it changes; none: no TLS"
    )
    key_file: Path | None = Field(default=None, description="PEM file of its private key, read again too")
    publishers: tuple[TenantPrincipal, ...] = Field(
        default=(),
        description="With FREKI_AUTH__JWKS: who may publish and delete documents here, as JSON of tenant/user or"
        ' tenant/group: `["acme/editors"]`',
        json_schema_extra=RELOADS,
    )
    max_body_mb: float = Field(
        default=64.0, gt=0, description="Largest request; gRPC takes it at the start", json_schema_extra=RELOADS
    )
    calls_per_minute: int = Field(
        default=0,
        ge=0,
        description="Maximum number of calls of one user, else of one address, also of `freki mcp --http`; 0: any",
        json_schema_extra=RELOADS,
    )
    operators: tuple[TenantPrincipal, ...] = Field(
        default=(),
        description="With FREKI_AUTH__JWKS: who may see workers, lag and receipts of all tenants and replay dead"
        ' letters, as JSON of tenant/user or tenant/group: `["acme/operators"]`; without: who is on this machine',
        json_schema_extra=RELOADS,
    )
    workers: tuple[ServerUrl, ...] = Field(
        default=(),
        description="Endpoints of workers for the page of operators, beside those of the local stack, as JSON:"
        ' `["http://10.0.0.7:9464"]`',
        json_schema_extra=RELOADS,
    )
    failures_per_minute: int = Field(
        default=60,
        ge=0,
        description="Maximum number of calls without a valid token from one address, or IPv6 /64 network; then "
        "its tokens are not checked at all. Clients behind a proxy that is not in FREKI_SERVE__TRUSTED_PROXIES count "
        "as one. 0: any",
        json_schema_extra=RELOADS,
    )
    trusted_proxies: tuple[Network, ...] = Field(
        default=(),
        description="Addresses or networks of reverse proxies whose X-Forwarded-For tells the address of the client, as"
        ' JSON: `["127.0.0.1", "10.0.0.0/24"]`; they must append to it, or replace it',
        json_schema_extra=RELOADS,
    )

    @model_validator(mode="after")
    def _check_pair(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("FREKI_SERVE__CERT_FILE and FREKI_SERVE__KEY_FILE go together: set both, or none")
        if self.port and self.port == self.grpc_port:
            raise ValueError(f"FREKI_SERVE__PORT and FREKI_SERVE__GRPC_PORT are both {self.port}: change one of them")
        return self


_FEW_CORES = 2
"""Cores with which processes beside each other are hardly faster than one."""


class LocalSettings(SettingsSection):
    """Local stack of `freki up`."""

    state_dir: Path = Field(default=Path(".freki"), description="Everything that the local stack keeps")
    broker: Literal["tansu", "kafka"] = Field(
        default="tansu",
        description="`tansu` comes with the packages and keeps its records in memory; `kafka` is Apache Kafka, which "
        "keeps them on disk: it wants Java 17 and is fetched with Maven",
    )
    kafka_libs: Path | None = Field(
        default=None,
        description="Folder with the jar files of an Apache Kafka 4, its `libs`; none: fetched from Maven Central once",
    )
    broker_port: int = Field(default=0, ge=0, le=65535, description="0: a free one")
    store_port: int = Field(default=0, ge=0, le=65535, description="0: a free one")
    embed_workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes that embed, up to one for each partition; they share the cores, unless"
        " `FREKI_MODELS__THREADS` says how many each uses",
    )
    single_worker: bool | None = Field(
        default=None,
        description="Run all stages in one process, which loads the model once: half the memory, but answers wait for"
        " the Python code of indexing. Default: where the machine has at most two cores",
    )

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        if self.broker_port and self.broker_port == self.store_port:
            raise ValueError(
                f"FREKI_LOCAL__BROKER_PORT and FREKI_LOCAL__STORE_PORT are both {self.store_port}: change one of them"
            )
        return self

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        if self.single_worker and self.embed_workers > 1:
            raise ValueError(
                f"FREKI_LOCAL__SINGLE_WORKER has one process that embeds, FREKI_LOCAL__EMBED_WORKERS is"
                f" {self.embed_workers}: unset one of them"
            )
        return self

    def has_single_worker(self, *, cores: int) -> bool:
        """Return whether all stages run in one process on a machine with so many cores."""
        if self.single_worker is None:
            return cores <= _FEW_CORES and self.embed_workers == 1
        return self.single_worker

    def elsewhere(self, state_dir: Path) -> "LocalSettings":
        """Return the settings of another local stack of the same programs, which can run beside this one."""
        return LocalSettings(
            state_dir=state_dir,
            broker=self.broker,
            kafka_libs=self.kafka_libs,
            single_worker=self.single_worker,
        )
