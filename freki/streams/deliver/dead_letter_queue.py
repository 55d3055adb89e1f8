"""Send records that cannot be processed to the dead letter topic, and report them."""

import time
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import structlog

from freki.schemas.names import Timestamp
from freki.streams.deliver.dead_letters import (
    MESSAGE_BYTES,
    TRACEBACK_BYTES,
    DeadLetter,
    abridged,
    printable,
    sealed,
    to_record,
    without_reasons,
)
from freki.streams.deliver.errors import ErrorAction, action_for, stops_stage
from freki.streams.deliver.outbox import Outbox
from freki.streams.deliver.retry import Retry
from freki.streams.messages import Received, Stored, without_token
from freki.streams.ports.encryption import ValueCipher

T = TypeVar("T")

OnDeadLetter = Callable[[DeadLetter, Received[T] | None], Awaitable[None]]
"""Callback after a record became a dead letter; the received record is None if it could not be decoded."""

_log = structlog.get_logger(__name__)


class DeadLetterQueue(Generic[T]):
    """Dead letter topic, as one stage uses it."""

    def __init__(
        self,
        outbox: Outbox,
        topic: str,
        *,
        on_dead_letter: OnDeadLetter[T] | None = None,
        cipher: ValueCipher | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._outbox = outbox
        self._topic = topic
        self._on_dead_letter = on_dead_letter
        self._cipher = cipher
        self._clock = clock

    def letter(self, stored: Stored, error: Exception, *, stage: str, attempts: int) -> DeadLetter:
        """Return the dead letter of a record and its error; attempts: 0 if the record could not be decoded."""
        is_expected = attempts == 0 or action_for(error) is ErrorAction.DEAD_LETTER
        return DeadLetter(
            key=stored.key,
            value=stored.value,
            headers=without_reasons(without_token(stored.headers)),
            topic=stored.topic,
            partition=stored.partition,
            offset=stored.offset,
            timestamp=Timestamp(stored.timestamp_ms),
            stage=stage,
            error=type(error).__qualname__,
            message=_message_of(error).encode()[:MESSAGE_BYTES].decode(errors="ignore"),
            traceback="" if is_expected else _frames_of(error).encode()[-TRACEBACK_BYTES:].decode(errors="ignore"),
            attempts=attempts,
            died_at=Timestamp(int(self._clock() * 1000)),
        )

    async def add(self, letter: DeadLetter, retry: Retry) -> None:
        """Send a dead letter with as much of its record as fits the topic's maximum record size."""
        *longer, shortest = abridged(letter)
        for version in longer:
            try:
                await retry.while_unavailable(partial(self._send, version))
            except Exception as error:
                if stops_stage(error):
                    raise
                _log.warning("the record is too large for its dead letter", stage=letter.stage, error=repr(error))
            else:
                return
        await retry.while_unavailable(partial(self._send, shortest))

    async def _send(self, letter: DeadLetter) -> None:
        written = letter if self._cipher is None else await sealed(letter, self._cipher)
        await self._outbox.send(to_record(written, self._topic))

    async def report(self, letter: DeadLetter, received: Received[T] | None, retry: Retry) -> None:
        """Call `on_dead_letter`; log an error that the record causes, because the dead letter is already stored."""
        if self._on_dead_letter is None:
            return
        try:
            await retry.while_unavailable(partial(self._on_dead_letter, letter, received))
        except Exception as error:
            if stops_stage(error):
                raise
            _log.exception(
                "could not send the receipt of a dead letter",
                stage=letter.stage,
                topic=letter.topic,
                offset=letter.offset,
            )


def _message_of(error: Exception) -> str:
    """Return the message of an error as printable text; empty if `str(error)` itself fails."""
    try:
        return printable(str(error))
    except Exception:  # noqa: BLE001 - no error may stop the stage
        return ""


def _frames_of(error: Exception) -> str:
    """Return the frames of the traceback, innermost last, without source lines, including those of a child process."""
    here = (f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__))
    return printable("\n".join((*here, *map(str, getattr(error, "__notes__", ())))))
