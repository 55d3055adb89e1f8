"""An event loop in virtual time: one thread, no sockets, and a seeded random number decides which handle runs next.

A handle belongs to a process by a variable in its context. A process can be paused, as by SIGSTOP, and crashed, as by
SIGKILL; what it had sent before takes its course.
"""

import asyncio
import heapq
from asyncio import base_events
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import StrEnum
from random import Random
from typing import Any, TypeVar, cast

T = TypeVar("T")

MOST_STEPS = 2_000_000


class Deadlock(Exception):
    """Nothing can ever happen any more."""


class Endless(Exception):
    """More steps than any scenario needs."""


class Style(StrEnum):
    """How the process that runs next is chosen.

    Within a process it is always the handle that waits longest: asyncio promises that, and code relies on it.
    """

    EVEN = "even"
    """Each handle is as likely as the others to be the one that says whose turn it is."""
    BURSTING = "bursting"
    """Mostly the one that ran last, as long as it has anything to do."""
    STARVING = "starving"
    """One process nearly always waits for all others."""


class Process:
    """An operating system process: what runs in its context stops with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused = False
        self.dead = False
        self.held: list[_Soon | _Later] = []


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
OUTSIDE = Context()
"""The context of what belongs to no process: broker, store and network."""


class _Soon(asyncio.Handle):
    """A handle that knows its process; made without what debugging would need."""

    __slots__ = ("process",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self.process = self._context.get(PROCESS)


class _Later(asyncio.TimerHandle):
    """As `_Soon`, for timers."""

    __slots__ = ("process",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True
        self.process = self._context.get(PROCESS)


class SimulatedTask(asyncio.Task[Any]):
    """A task that hashes by the order of creation: sets of tasks then have the same order in every run."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, loop: "SimulatedLoop", context: Context | None) -> None:
        self._number = loop.next_number()
        self.own = context or copy_context()
        super().__init__(coroutine, loop=loop, context=self.own)
        self._log_destroy_pending = False

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(base_events.BaseEventLoop):
    """Run what is ready in random order; where nothing is, jump to the next timer."""

    _ready: list[_Soon | _Later]
    _scheduled: list[tuple[float, int, _Later]]

    def __init__(self, random: Random, *, style: Style = Style.EVEN) -> None:
        super().__init__()
        self._debug = False
        self._ready = []
        self._random = random
        self._style = style
        self._now_s = 0.0
        self._numbers = 0
        self._tasks: list[SimulatedTask] = []
        self._graveyard: list[_Soon | _Later] = []
        self._last: Process | None = None
        self.starved: Process | None = None
        self.steps = 0
        self.errors: list[str] = []
        """What reached no handler: exceptions of callbacks and of tasks that nobody awaited."""
        self.set_task_factory(cast("Any", self._make_task))
        self.set_exception_handler(self._note_error)

    def next_number(self) -> int:
        """Number tasks and futures."""
        self._numbers += 1
        return self._numbers

    def time(self) -> float:
        """Virtual seconds since the loop began."""
        return self._now_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back as soon as its turn comes."""
        handle = _Soon(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a virtual second."""
        handle = _Later(when, callback, args, self, context)
        self._numbers += 1
        heapq.heappush(self._scheduled, (when, self._numbers, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: it is dropped when its time comes."""

    def run_in_executor(self, _executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run the function in a step of its own, a little later."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - the caller's, as with a thread
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self._random.uniform(0.001, 0.02), work)
        return future

    def begin(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task in a process."""
        context = copy_context()
        context.run(PROCESS.set, process)
        return self.create_task(work, context=context)

    def outside(self, delay_s: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call back later, in no process."""
        return self.call_at(self._now_s + delay_s, callback, *args, context=OUTSIDE)

    def pause(self, process: Process) -> None:
        """Let nothing of a process run until it is resumed."""
        process.paused = True

    def resume(self, process: Process) -> None:
        """Let a process go on where it was."""
        process.paused = False
        self._ready += process.held
        process.held = []

    def crash(self, process: Process) -> None:
        """Let nothing of a process run ever again."""
        process.dead = True
        self._graveyard += process.held
        process.held = []

    def _make_task(
        self, _loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], *, context: Context | None = None
    ) -> SimulatedTask:
        task = SimulatedTask(coroutine, loop=self, context=context)
        # Referenced until the end: a task of a crashed process that is collected would run its `finally` blocks.
        self._tasks.append(task)
        return task

    def _note_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _run_once(self) -> None:
        """Run handles until the loop is stopped."""
        ready = self._ready
        while not self._stopping:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Endless(f"more than {MOST_STEPS} steps by second {self._now_s:.0f}")
            if not ready:
                self._jump()
            handle = ready.pop(self._place() if len(ready) > 1 else 0)
            process = self._last = handle.process
            if process is not None and (process.paused or process.dead):
                (self._graveyard if process.dead else process.held).append(handle)
            elif not handle._cancelled:
                handle._run()

    def _jump(self) -> None:
        """Move the clock to the next timer, and make ready all that are due."""
        scheduled = self._scheduled
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)
        if not scheduled:
            raise Deadlock(f"nothing is left to do at second {self._now_s:.3f}")
        self._now_s = max(self._now_s, scheduled[0][0])
        while scheduled and scheduled[0][0] <= self._now_s:
            self._ready.append(heapq.heappop(scheduled)[2])

    def _place(self) -> int:
        """Choose a process, and give the place of its handle that waits longest."""
        ready = self._ready
        wanted = ready[int(self._random.random() * len(ready))].process
        if self._style is Style.BURSTING:
            place = self._first_of(self._last)
            if place is not None and self._random.random() < 0.9:
                return place
        elif self._style is Style.STARVING and wanted is self.starved and self._random.random() < 0.95:
            wanted = next((handle.process for handle in ready if handle.process is not wanted), wanted)
        return self._first_of(wanted) or 0

    def _first_of(self, process: Process | None) -> int | None:
        return next((place for place, handle in enumerate(self._ready) if handle.process is process), None)

    def dispose(self) -> None:
        """End all coroutines and close; nothing that they do has an effect any more."""
        self._ready.clear()
        self._scheduled.clear()
        self._graveyard.clear()
        self._stopping = True
        for task in self._tasks:
            coroutine = task.get_coro()
            for _ in range(20):
                try:
                    task.own.run(coroutine.close)
                except BaseException:  # noqa: BLE001, S112 - it awaited something while it ended
                    continue
                break
        self._ready.clear()
        self._scheduled.clear()
        self._tasks.clear()
        self.set_task_factory(None)
        self.close()

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread."""

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there are no sockets."""
