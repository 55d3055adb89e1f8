"""What a command says while it waits, so that nobody takes it for stuck."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MESSAGE_AFTER_S = 2.0
"""Time that a command may take for something without saying so, in seconds."""


@contextmanager
def message_if_slow(what: str, *, after_s: float = MESSAGE_AFTER_S) -> Iterator[None]:
    """Print what is waited for on standard error, once, where it takes longer and a person may look at it.

    Not into pipes and logs, whose readers take a line there for an error. By a thread, since imports and blocking calls
    leave no time to an event loop.
    """
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(after_s, _print, (what,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _print(what: str) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)  # noqa: T201 - rich takes a tenth of a second to import
