"""Settings that change while a command runs: where they are read from, and when."""

import asyncio
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from freki.infra.settings import Settings
from freki.infra.settings.read import FILE_NAME, read_settings
from freki.streams.wire.reload import SettingsSource


def source_of(first: Settings, sections: Collection[str]) -> SettingsSource:
    """Return where a process reads changed settings from; first: what it has read, sections: that it uses."""
    return SettingsSource(Path(FILE_NAME).absolute(), read_settings, first, sections)


def on_hangup(call: Callable[[], None]) -> None:
    """Call something at each SIGHUP; on a terminal the signal says that it was closed, and ends the process."""
    if sys.stdin is None or not sys.stdin.isatty():
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, call)
