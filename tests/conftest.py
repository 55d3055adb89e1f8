"""What holds for all tests, and the broker and store that some of them ask for."""

import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from freki.infra.settings import KafkaSettings, MilvusSettings
from tests.stack import SECTIONS, SETTING, Stack, chosen

# Time is no result: machines differ, and others work on them too.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

collect_ignore = [] if os.environ.get(SETTING) == "kafka" else ["kafka", "neighbours"]

STACK = pytest.StashKey[Stack]()
SERVERS = ("broker", "store")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STACK] = chosen()
    # Tests that read the settings read their own.
    for name in [name for name in os.environ if name.startswith(SECTIONS)]:
        del os.environ[name]
    os.environ.update(config.stash[STACK].environment)


def pytest_collection_finish(session: pytest.Session) -> None:
    if not session.config.option.collectonly and any(servers_of(item) for item in session.items):
        session.config.stash[STACK].prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        logs = item.config.stash[STACK].logs()
        report.sections += [(f"log of the {name}", logs[name]) for name in servers_of(item) if name in logs]
    return report


def servers_of(item: pytest.Item) -> list[str]:
    """Name the servers that a test asks for."""
    return [name for name in SERVERS if name in getattr(item, "fixturenames", ())]


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> Iterator[KafkaSettings]:
    """The session's Kafka."""
    with pytestconfig.stash[STACK].broker() as opened:
        yield opened


@pytest.fixture(scope="session")
def store(pytestconfig: pytest.Config) -> Iterator[MilvusSettings]:
    """The session's Milvus."""
    with pytestconfig.stash[STACK].store() as opened:
        yield opened
