"""Sends answers where their askers want them."""

import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from freki.schemas import ContextQuery, ContextResult, Notice, NoticeKind
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Outgoing, Received

_REST_S = 60.0
"""How long a topic is left alone that failed slowly: a topic that does not exist fails after the delivery timeout."""
_SLOW_S = 1.0

_log = structlog.get_logger(__name__)


class Replies:
    """Sends each answer to the topic that its question names, or to the topic of all answers.

    A topic that is gone, may not be written, or does not take the answer is the question's trouble: its answer goes to
    the topic of all answers, with a notice.
    """

    def __init__(
        self,
        *,
        encode: Callable[[ContextResult], bytes],
        outbox: Outbox,
        sink: str,
        failures: tuple[type[Exception], ...],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._encode = encode
        self._outbox = outbox
        self._sink = sink
        self._failures = failures
        self._clock = clock
        self._rests_until: dict[str, float] = {}

    async def send(self, received: Received[ContextQuery], result: ContextResult, *, to: str | None) -> None:
        """Return when the broker has the answer; raises what kept it from the topic of all answers."""
        if to is not None and to != self._sink:
            if await self._replied(received, result, to):
                return
            message = f"{to} does not take this answer; it must exist, and the worker's log says what is wrong"
            notice = Notice(stage="reply", kind=NoticeKind.SKIPPED, message=message)
            result = replace(result, notices=(*result.notices, notice))
        await self._outbox.send(self._outgoing(received, result, self._sink))

    async def _replied(self, received: Received[ContextQuery], result: ContextResult, topic: str) -> bool:
        started_s = self._clock()
        if started_s < self._rests_until.get(topic, 0.0):
            return False
        try:
            await self._outbox.send(self._outgoing(received, result, topic))
        except self._failures as error:
            _log.warning("a reply topic takes no answer", topic=topic, error=repr(error))
            if self._clock() - started_s > _SLOW_S:
                self._rests_until[topic] = self._clock() + _REST_S
            return False
        return True

    def _outgoing(self, received: Received[ContextQuery], result: ContextResult, topic: str) -> Outgoing:
        return Outgoing(topic=topic, key=received.key, value=self._encode(result), trace=received.trace)
