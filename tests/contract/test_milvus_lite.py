import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pymilvus import MilvusClient

from tests.stack import PATIENCE_S, free_port, serving


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "freki.infra.local.milvus_lite", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_it_says_nothing_and_ends_with_sigterm(tmp_path: Path) -> None:
    port = free_port()
    with (tmp_path / "out").open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "freki.infra.local.milvus_lite", str(tmp_path / "deep" / "x.db"), str(port)],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        while not answers(port):
            assert server.poll() is None
            time.sleep(0.02)
        server.terminate()

        assert server.wait(timeout=PATIENCE_S) == -signal.SIGTERM

    assert not answers(port)
    assert (tmp_path / "out").read_bytes() == b""


def test_it_writes_no_log_beside_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    port = free_port()
    with serving(tmp_path / "x.db", port):
        client = MilvusClient(f"http://127.0.0.1:{port}")
        client.create_collection("c", dimension=2)
        client.search("c", [[1.0, 0.0]])
        client.close()

    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_second_server_of_a_file_is_refused(tmp_path: Path) -> None:
    path, port = tmp_path / "x.db", free_port()
    with serving(path, port) as server:
        second = run(str(path), str(free_port()))

        assert second.returncode == 1
        assert second.stderr == (
            f"{path} is served by another process (id {server.pid}): stop it, or give another path\n"
        )
        assert answers(port)

    with serving(path, port):
        assert answers(port)


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path / "x.db", port):
        second = run(str(tmp_path / "y.db"), str(port))

    assert second.returncode == 1
    assert second.stderr == f"port {port} is taken: stop what listens there, or give another port\n"


@pytest.mark.parametrize("name", ["with space.db", "ü.db", "x" * 200])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    port = free_port()
    with serving(tmp_path / name, port):
        assert answers(port)

    assert (tmp_path / name).exists()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    refused = run(str(tmp_path / "file" / "x.db"), str(free_port()))

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"cannot serve {tmp_path / 'file' / 'x.db'}: ")
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("arguments", [[], ["x.db"], ["x.db", "port"], ["x.db", "1", "2"]])
def test_other_arguments_get_the_usage(arguments: list[str]) -> None:
    refused = run(*arguments)

    assert refused.returncode == 1
    assert refused.stderr == "usage: python -m freki.infra.local.milvus_lite PATH PORT\n"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process that its parent died")
def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    port = free_port()
    starter = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-m", "freki.infra.local.milvus_lite", {str(tmp_path / "x.db")!r}, "{port}"])
time.sleep({PATIENCE_S})
"""
    parent = subprocess.Popen([sys.executable, "-c", starter])
    while not answers(port):
        assert parent.poll() is None
        time.sleep(0.02)

    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()

    deadline = time.monotonic() + PATIENCE_S
    while answers(port):
        assert time.monotonic() < deadline
        time.sleep(0.02)
