"""What children are made to do. Imports little, as what runs in a child should."""

import os
import resource
import signal
from pathlib import Path


def length(name: str, content: bytes) -> int:
    del name
    return len(content)


def pid(name: str) -> int:
    del name
    return os.getpid()


def fail(name: str) -> None:
    raise ValueError(f"{name} is bad")


def abort(name: str, attempts: Path) -> None:
    """Crash, and leave a trace of it: a file may be made, but nothing written to it."""
    (attempts / f"{name}-{os.getpid()}").touch()
    os.abort()


def abort_once(name: str, attempts: Path) -> int:
    if not list(attempts.iterdir()):
        abort(name, attempts)
    return len(list(attempts.iterdir()))


def go_on(name: str) -> str:
    """Return after the signals of a stop, which reach all processes of a group."""
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
    return name


def loop(name: str, attempts: Path) -> None:
    (attempts / f"{name}-{os.getpid()}").touch()
    while True:
        pass


def eat(name: str) -> int:
    del name
    return len(bytearray(8 << 30))


def nest(name: str) -> None:
    nest(name)


def write(name: str, target: Path) -> None:
    target.write_text(name, encoding="utf-8")


def core_size(name: str) -> int:
    del name
    return resource.getrlimit(resource.RLIMIT_CORE)[0]


def meet(name: str, other: str, place: Path) -> str:
    """Return once the other one is here too."""
    (place / name).touch()
    while not (place / other).exists():
        pass
    return name
