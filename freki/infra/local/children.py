"""Specification of a supervised child process, and the events that its supervisor reports."""

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path

from freki.schemas.backoff import backoff

READY_FILE = "FREKI_READY_FILE"
"""Names the file that a child creates once it is ready, where its spec says so."""
Probe = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """When to start a child again, and when to stop trying."""

    first_s: float = 0.5
    longest_s: float = 30.0
    healthy_after_s: float = 30.0
    """A child that was ready for this long counts as healthy: the backoff starts from the beginning."""
    attempts: int = 3
    """How often a child may fail before it was ever ready; afterwards it is started for ever."""

    def delay_s(self, failures: int, jitter: float) -> float:
        """Return the seconds before the start that follows `failures` (at least 1) in a row; jitter: 0..1."""
        return backoff(failures, first=self.first_s, longest=self.longest_s, jitter=jitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """A process to keep running."""

    name: str
    command: tuple[str, ...]
    ready: Probe | Path
    """Asked until it says yes; or a file that the child creates, given to it as `FREKI_READY_FILE`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to our own environment."""
    depends_on: tuple[str, ...] = ()
    """Names of the children that must be ready before this one starts, each time."""
    volatile: bool = False
    """What it holds is lost when it dies: those that depend on it are stopped and start anew after it."""
    ready_timeout_s: float = 60.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_s: float = 10.0
    restart: RestartPolicy = RestartPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process runs, but is not ready yet."""

    name: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A child answered, and was prepared."""

    name: str
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unready:
    """A child runs but did not become ready; it is stopped."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A child ended by itself."""

    name: str
    returncode: int
    """Exit status; negative: the signal that killed it."""
    lasted_s: float
    last_lines: tuple[str, ...]

    @property
    def how(self) -> str:
        """`exit status 3` or `SIGKILL`."""
        return f"exit status {self.returncode}" if self.returncode >= 0 else signal.Signals(-self.returncode).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarting:
    """A child will be started again."""

    name: str
    in_s: float
    failures: int
    """How often it failed in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """We ended a child."""

    name: str


Event = Started | Ready | Unready | Died | Restarting | Stopped


def start_levels(specs: Sequence[ChildSpec]) -> list[tuple[str, ...]]:
    """Order the children so that each follows those it depends on; those in one tuple are independent."""
    names = {spec.name for spec in specs}
    if len(names) < len(specs):
        raise ValueError("names of children must differ")
    for spec in specs:
        if unknown := set(spec.depends_on) - names:
            raise ValueError(f"{spec.name} depends on unknown children: {', '.join(sorted(unknown))}")
    sorter = TopologicalSorter({spec.name: spec.depends_on for spec in specs})
    sorter.prepare()
    levels = []
    while sorter.is_active():
        levels.append(sorter.get_ready())
        sorter.done(*levels[-1])
    return levels
