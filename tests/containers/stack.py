"""Kafka and Milvus in containers of this machine's Docker engine: FREKI_TEST_STACK=containers."""

import asyncio
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import docker
import pytest
import yaml
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from docker.errors import DockerException, ImageNotFound
from pymilvus import MilvusClient
from pymilvus.exceptions import MilvusException
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import WaitStrategy, WaitStrategyTarget

from freki.infra.settings import KafkaSettings, MilvusSettings, Settings
from tests.containers.guard import guarded
from tests.stack import free_port, own_collections, own_topics

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"
KAFKA_PORT, MILVUS_PORT = 9092, 19530

READY_S = 100
"""Milvus may take a minute. Less than the time limit of a test, so that the container's log is shown, not a stack."""
POLL_S = 0.2
ASK_S = 2.0
LOG_LINES = 50

EMBEDDED_MILVUS = {
    "ETCD_USE_EMBED": "true",
    "ETCD_DATA_DIR": "/var/lib/milvus/etcd",
    "COMMON_STORAGETYPE": "local",
    "DEPLOY_MODE": "STANDALONE",
}
"""Milvus with etcd inside and files in place of an object store, as its own `standalone_embed.sh` starts it."""


class Containers:
    """One container each, removed in the end, even if the run is killed."""

    environment: Mapping[str, str] = MappingProxyType({})

    def __init__(self, *, kafka_image: str, milvus_image: str, kafka: KafkaSettings) -> None:
        self.kafka_image = kafka_image
        self.milvus_image = milvus_image
        self._kafka = kafka
        self._open: dict[str, DockerContainer] = {}

    @classmethod
    def from_environment(cls) -> Self:
        """Take the images that the settings name, or else those of docker-compose.yml."""
        return cls(
            kafka_image=os.environ.get("FREKI_TEST_KAFKA_IMAGE") or composed("kafka")["image"],
            milvus_image=os.environ.get("FREKI_TEST_MILVUS_IMAGE") or composed("milvus")["image"],
            kafka=KafkaSettings(profile=Settings().kafka.profile),
        )

    def prepare(self) -> None:
        """Pull the images that are not here yet. Raises pytest.UsageError without an engine or an image."""
        try:
            with closing(docker.from_env()) as engine:
                _pull(engine, self.kafka_image, "FREKI_TEST_KAFKA_IMAGE")
                _pull(engine, self.milvus_image, "FREKI_TEST_MILVUS_IMAGE")
        except DockerException as error:
            raise pytest.UsageError(
                f"FREKI_TEST_STACK=containers needs a Docker engine (DOCKER_HOST): {error}"
            ) from error

    @contextmanager
    def broker(self) -> Iterator[KafkaSettings]:
        """Run Kafka."""
        port = free_port()
        settings = self._kafka.model_copy(update={"bootstrap": f"127.0.0.1:{port}"})
        container = DockerContainer(
            self.kafka_image, env=kafka_environment(composed("kafka")["environment"], port), hostname="kafka"
        )
        with self._running("broker", container, {KAFKA_PORT: port}, partial(kafka_answers, settings.bootstrap)):
            yield own_topics(settings)

    @contextmanager
    def store(self) -> Iterator[MilvusSettings]:
        """Run Milvus."""
        port = free_port()
        settings = MilvusSettings(uri=f"http://127.0.0.1:{port}")
        container = DockerContainer(
            self.milvus_image,
            command="milvus run standalone",
            env=EMBEDDED_MILVUS,
            security_opt=["seccomp=unconfined"],
        )
        with self._running("store", container, {MILVUS_PORT: port}, partial(milvus_answers, settings.uri)):
            yield own_collections(settings)

    def logs(self) -> Mapping[str, str]:
        """Read the last lines of those that run."""
        return {
            name: container.get_wrapped_container().logs(tail=LOG_LINES).decode(errors="replace")
            for name, container in self._open.items()
        }

    @contextmanager
    def _running(
        self, name: str, container: DockerContainer, ports: Mapping[int, int], ask: Callable[[], bool]
    ) -> Iterator[None]:
        # The guard does what testcontainers starts a container of its own for, which needs one more image.
        testcontainers_config.ryuk_disabled = True
        own_name = f"freki-test-{name}-{secrets.token_hex(4)}"
        container.with_name(own_name).waiting_for(Answers(ask))
        # Docker publishes a port to the whole network unless it is given an address.
        published: dict[str, Any] = {str(inside): ("127.0.0.1", outside) for inside, outside in ports.items()}
        container.ports = published
        with guarded(own_name), container:
            self._open[name] = container
            try:
                yield
            finally:
                del self._open[name]


class Answers(WaitStrategy):
    """Ready once it answers a client as the tests will ask; the same for every image of a server."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        super().__init__()
        self._ask = ask
        self.with_startup_timeout(READY_S).with_poll_interval(POLL_S)

    def wait_until_ready(self, container: WaitStrategyTarget) -> None:
        """Raise TimeoutError, to which testcontainers adds the log, if it ends or never answers."""

        def ready() -> bool:
            container.reload()
            if container.status == "exited":
                raise StopIteration
            return self._ask()

        if not self._poll(ready):
            how = "ended before it was ready" if container.status == "exited" else f"was not ready within {READY_S} s"
            raise TimeoutError(f"{container.get_wrapped_container().name} {how}. Its log:")


def composed(service: str) -> dict[str, Any]:
    """Read how docker-compose.yml describes a service."""
    described: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"][service]
    return described


def kafka_environment(composed_environment: Mapping[str, Any], port: int) -> dict[str, str]:
    """Describe the composed broker, but for the port of this machine at which clients shall find it."""
    environment = {name: str(value) for name, value in composed_environment.items()}
    environment["KAFKA_ADVERTISED_LISTENERS"] = re.sub(
        r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", environment["KAFKA_ADVERTISED_LISTENERS"]
    )
    # The same for Tansu's images.
    return environment | {"ADVERTISED_LISTENER_URL": f"tcp://127.0.0.1:{port}"}


def kafka_answers(bootstrap: str) -> bool:
    """Tell whether the cluster has a broker that takes requests."""
    # A loop of its own, since pytest-asyncio's is the current one.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(_has_brokers(bootstrap))


async def _has_brokers(bootstrap: str) -> bool:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=int(ASK_S * 1000))
    try:
        async with asyncio.timeout(ASK_S):
            await admin.start()
            return bool((await admin.describe_cluster())["brokers"])
    except (KafkaError, TimeoutError):
        return False
    finally:
        await admin.close()


def milvus_answers(uri: str) -> bool:
    """Tell whether collections can be listed, which Milvus refuses until all of it is up."""
    try:
        with closing(MilvusClient(uri, timeout=ASK_S)) as client:
            client.list_collections(timeout=ASK_S)
    except MilvusException:
        return False
    return True


def _pull(engine: docker.DockerClient, image: str, setting: str) -> None:
    try:
        engine.images.get(image)
    except ImageNotFound:
        try:
            engine.images.pull(image)
        except DockerException as error:
            raise pytest.UsageError(f"{image} cannot be pulled: {error}. Another image: {setting}") from error
