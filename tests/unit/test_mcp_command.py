"""`freki mcp` refuses at its start what would have every call refused."""

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
