"""`freki mcp`: what it refuses at its start, how it ends, and lines that are no messages."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from freki.cli.main import app
from tests.stack import free_port


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("deadline", ["0", "-5", "600001"])
def test_a_deadline_that_no_query_may_have_is_refused_with_the_option(deadline: str) -> None:
    ended = CliRunner().invoke(app, ["mcp", f"--deadline={deadline}"], env={"COLUMNS": "200"})

    assert (ended.exit_code, "--deadline" in ended.output) == (2, True)


@pytest.mark.usefixtures("folder")
def test_a_port_that_is_taken_is_refused_with_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = CliRunner().invoke(app, ["mcp", "--http"], env={"COLUMNS": "200", "FREKI_MCP__PORT": port})

    assert (ended.exit_code, "FREKI_MCP__PORT" in ended.output, "serving at" in ended.output) == (2, True, False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_told_to_stop_ends_by_itself_with_exit_code_0(number: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "FREKI_MCP__PORT": str(free_port())}
    words = [sys.executable, "-m", "freki", "mcp", "--http"]
    with subprocess.Popen(words, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        assert "until Ctrl-C" in server.stderr.readline()
        server.send_signal(number)
        said = server.stderr.read()

    assert (server.returncode, said) == (0, "")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "code"),
    [("no JSON", -32700), ('{"jsonrpc": "2.0", "id": 1', -32700), ("[" * 100_000, -32700), ("[]", -32600)],
)
def test_a_line_that_is_no_message_is_answered(line: str, code: int) -> None:
    ended = CliRunner().invoke(app, ["mcp"], input=f"\n  \n{line}\n")

    reply = json.loads(ended.stdout)
    assert (ended.exit_code, reply["id"], reply["error"]["code"]) == (0, None, code)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "line",
    [
        r'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "keyword_search \ud83d"}}',
        '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": 5}',
        '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": [{"id": 8}]}',
        '{"jsonrpc": "2.0", "id": 7}',
        '{"jsonrpc": "1.0", "id": 7, "method": "ping"}',
        '{"id": 7, "method": 5}',
        # Nested deeper than the server reads.
        '{"jsonrpc": "2.0", "id": 7, "method": "x", "params": ' + '{"a":' * 300 + "1" + "}" * 301,
    ],
)
def test_a_request_that_is_refused_is_answered_with_its_id(line: str) -> None:
    ended = CliRunner().invoke(app, ["mcp"], input=f"{line}\n")

    reply = json.loads(ended.stdout)
    assert (ended.exit_code, reply["id"], reply["error"]["code"]) == (0, 7, -32600)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc": "2.0", "id": 7, "result": 5}',
        '{"jsonrpc": "2.0", "id": 7, "error": {"id": 8}}',
        r'{"jsonrpc": "2.0", "id": "\ud83d", "method": "ping"}',
        '{"jsonrpc": "2.0", "id": {}, "method": 5}',
        *(f'{{"jsonrpc": "2.0", "id": {wrong}, "method": "ping"}}' for wrong in ("7.5", "7.0", "true", "[7]", "NaN")),
    ],
)
def test_a_line_without_an_id_of_a_request_is_answered_without_one(line: str) -> None:
    ended = CliRunner().invoke(app, ["mcp"], input=f"{line}\n")

    reply = json.loads(ended.stdout)
    assert (ended.exit_code, reply["id"], reply["error"]["code"]) == (0, None, -32600)


@pytest.mark.usefixtures("folder")
def test_a_notification_is_not_answered_also_where_it_says_that_it_has_no_id() -> None:
    line = '{"jsonrpc": "2.0", "id": null, "method": "notifications/cancelled", "params": {"requestId": 7}}'
    ended = CliRunner().invoke(app, ["mcp"], input=f"{line}\n")

    assert (ended.exit_code, ended.stdout) == (0, "")
