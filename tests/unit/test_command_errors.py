"""Errors of a command that its user can mend end it in one line."""

import asyncio
import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import structlog
import typer
from typer.testing import CliRunner

from freki.cli.context import command, console, terminated_as_interrupted
from freki.cli.main import app
from freki.cli.prompts import agreed
from freki.infra.archive.folder import disk, make_folder
from freki.infra.signals import run_until_stopped
from freki.schemas import IndexOutcome
from freki.schemas.avro import Codec, UnencodableError
from freki.schemas.errors import Misconfigured, Rejected

FULL = Path("/dev/full")


def test_a_path_that_the_user_may_not_open_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    closed = tmp_path / "closed" / "letter.txt"

    @command
    async def look() -> None:
        # What the system says to all users but root.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(closed))

    with pytest.raises(typer.Exit) as ended:
        look()

    assert ended.value.exit_code == 2
    told = "".join(capsys.readouterr().err.split("\n"))
    assert f"no permission for {closed}" in told


def test_what_is_logged_in_a_command_is_no_part_of_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger("freki.library")

    @command
    async def show() -> None:
        text = "Gehalt: 5.000 Euro"
        try:
            [].pop(len(text))
        except IndexError:
            log.exception("https://ada:secret@store.example cannot be reached")
        print('{"rank": 1}')  # noqa: T201 - what a program reads

    show()

    shown = capsys.readouterr()
    assert shown.out == '{"rank": 1}\n'
    assert "store.example cannot be reached" in shown.err
    assert "IndexError: pop from empty list" in shown.err
    assert not [word for word in ("secret", "5.000") if word in shown.err]


def test_a_lack_of_rights_that_no_path_explains_is_shown_whole() -> None:
    @command
    async def bind() -> None:
        raise PermissionError(errno.EACCES, "a port below 1024")

    with pytest.raises(PermissionError):
        bind()


def test_a_record_of_a_later_freki_ends_a_command_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @command
    async def read() -> None:
        Codec(IndexOutcome).decode(b"\xc3\x01later...")

    with pytest.raises(typer.Exit) as ended:
        read()

    assert ended.value.exit_code == 1
    assert "is no version of IndexOutcome that this Freki knows" in " ".join(capsys.readouterr().err.split())


def test_an_option_that_no_record_can_hold_ends_a_command_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @command
    async def give() -> None:
        raise UnencodableError("Judgement: a text has half of a character")

    with pytest.raises(typer.Exit) as ended:
        give()

    assert ended.value.exit_code == 2
    assert "Judgement: a text has half of a character" in capsys.readouterr().err


@pytest.mark.parametrize("on_ctrl_c", [signal.default_int_handler, signal.SIG_IGN], ids=["terminal", "background"])
def test_sigterm_ends_a_command_as_ctrl_c_does_where_it_has_to_set_something_right(
    on_ctrl_c: Callable[[int, FrameType | None], Any] | signal.Handlers,
) -> None:
    settled = asyncio.Event()

    @command
    async def send() -> None:
        with terminated_as_interrupted():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                settled.set()

    before = signal.signal(signal.SIGINT, on_ctrl_c)
    try:
        with pytest.raises(typer.Exit) as ended:
            send()
    finally:
        signal.signal(signal.SIGINT, before)

    assert ended.value.exit_code == 130
    assert settled.is_set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_command_without_an_end_of_its_own_ends_well_when_it_is_stopped(number: signal.Signals) -> None:
    settled = asyncio.Event()

    async def watch() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            settled.set()

    @command
    async def send() -> None:
        await run_until_stopped(watch())

    send()

    assert settled.is_set()


def test_a_command_without_an_end_of_its_own_tells_what_ended_it() -> None:
    async def watch() -> None:
        raise Rejected("no such folder")

    @command
    async def send() -> None:
        await run_until_stopped(watch())

    with pytest.raises(typer.Exit) as ended:
        send()

    assert ended.value.exit_code == 1


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("words", [("settings", "show"), ("tools",)])
def test_output_to_a_full_disk_ends_a_command_in_one_line(words: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "freki", *words], stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert ended.returncode == 1
    assert ended.stderr.decode().startswith("freki: output or temporary files: No space left on device; make room")
    assert len(ended.stderr.splitlines()) == 1


UNHEARD = """
import structlog, typer
from freki.cli import main
from freki.cli.context import command, console, errors

@command
async def publish():
    errors.print("1 file cannot be read")
    structlog.get_logger("freki.library").warning("the broker answers slowly")
    errors.print("1 file cannot be read")
    console.print("published")

main.app = typer.Typer()
main.app.command()(publish)
main.main()
"""


@pytest.mark.parametrize(
    "how",
    [
        "pipe",
        pytest.param("full", marks=pytest.mark.skipif(not FULL.exists(), reason="this system has no such device")),
    ],
)
def test_a_command_goes_on_where_nothing_takes_its_messages(how: str) -> None:
    if how == "pipe":
        reader, target = os.pipe()
        os.close(reader)
    else:
        target = os.open(FULL, os.O_WRONLY)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", UNHEARD], stdout=subprocess.PIPE, stderr=target, text=True, check=False
        )
    finally:
        os.close(target)

    assert ended.stdout == "published\n"
    assert ended.returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1"])
def test_output_is_written_to_a_terminal_that_lacks_its_characters(encoding: str, folder: Path) -> None:
    (folder / "freki.toml").write_text('claims.directory = "日本"', encoding="utf-8")

    ended = subprocess.run(
        [sys.executable, "-m", "freki", "settings", "show"],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert rb"\u65e5\u672c" in ended.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("limits",),
        ("keys", "show"),
        ("audit", "verify"),
        ("audit", "keys", "show"),
        ("judge", "erase"),
        ("ask", "Who?", "--at-least", "a.md"),
        ("audit", "search", "--file", "missing"),
        ("publish", "missing.md"),
        ("publish", "missing.jsonl"),
        ("watch", "missing"),
        ("git", "missing"),
        ("crawl", "http://127.0.0.1/", "--cookies", "missing"),
        ("questions", "make", "missing", "--out", "questions.yaml"),
        ("eval", "missing.yaml"),
        ("import", "missing"),
        ("erase", "verify", "missing.json", "--public-key", "missing.pem"),
        ("groups", "set", "ada", "hr", "--tenant", "a/b"),
        # Words that are not UTF-8, as Python hands them on.
        ("groups", "set", "ad\udce4", "hr"),
        ("judge", "give", "Was\udce4?", "a.md", "up", "--as", "ada"),
        ("documents", "history", "\udce4.md"),
    ],
)
def test_a_setting_option_or_path_that_is_missing_or_wrong_gives_exit_code_2(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 2


def test_an_export_into_a_file_says_that_it_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    file.touch()

    with pytest.raises(Misconfigured, match=r"backup\.tar is no folder"), disk(file):
        file.mkdir(parents=True, exist_ok=True)


def test_an_archive_that_cannot_be_made_there_is_a_wrong_path_and_nothing_to_restore() -> None:
    """As a folder of an automounter that knows no such place."""
    with pytest.raises(Misconfigured, match=r"/proc/backup: .*name another folder"):
        make_folder(Path("/proc/backup"))


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_an_archive_that_the_system_refuses_is_a_wrong_path_and_not_to_be_tried_again(code: int) -> None:
    with pytest.raises(Misconfigured, match=r"backups/today: .*; allow it to this user, or name another"), disk(Path()):
        raise OSError(code, os.strerror(code), "backups/today")


def test_a_full_disk_is_no_reason_to_look_what_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    @command
    async def export() -> None:
        with disk(tmp_path):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(typer.Exit):
        export()

    assert capsys.readouterr().err.strip().endswith("make room, then run the command again, it continues")


STUBBORN = """
import asyncio, threading, typer
from freki.cli import ending
from freki.cli.context import command
from freki.schemas.errors import Misconfigured

ending.LIMIT_S = 0.05
tasks = []  # as a client holds its own: asyncio leaves them to the garbage collector

async def go_on():
    threading.Thread(target=threading.Event().wait).start()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@command
async def run():
    tasks.append(asyncio.create_task(go_on(), name="client"))
    await asyncio.sleep(0)
    ENDING

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(run)
app()
"""


@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        ("return", 0, ""),
        ('raise Misconfigured("FREKI_X is wrong")', 2, "FREKI_X is wrong"),
        ('raise ValueError("a defect")', 1, "ValueError: a defect"),
    ],
)
def test_a_command_ends_though_a_task_does_not_end_when_it_is_cancelled(last: str, code: int, said: str) -> None:
    script = STUBBORN.replace("ENDING", last)

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr
    assert "background tasks do not end" in ended.stdout + ended.stderr


INTERRUPTED = """
import asyncio, os, signal, threading, typer
from freki.cli import ending
from freki.cli.context import command

ending.LIMIT_S = ending.TAKE_NOTE_S = 0.05
signal.signal(signal.SIGINT, signal.default_int_handler)

def stuck():
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()

@command
async def run():
    WORK

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(run)
app()
"""


@pytest.mark.parametrize("work", ["stuck()", "await asyncio.to_thread(stuck)"], ids=["event loop", "thread"])
def test_ctrl_c_ends_a_command_also_while_a_call_does_not_return(work: str) -> None:
    script = INTERRUPTED.replace("WORK", work)

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 130
    assert ended.stderr.splitlines()[-1] == "freki: interrupted"
    assert "Traceback" not in ended.stderr


def test_a_command_whose_question_finds_no_answer_was_interrupted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As at Ctrl-D, which typer takes for the same as Ctrl-C.
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(console, "_force_terminal", True)

    @command
    async def delete() -> None:
        agreed("delete 3 documents")

    with pytest.raises(typer.Exit) as ended:
        delete()

    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "freki: interrupted\n"
