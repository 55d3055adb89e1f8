"""Health checks of a worker: startup, readiness and liveness."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from freki.infra.telemetry.endpoint import Checks
from freki.schemas.errors import InfraError
from freki.streams.deliver.stage import Stage

_CHECK_INTERVAL_S = 5.0
"""Interval of heartbeats and store checks, in seconds."""
_STORE_S = 10.0
"""Time limit of a store check, in seconds."""
_MAX_HEARTBEAT_AGE_S = 30.0
"""Maximum age of the last heartbeat, in seconds; nothing blocks the event loop for so long, computation has threads."""
_NOT_YET = "not yet"


class Health:
    """Checks of the probes. Restart a worker that is not live; one that is not ready still starts, or waits.

    `settings` tells whether those of the file are in force: a worker that refused them is healthy by those before.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heartbeat = clock()
        self._stages: Sequence[Stage] = ()
        self._has_partitions = False
        self._is_open = False
        self._store = ""
        self._settings: Checks = dict

    @property
    def checks(self) -> Mapping[str, Checks]:
        """Checks by the name of their probe."""
        return {
            "startup": self._startup,
            "ready": self._ready,
            "live": self._live,
            "settings": self._in_force,
        }

    def observe_settings(self, check: Checks) -> None:
        """Tell from now on whether the settings of the file are in force."""
        self._settings = check

    def opened(self, stages: Sequence[Stage]) -> None:
        """Record that models and connections are open."""
        self._stages = stages
        self._is_open = True

    def opened_direct(self) -> None:
        """Record that models and connections are open in a process without stages."""
        self._is_open = self._has_partitions = True

    def joined(self) -> None:
        """Record that all stages are members of their consumer groups."""
        self._has_partitions = True

    async def watch(self, check_store: Callable[[], Awaitable[None]]) -> None:
        """Update the heartbeat, and check the store periodically."""
        while True:
            self._heartbeat = self._clock()
            try:
                async with asyncio.timeout(_STORE_S):
                    await check_store()
                self._store = ""
            except TimeoutError:
                self._store = f"no answer within {_STORE_S:.0f} s"
            except InfraError as error:
                self._store = str(error)
            await asyncio.sleep(_CHECK_INTERVAL_S)

    def _in_force(self) -> Mapping[str, str]:
        return self._settings()

    def _startup(self) -> dict[str, str]:
        return {
            "models and connections": "" if self._is_open else _NOT_YET,
            "partitions": "" if self._has_partitions else _NOT_YET,
        }

    def _ready(self) -> dict[str, str]:
        # The stages ask the broker all the time: a probe costs no call.
        deaf = [stage.name for stage in self._stages if not stage.hears_broker]
        broker = f"{', '.join(deaf)}: no answer; is Kafka up at FREKI_KAFKA__BOOTSTRAP?" if deaf else ""
        return {**self._startup(), "store": self._store, "broker": broker}

    def _live(self) -> dict[str, str]:
        age_s = self._clock() - self._heartbeat
        # Without the broker the worker ends by itself, and is not at fault.
        stalled = [stage.name for stage in self._stages if stage.hears_broker and stage.progress.stalled]
        return {
            "event loop": f"no heartbeat for {age_s:.0f} s" if age_s > _MAX_HEARTBEAT_AGE_S else "",
            "progress": f"{', '.join(stalled)}: records wait, but none was finished for too long" if stalled else "",
        }
