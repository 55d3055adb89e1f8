"""Send results to the topics that queries ask for."""

import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from freki.schemas import ContextQuery, ContextResult, Notice, NoticeKind, ResultStatus
from freki.schemas.errors import InfraError
from freki.streams.deliver.outbox import Sink
from freki.streams.messages import Received

_REST_S = 60.0
"""Rest of a topic, in seconds, after a slow failure: a topic that does not exist fails after the delivery timeout."""
_SLOW_S = 1.0
"""Duration of a slow failure, in seconds."""

_log = structlog.get_logger(__name__)


class Replies:
    """Sends each result to the topic that its query names, or to the contexts topic.

    If the named topic does not take the result, the result goes to the contexts topic, with a notice.
    """

    def __init__(self, contexts: Sink[ContextResult], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._contexts = contexts
        self._clock = clock
        self._rests_until: dict[str, float] = {}

    async def send(
        self, received: Received[ContextQuery], result: ContextResult, *, to: str | None, private: bool = False
    ) -> None:
        """Send a result and wait for the broker. Raises the failure of the contexts topic.

        private: no other topic may hold what the result says; what goes to the contexts topic instead is REJECTED.
        """
        if to is not None and to != self._contexts.topic:
            if await self._replied(received, result, to):
                return
            message = f"{to} does not take this answer; it must exist, and the worker's log says what is wrong"
            notice = Notice(stage="reply", kind=NoticeKind.SKIPPED, message=message)
            result = _without_content(result, notice) if private else replace(result, notices=(*result.notices, notice))
        await _send(self._contexts, received, result)

    async def _replied(self, received: Received[ContextQuery], result: ContextResult, topic: str) -> bool:
        started_s = self._clock()
        if started_s < self._rests_until.get(topic, 0.0):
            return False
        try:
            await _send(replace(self._contexts, topic=topic), received, result)
        except InfraError as error:
            _log.warning("a reply topic takes no answer", topic=topic, error=repr(error))
            if self._clock() - started_s > _SLOW_S:
                self._rests_until[topic] = self._clock() + _REST_S
            return False
        return True


def _without_content(result: ContextResult, notice: Notice) -> ContextResult:
    return ContextResult(
        query_id=result.query_id,
        tenant=result.tenant,
        status=ResultStatus.REJECTED,
        hits=(),
        context="",
        analysis=None,
        variants=(),
        reranker="none",
        stages=(),
        notices=(notice,),
        advice=(),
        freshness=result.freshness,
        generation=result.generation,
        asked_at=result.asked_at,
        answered_at=result.answered_at,
        trace_id=result.trace_id,
    )


async def _send(sink: Sink[ContextResult], received: Received[ContextQuery], result: ContextResult) -> None:
    await sink.send(sink.record(result, key=received.key, trace=received.trace))
