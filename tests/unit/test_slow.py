"""A command that waits says for what."""

import io
import sys
import threading

import pytest

from freki.cli.slow import told_if_slow


class Told(io.StringIO):
    """Standard error, with an event for what arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Event()

    def flush(self) -> None:
        self.arrived.set()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    stderr = Told()
    monkeypatch.setattr(sys, "stderr", stderr)
    return stderr


def test_what_takes_long_is_named_though_nothing_else_runs(told: Told) -> None:
    with told_if_slow("reading the log", after_s=0):
        assert told.arrived.wait(60)

    assert told.getvalue() == "reading the log …\n"


def test_what_is_quick_or_fails_is_not_named(told: Told) -> None:
    with told_if_slow("reading the log", after_s=600):
        pass
    with pytest.raises(ValueError, match="broken"), told_if_slow("reading the log", after_s=600):
        raise ValueError("broken")

    for waiting in [each for each in threading.enumerate() if isinstance(each, threading.Timer)]:
        waiting.join(60)
    assert told.getvalue() == ""
