"""Send answers to the topics that queries name."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import structlog

from freki.schemas import DocumentReport, ErasureReport
from freki.schemas.errors import InfraError
from freki.streams.deliver.outbox import Sink
from freki.streams.messages import Received

_PATIENCE_S = 2.0
"""Time for a topic to take an answer, in seconds: other answers wait meanwhile, and Kafka's client waits for a topic
that does not exist as long as for a broker."""
_REST_S = 60.0
"""Rest of a topic, in seconds, after it took longer."""

_log = structlog.get_logger(__name__)

A = TypeVar("A")
R = TypeVar("R", DocumentReport, ErasureReport)
A_contra = TypeVar("A_contra", contravariant=True)


class SendsAnswers(Protocol[A_contra]):
    """Sends answers to those who asked."""

    async def send(self, received: Received[Any], answer: A_contra, *, to: str | None, private: bool = False) -> bool:
        """Send an answer; return whether the topic took it that it was meant for.

        to: the topic that the query names. private: no other place may hold what the answer says.
        """


class Replies(Generic[A]):
    """Sends each answer to the topic that its query names, or to the topic of all answers.

    If the named topic does not take the answer, it goes to the topic of all answers, with a note that says so.
    """

    def __init__(
        self,
        common: Sink[A],
        *,
        noted: Callable[[A, str], A],
        emptied: Callable[[A, str], A] | None = None,
    ) -> None:
        """Set the topic of all answers.

        noted: returns an answer with a note. emptied: returns what may be read by all of an answer that may not, with a
        note; None: no answer is private.
        """
        self._common = common
        self._noted = noted
        self._emptied = emptied or noted
        self._rests_until: dict[str, float] = {}

    async def send(self, received: Received[Any], answer: A, *, to: str | None, private: bool = False) -> bool:
        """Send an answer and wait for the broker; return whether the topic took it that it was meant for.

        Raises the failure of the topic of all answers.
        private: no other topic than the named one may hold what the answer says.
        """
        if to is None or to == self._common.topic:
            await _send(self._common, received, answer)
            return True
        if await self._replied(received, answer, to):
            return True
        note = self._emptied if private else self._noted
        answer = note(answer, f"{to} does not take this answer; it must exist, and the worker's log says what is wrong")
        await _send(self._common, received, answer)
        return False

    async def _replied(self, received: Received[Any], answer: A, topic: str) -> bool:
        loop = asyncio.get_running_loop()
        if loop.time() < self._rests_until.get(topic, 0.0):
            return False
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await _send(replace(self._common, topic=topic), received, answer)
        except InfraError as error:
            _log.warning("a reply topic takes no answer", topic=topic, error=repr(error))
            return False
        except TimeoutError:
            # It may take this one yet: the same answer twice is better than none.
            _log.warning("a reply topic took no answer in time; does it exist?", topic=topic, rest_s=_REST_S)
            self._rests_until[topic] = loop.time() + _REST_S
            return False
        return True


async def _send(sink: Sink[A], received: Received[Any], answer: A) -> None:
    await sink.send(sink.record(answer, key=received.key, trace=received.trace))


def with_message(report: R, message: str) -> R:
    """Return a report that says a message too, behind its own."""
    return replace(report, message=" ".join(filter(None, (report.message, message))))
