"""Consoles that write no control characters of documents: these could hide text, rename windows or forge output."""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment

_CONTROLS: Final = re.compile(
    # All but line feed and tab; with them the marks by which text changes its direction (Trojan Source).
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def without_controls(text: str) -> str:
    """Replace each control character except line feed and tab by U+FFFD."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


class _Cleaned:
    """What is rendered as its content, without control characters in its text."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        for segment in console.render(self._content, options):
            yield segment if segment.control else segment._replace(text=without_controls(segment.text))


class _Clean(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Cleaned(each) for each in renderables]


def make_console(*, stderr: bool = False) -> Console:
    """Return a console; what goes to a file or another program stays as it is."""
    console = Console(stderr=stderr)
    if console.is_terminal:
        clean(console)
    return console


def clean(console: Console) -> None:
    """Let a console replace control characters from now on."""
    console.push_render_hook(_Clean())


@contextmanager
def ignoring_output_errors(console: Console) -> Iterator[None]:
    """Print what nothing depends on: go on where the reader ended, the terminal was closed or the disk is full."""
    try:
        yield
    except SystemExit:
        # So rich answers a broken pipe, of which it is quiet from then on.
        if not console.quiet:
            raise
    except OSError as error:
        # Rich holds what it could not write and would print it again with the next line.
        with suppress(OSError, SystemExit):
            console.begin_capture()
            console.end_capture()
        if error.errno == errno.EIO:
            # A closed terminal does not come back, and what is left for it would fail again when Python ends.
            console.quiet = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, console.file.fileno())
            os.close(nowhere)
