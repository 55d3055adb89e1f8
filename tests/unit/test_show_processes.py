"""What is printed of processes is not what keeps them running."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")

SCRIPT = """
import asyncio, os, pty, sys, typer
from pathlib import Path
from freki.cli.context import command
from freki.cli.show_processes import report
from freki.infra.local.children import ChildSpec, RestartPolicy
from freki.infra.local.supervise import Supervisor

folder = Path(sys.argv[1])
begin = ': > "$FREKI_READY_FILE"; '

def spec(name, script, **fields):
    ready = folder / f"{name}.ready"
    restart = RestartPolicy(first_s=0.01, longest_s=0.02)
    return ChildSpec(name=name, command=("/bin/sh", "-c", script), ready=ready, restart=restart, **fields)

def lose_reader():
    reader, writer = os.pipe()
    os.dup2(writer, 1)
    os.close(reader)

def close_terminal():
    terminal, end = pty.openpty()
    os.dup2(end, 1)
    os.close(end)
    os.close(terminal)

def fill_disk():
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

@command
async def run():
    store = spec("store", f"trap ': > {folder}/settled; exit 0' TERM; {begin} while :; do sleep 0.05; done")
    dying = spec("worker", f"{begin} while ! rm {folder}/die; do sleep 0.02; done 2>/dev/null", depends_on=("store",))
    async with Supervisor([store, dying], log_dir=folder, report=report) as processes:
        HOW()
        (folder / "worker.ready").unlink()
        (folder / "die").touch()
        ended = asyncio.create_task(processes.failed())
        while not (folder / "worker.ready").exists() and not ended.done():
            await asyncio.sleep(0.02)
        if ended.done():
            os._exit(1)
        ended.cancel()
    print("over", file=sys.stderr)
    # What could not be written to a full disk is no matter of this test.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(run)
app(args=[])
"""


@pytest.mark.parametrize(
    "how",
    [
        "lose_reader",
        "close_terminal",
        pytest.param(
            "fill_disk",
            marks=pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full"),
        ),
    ],
)
def test_processes_run_on_and_end_in_order_where_nothing_takes_what_is_printed(how: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("HOW", how), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "over\n")
    assert (tmp_path / "settled").exists()
