"""Whether a worker has started, can work, and moves."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from freki.infra.telemetry.endpoint import Checks
from freki.schemas.errors import InfraError
from freki.streams.deliver.stage import Stage

_CHECK_S = 5.0
_STORE_S = 10.0
_NO_BEAT_S = 30.0
"""The event loop does nothing that takes so long; what computes has threads of its own."""
_NOT_YET = "not yet"


class Health:
    """What probes ask. A worker that is not live should be restarted; one that is not ready will be, or waits."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat = clock()
        self._stages: Sequence[Stage] = ()
        self._has_partitions = False
        self._store = ""

    @property
    def checks(self) -> Mapping[str, Checks]:
        """Give the checks by the name of their probe."""
        return {"startup": self._startup, "ready": self._ready, "live": self._live}

    def opened(self, stages: Sequence[Stage]) -> None:
        """Note that models and connections are open."""
        self._stages = stages

    def joined(self) -> None:
        """Note that all stages are members of their consumer groups."""
        self._has_partitions = True

    async def watch(self, check_store: Callable[[], Awaitable[None]]) -> None:
        """Beat while the event loop runs, and look at the store now and then."""
        while True:
            self._beat = self._clock()
            try:
                async with asyncio.timeout(_STORE_S):
                    await check_store()
                self._store = ""
            except TimeoutError:
                self._store = f"no answer within {_STORE_S:.0f} s"
            except InfraError as error:
                self._store = str(error)
            await asyncio.sleep(_CHECK_S)

    def _startup(self) -> dict[str, str]:
        return {
            "models and connections": "" if self._stages else _NOT_YET,
            "partitions": "" if self._has_partitions else _NOT_YET,
        }

    def _ready(self) -> dict[str, str]:
        return {**self._startup(), "store": self._store}

    def _live(self) -> dict[str, str]:
        late_s = self._clock() - self._beat
        stalled = [stage.name for stage in self._stages if stage.progress.stalled]
        return {
            "event loop": f"no sign for {late_s:.0f} s" if late_s > _NO_BEAT_S else "",
            "progress": f"{', '.join(stalled)}: records wait, and none was finished for too long" if stalled else "",
        }
