"""Specification of a supervised child process, and the events that its supervisor reports."""

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path

from freki.schemas.backoff import backoff

READY_FILE = "FREKI_READY_FILE"
"""Environment variable with the path of the file that a child creates once it is ready."""
Probe = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Backoff and maximum attempts of restarts."""

    first_s: float = 0.5
    longest_s: float = 30.0
    healthy_after_s: float = 30.0
    """Time of being ready after which the backoff is reset."""
    attempts: int = 3
    """Maximum failures before a child was ever ready; afterwards restarts are unlimited."""

    def delay_s(self, failures: int, jitter: float) -> float:
        """Return the seconds before the start that follows `failures` (at least 1) in a row; jitter: 0..1."""
        return backoff(failures, first=self.first_s, longest=self.longest_s, jitter=jitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """Specification of a supervised process."""

    name: str
    command: tuple[str, ...]
    ready: Probe | Path
    """Readiness probe, polled until true; or a file that the child creates, passed as `FREKI_READY_FILE`."""
    port: int | None = None
    """The port that it listens on: a probe that another process answers there does not count."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the environment of the supervisor."""
    depends_on: tuple[str, ...] = ()
    """Names of the children that must be ready before each start of this one."""
    is_volatile: bool = False
    """Is its data lost when it dies? Then its dependents are restarted after it."""
    loss: str = ""
    """What is lost then, and what to do, for people."""
    fatal_output: tuple[bytes, ...] = ()
    """Any of these in its output says that it lost data that it may confirm: it is killed, and its dependents are
    restarted after it."""
    fatal_reason: str = ""
    """Cause and remedy of that, for people."""
    ready_timeout_s: float = 60.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_s: float = 10.0
    restart: RestartPolicy = RestartPolicy()
    final_statuses: frozenset[int] = frozenset()
    """Exit statuses that no restart mends, as long as it was never ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process was started and is not ready yet."""

    name: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A child is ready and prepared."""

    name: str
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReady:
    """A child did not become ready in time and is stopped."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A child ended without being stopped."""

    name: str
    returncode: int
    """Exit status; negative: the signal that killed it."""
    lasted_s: float
    last_lines: tuple[str, ...]
    loss: str = ""
    """As in its specification."""

    @property
    def how(self) -> str:
        """`exit status 3` or `SIGKILL`."""
        return f"exit status {self.returncode}" if self.returncode >= 0 else signal.Signals(-self.returncode).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarting:
    """A child will be restarted."""

    name: str
    in_s: float
    failures: int
    """Consecutive failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A child was stopped by its supervisor."""

    name: str


Event = Started | Ready | NotReady | Died | Restarting | Stopped


def start_levels(specs: Sequence[ChildSpec]) -> list[tuple[str, ...]]:
    """Return the names of children in topological order; those in one tuple are independent."""
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
