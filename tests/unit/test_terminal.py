"""What documents may do to a terminal: nothing."""

import errno
import io
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from freki.cli.terminal import clean, ignoring_output_errors, without_controls

HOSTILE = st.text(st.sampled_from("a b\n\x1b[]\x07\x9b2J\u202e\x08\r0;\\") | st.characters(), max_size=40)


def printed(*renderables: object, soft_wrap: bool = False) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=60, legacy_windows=False)
    clean(console)
    console.print(*renderables, soft_wrap=soft_wrap)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(HOSTILE)
def test_no_text_of_a_document_controls_the_terminal(text: str) -> None:
    table = Table("head")
    table.add_row(Text(text))
    for shown in (
        printed(Text(text)),
        printed(Panel(Text(text), title=Text(text))),
        printed(table),
        printed(Text(text), soft_wrap=True),
    ):
        assert not {each for each in shown if unicodedata.category(each) == "Cc"} - {"\n", "\t"}
        assert "\u202e" not in shown


@given(st.text(st.characters(blacklist_categories=("Cc", "Cf", "Cs"))))
def test_other_text_stays(text: str) -> None:
    assert without_controls(text) == text


def test_styles_are_still_written() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False)
    clean(console)
    console.print(Text("\x1b]0;owned\x07", style="bold"))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "\x1b[1m\ufffd]0;owned\x1b[0m\n"


REPAIR = """
import sys
from freki.cli.verify import _say

for name in ("a.md", "b.md"):
    _say(name, "deleted at version 1")
print("repaired", file=sys.stderr)
"""

REWRAP = """
import asyncio, sys
from freki.cli import keys
from freki.infra.keys import make_keys
from pathlib import Path

class Generation:
    def __init__(self, name):
        self.name = name

    async def rewrap_keys(self):
        print("wrapped", self.name, file=sys.stderr)
        return 1

async def encrypted(settings):
    for name in ("g1", "g2"):
        yield name, Generation(name)

make_keys(Path("keys.json"))
keys._encrypted = encrypted
keys.rewrap()
"""
_ENCRYPTED = {"FREKI_ENCRYPTION__KEYS": "local", "FREKI_ENCRYPTION__KEY_FILE": "keys.json"}


@pytest.mark.parametrize(
    ("script", "done"), [(REPAIR, "repaired\n"), (REWRAP, "wrapped g1\nwrapped g2\n")], ids=["repair", "rewrap"]
)
def test_what_is_done_part_by_part_goes_on_where_the_reader_of_the_output_has_ended(
    script: str, done: str, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), **_ENCRYPTED}
    try:
        ended = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env=environment,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writer)

    assert ended.stderr == done


class Disk(io.StringIO):
    """A file whose disk is full for a while."""

    is_full = True

    def flush(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_line_is_not_printed_twice_once_a_full_disk_has_room_again() -> None:
    disk = Disk()
    console = Console(file=disk)
    for line in ("first", "second"):
        with ignoring_output_errors(console):
            console.print(line)
    disk.is_full = False
    with ignoring_output_errors(console):
        console.print("third")

    assert disk.getvalue().split() == ["first", "second", "third"]
