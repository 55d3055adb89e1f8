"""Notices and step times of one query: the one thing that all steps of retrieval write to."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from freki.schemas import Notice, NoticeKind, StageTime
from freki.schemas.names import record

NANOS_PER_MS = 1_000_000


@record
class StepRun:
    """One run of one step, by the clock of its log."""

    step: str
    started_ns: int
    ended_ns: int
    items: int

    @property
    def time(self) -> StageTime:
        """The run as results tell it."""
        return StageTime(
            stage=self.step, milliseconds=(self.ended_ns - self.started_ns) / NANOS_PER_MS, items=self.items
        )


class QueryLog:
    """Collects what results, traces and metrics tell of the steps. Identifies the query among those in flight."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        """Create one; clock_ns: a monotonic clock."""
        self.clock_ns = clock_ns
        self.runs: list[StepRun] = []
        self.notices: list[Notice] = []
        self.unranked = 0
        """Number of candidates that the deadline left no time to rerank."""
        self._heard: Callable[[StageTime], None] | None = None

    def listen(self, heard: Callable[[StageTime], None]) -> None:
        """Tell of each run, of those before first."""
        for time in self.times():
            heard(time)
        self._heard = heard

    def notice(self, step: str, kind: NoticeKind, message: str) -> None:
        """Add a notice to the result."""
        self.notices.append(Notice(stage=step, kind=kind, message=message))

    def has_failed(self, step: str) -> bool:
        """Return whether a step failed, as far as notices tell."""
        return any(notice.stage == step and notice.kind is NoticeKind.DEGRADED for notice in self.notices)

    def retract(self, step: str) -> None:
        """Remove the notices of a step that runs again."""
        self.notices = [notice for notice in self.notices if notice.stage != step]

    def ran(self, step: str, started_ns: int, items: int, *, ended_ns: int | None = None) -> None:
        """Record a run of a step; ended_ns: default now."""
        ended_ns = self.clock_ns() if ended_ns is None else ended_ns
        run = StepRun(step=step, started_ns=started_ns, ended_ns=ended_ns, items=items)
        self.runs.append(run)
        if self._heard is not None:
            self._heard(run.time)

    def times(self) -> tuple[StageTime, ...]:
        """Return the duration of each run."""
        return tuple(run.time for run in self.runs)


@contextmanager
def timed(logs: Sequence[QueryLog], step: str, items: Callable[[int], int]) -> Iterator[None]:
    """Record a run of a step on all queries that it handles together; items: number of items by place, at the end."""
    started_ns = logs[0].clock_ns() if logs else 0
    try:
        yield
    finally:
        ended_ns = logs[0].clock_ns() if logs else 0
        for place, log in enumerate(logs):
            log.ran(step, started_ns, items(place), ended_ns=ended_ns)
