"""Topics of a test's own on the session's broker, and a web site of its own."""

import gc
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from freki.infra.settings import KafkaSettings
from freki.streams.topics import Topics
from tests.integration.stages import World, a_world
from tests.web_site import WebSite, serving


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Collect here what Faust leaves of a stage that failed.

    Where tasks are destroyed while Python parses a file, parsing fails: https://github.com/python/cpython/issues/106905.
    """
    yield
    gc.collect()


@pytest.fixture
def kafka(broker: KafkaSettings) -> KafkaSettings:
    """Settings with a topic prefix that no other test has."""
    return broker.model_copy(
        update={
            "topic_prefix": f"{broker.topic_prefix}-{secrets.token_hex(4)}",
            "partitions": 2,
            "max_message_bytes": 100_000,
            "delivery_timeout_s": 10.0,
        }
    )


@pytest.fixture
def topics(kafka: KafkaSettings) -> Topics:
    """The topics' declarations; they are not created yet."""
    return Topics.from_settings(
        prefix=kafka.topic_prefix,
        version=kafka.topic_version,
        partitions=kafka.partitions,
        replication=kafka.replication,
        max_message_bytes=kafka.max_message_bytes,
    )


@pytest.fixture
async def world(kafka: KafkaSettings, tmp_path: Path) -> AsyncIterator[World]:
    """The topics, created, and a directory."""
    async with a_world(kafka, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def web() -> Iterator[WebSite]:
    """A web server for the tests of a module."""
    with serving() as opened:
        yield opened


@pytest.fixture
def site(web: WebSite) -> WebSite:
    """The web server at two hosts, 127.0.0.1 and localhost, with nothing on it."""
    web.clear()
    return web
