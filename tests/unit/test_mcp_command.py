"""`freki mcp` refuses at its start what would have every call refused."""

import json
import socket

import pytest
from typer.testing import CliRunner

from freki.cli.main import app


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


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "code"),
    [("no JSON", -32700), ('{"jsonrpc": "2.0", "id": 1', -32700), ("[]", -32600), ('{"id": 1, "method": 5}', -32600)],
)
def test_a_line_that_is_no_message_is_answered(line: str, code: int) -> None:
    ended = CliRunner().invoke(app, ["mcp"], input=f"\n  \n{line}\n")

    reply = json.loads(ended.stdout)
    assert (ended.exit_code, reply["id"], reply["error"]["code"]) == (0, None, code)
