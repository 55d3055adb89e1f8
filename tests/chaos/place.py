"""Broker and store of a run: the local stack's, or brokers of Apache Kafka that faults may hit."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from freki.infra.local.ports import LOOPBACK
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import environment_for, settings_for
from freki.infra.settings import MilvusSettings, Settings, TelemetrySettings
from freki.streams.wire.provision import apply_topics
from tests.chaos.delay import delayed
from tests.cluster import Cluster, can_mount, cluster
from tests.stack import free_port, serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where workers and clients find both."""

    settings: Settings
    environment: Mapping[str, str]
    """Makes a worker read the same settings."""
    slow_store: str
    """URI that leads to the store with the delay of a network."""
    cluster: Cluster | None = None
    small_disk: int = 0
    """Number of the broker whose disk can be filled; 0: none."""


@asynccontextmanager
async def local_place(settings: Settings) -> AsyncIterator[Place]:
    """Start the local stack without workers."""
    async with LocalStack(settings, report=lambda _: None, prepare=apply_topics, workers=[]) as stack:
        here = settings_for(settings, stack.state)
        async with delayed(LOOPBACK, stack.state.ports.store) as slow:
            yield Place(settings=here, environment=environment_for(settings, stack.state), slow_store=slow)


@asynccontextmanager
async def cluster_place(settings: Settings, directory: Path, brokers: int) -> AsyncIterator[Place]:
    """Start brokers of Apache Kafka, and the store of the local stack."""
    small, port = brokers if can_mount() else 0, free_port()
    for name in ("run", "claims", "traces"):
        (directory / name).mkdir(parents=True)
    async with (
        cluster(directory, brokers=brokers, small_disk=small) as running,
        delayed(LOOPBACK, port) as slow,
    ):
        with serving(directory / "freki.db", port):
            here = settings.model_copy(
                update={
                    "kafka": running.settings,
                    "milvus": MilvusSettings(uri=f"http://{LOOPBACK}:{port}"),
                    "telemetry": TelemetrySettings(trace_dir=directory / "traces"),
                }
            )
            await apply_topics(here)
            await running.healthy()
            environment = {
                "FREKI_KAFKA__BOOTSTRAP": here.kafka.bootstrap,
                "FREKI_KAFKA__PROFILE": here.kafka.profile,
                "FREKI_KAFKA__REPLICATION": str(here.kafka.replication),
                "FREKI_MILVUS__URI": here.milvus.uri,
                "FREKI_TELEMETRY__HTTP_PORT": "0",
                "FREKI_TELEMETRY__TRACE_DIR": str(directory / "traces"),
                "FREKI_CLAIMS__DIRECTORY": str(directory / "claims"),
            }
            yield Place(settings=here, environment=environment, slow_store=slow, cluster=running, small_disk=small)
