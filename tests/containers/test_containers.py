import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import docker
import pytest

from tests.containers.stack import Containers
from tests.stack import PATIENCE_S, chosen

START_A_BROKER = """
from tests.stack import chosen
with chosen().broker() as settings:
    print(settings.bootstrap, flush=True)
    input()
"""


@pytest.fixture
def engine() -> Iterator[Any]:
    with closing(docker.from_env()) as client:
        yield client


def publishing(engine: Any, port: str) -> list[Any]:
    """Find the containers that can be reached at the port."""
    return list(engine.containers.list(filters={"publish": port}))


def test_a_run_that_is_killed_leaves_no_container_behind(engine: Any) -> None:
    with subprocess.Popen([sys.executable, "-c", START_A_BROKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout
        _, port = run.stdout.readline().decode().split(":")
        before = publishing(engine, port.strip())
        run.kill()

    deadline = time.monotonic() + PATIENCE_S
    while publishing(engine, port.strip()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(before) == 1


def test_nobody_but_this_machine_reaches_a_container(engine: Any) -> None:
    stack = chosen()
    assert isinstance(stack, Containers)

    with stack.broker() as settings:
        [container] = publishing(engine, settings.bootstrap.partition(":")[2])
        addresses = [end["HostIp"] for ends in container.ports.values() if ends for end in ends]

    assert addresses == ["127.0.0.1"]
    assert publishing(engine, settings.bootstrap.partition(":")[2]) == []


def test_a_server_that_ends_before_it_is_ready_is_shown_with_its_log() -> None:
    stack = chosen()
    assert isinstance(stack, Containers)
    stack.milvus_image = stack.kafka_image

    with pytest.raises(TimeoutError, match="ended before it was ready") as caught, stack.store():
        pass

    assert caught.value.__notes__ != [""]
