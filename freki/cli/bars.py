"""How far something is: as bars where somebody watches, as a line now and then where the output is a file."""

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from freki.cli.context import errors

EVERY_S = 30.0


def bars(console: Console = errors) -> Progress:
    """Show how far it is."""
    kind = Progress if console.is_terminal else Lines
    return kind(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


class Lines(Progress):
    """Prints the task that has just moved, twice a minute at most."""

    _next_s = 0.0

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Note that a task moved on."""
        super().advance(task_id, advance)
        self._tell(task_id)

    def update(self, task_id: TaskID, **fields: Any) -> None:  # noqa: ANN401 - passed on as they are
        """Note what changed about a task."""
        super().update(task_id, **fields)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        now_s = self.get_time()
        if not self._next_s:
            # What is over soon says so by its result.
            self._next_s = now_s + EVERY_S
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        task = self.tasks[self.task_ids.index(task_id)]
        total = "?" if task.total is None else f"{task.total:.0f}"
        left = "" if task.time_remaining is None else f", {task.time_remaining:.0f} s left"
        self.console.print(f"{task.description}: {task.completed:.0f} of {total}{left}", highlight=False)
