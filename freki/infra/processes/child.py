"""Calls of a function in child processes, isolated from crashes, hangs and excessive memory."""

import asyncio
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from multiprocessing.connection import Pipe
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar

from freki.infra.processes.environment import without_settings
from freki.infra.processes.served import Outcome, Setup
from freki.infra.settings import ParsingSettings
from freki.schemas.errors import Rejected, Unavailable

P = ParamSpec("P")
R = TypeVar("R")

MAX_CALLS = 200
"""Maximum calls per child, which bounds leaks of native libraries."""

_START_TIMEOUT_S = 30.0
"""Timeout for the start of a child; half a second is usual, more on a swapping machine."""
_REMEMBER_S = 3600.0
"""Time for which a timed-out input is rejected immediately: a failed batch is retried in halves."""

_FIXES = {"SIGKILL": "the machine ran out of memory; split it, or give the worker more"}
# Native libraries abort when out of memory.
_USUAL_FIX = "damaged, or too large for FREKI_PARSING__MAX_MEMORY_MB; open it and save or print it again"

# Not `multiprocessing`, which would first import the main program.
_BOOT = (
    "import sys; sys.path[:] = sys.argv[2:]; from freki.infra.processes.served import serve; serve(int(sys.argv[1]))"
)


class Children(Generic[P, R]):
    """A pool of processes that call one function, started on demand, ended on exit.

    The function must be importable, or a `partial` of such. Its first argument names the input. A call returns and
    raises as the function does; in addition it raises Rejected, with the name and the fix, if it exceeds time or
    memory or ends two processes in a row, and Unavailable if no process can be started.
    """

    def __init__(self, work: Callable[Concatenate[str, P], R], settings: ParsingSettings) -> None:
        self._settings = settings
        self._setup = pickle.dumps(Setup(work, settings.max_memory_mb << 20, settings.timeout_s))
        self._turns = asyncio.Semaphore(settings.processes)
        self._idle: list[_Child] = []
        self._refused: dict[bytes, _Refusal] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._idle:
            await asyncio.to_thread(self._idle.pop().close)

    async def __call__(self, name: str, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in a child."""
        request = await asyncio.to_thread(pickle.dumps, ((name, *args), kwargs))
        key = blake2b(request, digest_size=16).digest()
        if (refusal := self._refused.get(key)) and time.monotonic() < refusal.until_s:
            raise Rejected(refusal.reason)
        async with self._turns:
            result, error = await self._outcome(name, key, request)
        if isinstance(error, MemoryError):
            setting = f"more than {self._settings.max_memory_mb} MB to parse: split it, or raise"
            raise self._refuse(key, f"{name}: took {setting} FREKI_PARSING__MAX_MEMORY_MB") from error
        if error is not None:
            raise error
        return result

    async def _outcome(self, name: str, key: bytes, request: bytes) -> "Outcome[R]":
        try:
            return await self._answer(request)
        except TimeoutError as error:
            setting = f"more than {self._settings.timeout_s:g} s to parse: split it, or raise"
            raise self._refuse(key, f"{name}: took {setting} FREKI_PARSING__TIMEOUT_S") from error
        except _EndedError as error:
            fix = _FIXES.get(str(error), _USUAL_FIX)
            raise self._refuse(key, f"{name}: ended the parser ({error}): {fix}") from error

    async def _answer(self, request: bytes) -> "Outcome[R]":
        """Call a child; retry in a new one if the first ended, which may have been killed by mistake."""
        with suppress(_EndedError):
            return await self._ask(self._idle.pop() if self._idle else await self._started(), request)
        return await self._ask(await self._started(), request)

    async def _ask(self, child: "_Child", request: bytes) -> "Outcome[R]":
        answer: Outcome[R] = await _within(self._settings.timeout_s, child, request)
        if child.calls > MAX_CALLS or isinstance(answer.error, MemoryError):
            await asyncio.to_thread(child.close)
        else:
            self._idle.append(child)
        return answer

    async def _started(self) -> "_Child":
        try:
            child = await asyncio.to_thread(_Child)
            await _within(_START_TIMEOUT_S, child, self._setup)
        except (_EndedError, OSError) as error:
            reason = str(error) or f"no answer in {_START_TIMEOUT_S:g} s"
            raise Unavailable(f"no process to parse in could be started: {reason}; the log says more") from error
        return child

    def _refuse(self, key: bytes, reason: str) -> Rejected:
        now_s = time.monotonic()
        current = {known: refusal for known, refusal in self._refused.items() if now_s < refusal.until_s}
        self._refused = {**current, key: _Refusal(reason, now_s + _REMEMBER_S)}
        return Rejected(reason)


class _Refusal(NamedTuple):
    reason: str
    until_s: float
    """Deadline by the monotonic clock."""


class _EndedError(Exception):
    """The child ended before its answer, with a signal or status."""


class _Child:
    """A process and its connection. All methods except `kill` block."""

    def __init__(self) -> None:
        self.calls = 0
        self._line, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-c", _BOOT, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=without_settings(),
                pass_fds=(theirs.fileno(),),
            )

    def ask(self, request: bytes) -> Any:  # noqa: ANN401 - whatever the function gives
        """Send a request and wait for the answer. Raises _EndedError if the process ends."""
        self.calls += 1
        try:
            self._line.send_bytes(request)
            answer = self._line.recv_bytes()
        except (EOFError, OSError) as error:
            self.close()
            raise _EndedError(self._how) from error
        return pickle.loads(answer)  # noqa: S301 - from our own child

    def close(self) -> None:
        """End the idle process."""
        self._line.close()
        self._process.wait()

    def kill(self) -> None:
        """Kill the process; the thread that waits for its answer cleans up."""
        self._process.kill()

    @property
    def _how(self) -> str:
        status = self._process.returncode
        return f"exit status {status}" if status >= 0 else signal.Signals(-status).name


async def _within(limit_s: float, child: _Child, request: bytes) -> Any:  # noqa: ANN401 - as `_Child.ask`
    """Call a child; kill it on timeout or cancellation."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(child.ask, request), limit_s)
    except BaseException:
        child.kill()
        raise
