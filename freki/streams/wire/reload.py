"""Take over changed settings while a process runs: on a change of the file, or on request."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import structlog

from freki.infra.settings import Settings
from freki.infra.settings.reload import differences
from freki.infra.telemetry.logs import set_up_logging
from freki.infra.telemetry.traces import set_trace_share
from freki.schemas.errors import InfraError, Misconfigured
from freki.streams.observe.meters import Meters

CHECK_INTERVAL_S = 1.0
"""Interval of looking at the file, in seconds; a change counts once the file stayed as it is for so long."""
_TOLD = "the settings of the file are refused, those before stay in force"

TakeOver = Callable[[], None]
"""Makes a part use the settings that it was prepared for; cannot fail, and does not wait."""
Prepare = Callable[[Settings], TakeOver]
"""Checks settings for a part. Raises InfraError if the part cannot use them."""
Stamp = tuple[int, int, int] | None

_log = structlog.get_logger(__name__)


class SettingsSource(NamedTuple):
    """Where the settings of a process come from, and what they said at its start."""

    file: Path
    read: Callable[[], Settings]
    """Reads environment and file again; raises Misconfigured."""
    first: Settings
    sections: Collection[str]
    """Outermost names that the process uses; changes of others are none of its own."""


class ReloadableParts:
    """Parts of a process that take over settings."""

    def __init__(self) -> None:
        self._parts: list[Prepare] = []
        self._last: Settings | None = None

    def add(self, prepare: Prepare, *, opened_by: Settings | None = None) -> AbstractContextManager[object]:
        """Add a part; leaving the context removes it.

        opened_by: settings in force when its opening began; those taken over meanwhile it takes over now. Raises
        InfraError if it cannot use them.
        """
        if opened_by is not None and self._last is not None and self._last is not opened_by:
            prepare(self._last)()
        self._parts.append(prepare)
        removing = ExitStack()
        removing.callback(self._parts.remove, prepare)
        return removing

    def prepare(self, settings: Settings) -> TakeOver:
        """Let all parts check settings. Raises InfraError if one of them cannot use them."""
        prepared = [prepare(settings) for prepare in self._parts]

        def take_over() -> None:
            for each in prepared:
                each()
            self._last = settings

        return take_over


async def _nothing(_names: Sequence[str]) -> None:
    pass


def telemetry_by(settings: Settings) -> TakeOver:
    """Return what makes log and traces of this process follow the settings."""

    def take_over() -> None:
        set_up_logging(settings.telemetry)
        set_trace_share(settings.telemetry.trace_share)

    return take_over


class Reloader:
    """Holds the settings in force, and takes over all that changed, or nothing."""

    def __init__(self, source: SettingsSource, settings: Settings, *, meters: Meters | None = None) -> None:
        """Create a reloader; settings: in force, which may name other servers than the source, those of a stack."""
        self.settings = settings
        self.reloadable = ReloadableParts()
        self.record: Callable[[Sequence[str]], Awaitable[None]] = _nothing
        """Called with the names of the settings that are about to change; raises Unavailable to prevent it."""
        self._source = source
        self._read = source.first
        self._meters = meters or Meters()
        self._problem = ""
        self._stamp = _stamp(source.file)
        self._had_file = self._stamp is not None
        self._asked = asyncio.Event()
        self._reloading = asyncio.Lock()

    def ask(self) -> None:
        """Read the settings soon, whether or not the file has changed."""
        self._asked.set()

    def check(self) -> dict[str, str]:
        """Return why the settings of the file are refused, empty if they are in force. Thread-safe."""
        return {"settings": self._problem}

    async def follow(self) -> None:
        """Reload on each change of the file and on request, until cancelled."""
        settled = self._stamp
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), CHECK_INTERVAL_S)
            stamp = await asyncio.to_thread(_stamp, self._source.file)
            if self._asked.is_set():
                self._asked.clear()
            elif stamp == settled or stamp != self._stamp:
                # Nothing new, or somebody may still be writing.
                self._stamp = stamp
                continue
            settled = self._stamp = stamp
            await self.reload()

    async def reload(self) -> Sequence[str]:
        """Read the settings, and take over what changed; return its names, none where nothing did or all is refused."""
        async with self._reloading:
            try:
                changed = await self._changed()
            except InfraError as error:
                self._refuse(str(error))
                return ()
            except Exception as error:  # noqa: BLE001 - whatever the file holds, what runs goes on
                self._refuse(f"{self._source.file} cannot be used: {error!r}")
                return ()
            self._problem = ""
            if changed:
                _log.info("settings were taken over", changed=changed)
            else:
                _log.info("settings were read; nothing that counts here has changed")
            self._meters.count_reload(refused=False)
            return changed

    async def _changed(self) -> Sequence[str]:
        if self._had_file and not self._source.file.exists():
            raise Misconfigured(f"{self._source.file} is gone: put it back, or restart without it")
        after = await asyncio.to_thread(self._source.read)
        names = differences(self._read, after, sections=self._source.sections)
        if names.restarting:
            raise Misconfigured(
                f"{', '.join(names.restarting)} changed and {'is' if len(names.restarting) == 1 else 'are'} read at "
                "the start only: restart this process, or take the change back; nothing was taken over"
            )
        if names.reloading:
            # Servers and folders may be those of a local stack, which no file names.
            changed = {name for name, value in after if value != getattr(self._read, name)} & {*self._source.sections}
            settings = self.settings.model_copy(update={name: getattr(after, name) for name in changed})
            take_over = self.reloadable.prepare(settings)
            await self.record(names.reloading)
            take_over()
            self.settings = settings
        self._read, self._had_file = after, self._source.file.exists()
        return names.reloading

    def _refuse(self, problem: str) -> None:
        self._problem = problem
        self._meters.count_reload(refused=True)
        for line in problem.splitlines():
            _log.error(_TOLD, why=line)


def _stamp(file: Path) -> Stamp:
    """Return what changes when a file is written or replaced; None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
