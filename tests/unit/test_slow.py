"""A command that waits says for what."""

import io
import sys
import threading

import pytest

from freki.cli.slow import message_if_slow


class Told(io.StringIO):
    """Standard error, with an event for what arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()
        self.is_terminal = True

    def isatty(self) -> bool:
        return self.is_terminal

    def flush(self) -> None:
        self.arrived.set()


def test_what_takes_long_is_named_though_nothing_else_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not in a fixture: pytest sets standard error again before the test.
    told = Told()
    monkeypatch.setattr(sys, "stderr", told)

    with message_if_slow("reading the log", after_s=0):
        assert told.arrived.wait(60)

    assert told.getvalue() == "reading the log …\n"


def test_programs_that_read_what_is_printed_are_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    told.is_terminal = False
    monkeypatch.setattr(sys, "stderr", told)
    before = timers()

    with message_if_slow("reading the log", after_s=0):
        running = timers()

    # Those of other tests may still end.
    assert running <= before
    assert told.getvalue() == ""


def test_what_is_quick_or_fails_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(sys, "stderr", told)
    before = timers()

    with message_if_slow("reading the log", after_s=600):
        pass
    with pytest.raises(ValueError, match="broken"), message_if_slow("reading the log", after_s=600):
        raise ValueError("broken")

    for waiting in timers() - before:
        waiting.join(60)
    assert told.getvalue() == ""


def timers() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if isinstance(each, threading.Timer)}
