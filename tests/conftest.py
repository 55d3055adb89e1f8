"""What holds for all tests, and the broker and store that some of them ask for."""

import gc
import os
import socket
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings

from freki.infra.cores import usable_cores
from freki.infra.local.ports import LOOPBACK
from freki.infra.settings import KafkaSettings, MilvusSettings
from tests.side_by_side import Groups, arrange, is_one_of_several, is_shared_out
from tests.stack import SECTIONS, SETTING, Stack, chosen, ends_of_logs

EXAMPLES = "FREKI_TEST_EXAMPLES"
"""Variable: examples of each property, where its test states no number."""

# Time is no result: machines differ, and others work on them too.
settings.register_profile("untimed", deadline=None, max_examples=int(os.environ.get(EXAMPLES, "100")))
settings.load_profile("untimed")

# As `freki` configures it: structlog's own way shows all local variables of each frame, which takes a second.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

collect_ignore = [] if os.environ.get(SETTING) == "kafka" else ["kafka", "neighbours"]

STACK = pytest.StashKey[Stack]()
FOLDERS = pytest.StashKey[Path]()
SERVERS = ("broker", "store")
SHOWN = "shown"
WITH_STACKS = ("acceptance", "integration", "kafka", "own_stack")
WITH_STACKS_TIMEOUT_S = 1800
"""Their processes and those of other tests share few cores: what takes half a minute alone took five beside others."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STACK] = chosen()
    if is_shared_out(config):
        # Those that run the tests read the settings of running servers for themselves.
        return
    gc.disable()
    # Tests that read the settings read their own.
    for name in [name for name in os.environ if name.startswith(SECTIONS)]:
        del os.environ[name]
    os.environ.update(config.stash[STACK].environment)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    return Groups(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in WITH_STACKS:
            item.add_marker(pytest.mark.timeout(WITH_STACKS_TIMEOUT_S))
    if is_one_of_several(config):
        arrange(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    # What was imported and collected stays to the end, and nothing need look for garbage in it.
    gc.freeze()
    gc.enable()
    if not session.config.option.collectonly and any(servers_of(item) for item in session.items):
        session.config.stash[STACK].prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        logs = item.config.stash[STACK].logs()
        report.sections += [(f"log of the {name}", logs[name]) for name in servers_of(item) if name in logs]
        written = ends_of_logs(item.config.stash[FOLDERS], after_s=time.time() - report.duration - 60)
        report.sections += [(f"log {name}", end) for name, end in written.items()]
        # What was slow where nothing is wrong shows only here.
        report.sections.append(("machine", f"load {os.getloadavg()}, {usable_cores()} cores"))
    return report


@pytest.fixture(scope="session", autouse=True)
def folders(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> None:
    """Note where this process has the folders of its tests, with the logs of the stacks that they start."""
    pytestconfig.stash[FOLDERS] = tmp_path_factory.getbasetemp()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, line in report.user_properties:
            if name == SHOWN:
                terminalreporter.write_line(str(line))


@pytest.fixture
def show(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Show a line after all tests, whether this one passes or not."""
    return partial(record_property, SHOWN)


def servers_of(item: pytest.Item) -> list[str]:
    """Name the servers that a test asks for."""
    return [name for name in SERVERS if name in getattr(item, "fixturenames", ())]


@pytest.fixture
def listener() -> Iterator[int]:
    """Give a port on which this process listens."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server.getsockname()[1]


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
