"""What documents may do to a terminal: nothing."""

import io
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from freki.cli.terminal import clean, without_controls

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
