"""Progress: bars on a terminal, occasional lines when the output is a file."""

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from freki.cli.context import errors

EVERY_S = 30.0
"""Interval between progress lines in a log, in seconds."""


class RateColumn(ProgressColumn):
    """Completed steps per second."""

    def render(self, task: Task) -> Text:
        """Return the rate of the last seconds, or of the whole task once it is finished."""
        rate = task.finished_speed or task.speed
        return Text("" if rate is None else f"{rate:,.0f}/s", style="progress.data.speed")


def bars(console: Console = errors, *further: ProgressColumn) -> Progress:
    """Return a progress display for the kind of console, with rate, elapsed and remaining time, and further columns.

    In the end it stays as a line of a terminal; in a file or a pipe nothing of it is left.
    """
    display = Progress if console.is_terminal else LineProgress
    return display(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        *further,
        console=console,
        transient=not console.is_terminal,
    )


class LineProgress(Progress):
    """Progress display that prints the task just advanced, at most every `EVERY_S` seconds."""

    _next_s = 0.0

    def stop(self) -> None:
        """Stop without the empty line that a display of rich leaves where nothing of it is drawn."""
        self.live.stop()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Advance a task."""
        super().advance(task_id, advance)
        self._print(task_id)

    def update(self, task_id: TaskID, **fields: Any) -> None:  # noqa: ANN401 - passed on as they are
        """Update the fields of a task."""
        super().update(task_id, **fields)
        self._print(task_id)

    def _print(self, task_id: TaskID) -> None:
        now_s = self.get_time()
        if not self._next_s:
            # A short task needs no progress line: its result follows.
            self._next_s = now_s + EVERY_S
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        task = self.tasks[self.task_ids.index(task_id)]
        total = "?" if task.total is None else f"{task.total:.0f}"
        left = "" if task.time_remaining is None else f", {task.time_remaining:.0f} s left"
        self.console.print(f"{task.description}: {task.completed:.0f} of {total}{left}", highlight=False)
