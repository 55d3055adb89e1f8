"""Records that could not be processed, parked with the reason, and how they are sent again."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

from freki.schemas.names import Timestamp, record
from freki.streams.messages import RECORDED_AT_HEADER, Headers, Outgoing, Stored, header, recorded_at

_PREFIX = "freki-dead-letter-"
_TOPIC = f"{_PREFIX}topic"
_PARTITION = f"{_PREFIX}partition"
_OFFSET = f"{_PREFIX}offset"
_TIMESTAMP = f"{_PREFIX}timestamp"
_STAGE = f"{_PREFIX}stage"
_ERROR = f"{_PREFIX}error"
_MESSAGE = f"{_PREFIX}message"
_TRACEBACK = f"{_PREFIX}traceback"
_ATTEMPTS = f"{_PREFIX}attempts"
_DIED_AT = f"{_PREFIX}died-at"
_NULL = f"{_PREFIX}null-value"
_OMITTED = f"{_PREFIX}omitted"
_REPLAYED = f"{_PREFIX}replayed"
REPLAYS = "freki-replays"

Letter = tuple[int, int]
"""Where a dead letter lies: partition and offset of its topic."""

MESSAGE_BYTES = 2_000
TRACEBACK_BYTES = 4_000
_SHORT_KEY_BYTES = 1_000


@record
class DeadLetter:
    """A record that some stage could not process, and why."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    """As the record had them."""
    topic: str
    """Where the record lay, as `partition`, `offset` and `timestamp` say too."""
    partition: int
    offset: int
    timestamp: Timestamp
    stage: str
    error: str
    """Name of the exception's class."""
    message: str
    """Its words, as far as they fit 2,000 bytes."""
    traceback: str
    """Files, lines and functions, innermost last; empty where the record is known to be bad."""
    attempts: int
    """How often the stage tried; 0 where the record could not even be read."""
    died_at: Timestamp
    omitted: str = ""
    """Size and SHA-256 of the value where the letter had no room for it; the record has it, as long as it is kept."""

    @property
    def replays(self) -> int:
        """How often the record was sent again before it died this time."""
        return _replays(self.headers)


class NotADeadLetter(ValueError):
    """The record lacks the headers that every dead letter has."""


def to_record(letter: DeadLetter, topic: str) -> Outgoing:
    """Write a dead letter as a record: key, value and headers as they were, and the reason in further headers."""
    # Kafka's clients refuse a record with neither key nor value.
    nothing = letter.key is None and letter.value is None
    reasons = {
        _TOPIC: letter.topic,
        _PARTITION: str(letter.partition),
        _OFFSET: str(letter.offset),
        _TIMESTAMP: str(letter.timestamp),
        _STAGE: letter.stage,
        _ERROR: letter.error,
        _MESSAGE: letter.message,
        _TRACEBACK: letter.traceback,
        _ATTEMPTS: str(letter.attempts),
        _DIED_AT: str(letter.died_at),
        **({_NULL: "true"} if nothing else {}),
        **({_OMITTED: letter.omitted} if letter.omitted else {}),
    }
    return Outgoing(
        topic=topic,
        key=letter.key,
        value=b"" if nothing else letter.value,
        headers=(*letter.headers, *((name, printable(text).encode()) for name, text in reasons.items())),
    )


def abridged(letter: DeadLetter) -> Iterator[DeadLetter]:
    """Give the letter whole, then without its value, then also without headers and a long key."""
    yield letter
    if (value := letter.value) is not None:
        letter = replace(letter, value=None, omitted=omitted_of(value))
        yield letter
    key = letter.key if len(letter.key or b"") <= _SHORT_KEY_BYTES else None
    yield replace(letter, key=key, headers=())


def omitted_of(value: bytes | None) -> str:
    """Say what a letter says of a value that it has no room for."""
    return f"{len(value or b'')} bytes, SHA-256 {sha256(value or b'').hexdigest()}"


def printable(words: str) -> str:
    """Escape what UTF-8 cannot write: lone surrogates, as file names have them."""
    return words.encode(errors="backslashreplace").decode()


def from_record(stored: Stored) -> DeadLetter:
    """Read a dead letter; raises NotADeadLetter for any other record."""
    reasons = {name: value.decode(errors="replace") for name, value in stored.headers if name.startswith(_PREFIX)}
    try:
        return DeadLetter(
            key=stored.key,
            value=None if _NULL in reasons else stored.value,
            headers=tuple((name, value) for name, value in stored.headers if not name.startswith(_PREFIX)),
            topic=reasons[_TOPIC],
            partition=int(reasons[_PARTITION]),
            offset=int(reasons[_OFFSET]),
            timestamp=Timestamp(int(reasons[_TIMESTAMP])),
            stage=reasons[_STAGE],
            error=reasons[_ERROR],
            message=reasons[_MESSAGE],
            traceback=reasons[_TRACEBACK],
            attempts=int(reasons[_ATTEMPTS]),
            died_at=Timestamp(int(reasons[_DIED_AT])),
            omitted=reasons.get(_OMITTED, ""),
        )
    except (KeyError, ValueError) as error:
        raise NotADeadLetter(
            f"{stored.topic}/{stored.partition}/{stored.offset} is not a dead letter: {error!r}"
        ) from error


def replay(letter: DeadLetter) -> Outgoing:
    """Give the record again as it was, for its topic, with one more replay counted and its time kept.

    The broker stamps it anew: without its first time an old change would count as later than a deletion in between.
    """
    kept = tuple((name, value) for name, value in letter.headers if name not in {REPLAYS, RECORDED_AT_HEADER})
    first = recorded_at(letter.headers, letter.timestamp)
    added = ((REPLAYS, str(letter.replays + 1).encode()), (RECORDED_AT_HEADER, str(max(0, first)).encode()))
    return Outgoing(topic=letter.topic, key=letter.key, value=letter.value, headers=(*kept, *added))


def note_replayed(place: Letter, topic: str) -> Outgoing:
    """Write beside the dead letters that one of them was sent again, for whoever reads them later."""
    partition, offset = place
    name = f"{partition}/{offset}".encode()
    return Outgoing(topic=topic, key=b"replayed/" + name, value=b"", headers=((_REPLAYED, name),))


def replayed_by(stored: Stored) -> Letter | None:
    """Read such a note; None for any other record."""
    partition, slash, offset = (header(stored.headers, _REPLAYED) or b"").partition(b"/")
    return (int(partition), int(offset)) if slash and partition.isdigit() and offset.isdigit() else None


def _replays(headers: Headers) -> int:
    count = header(headers, REPLAYS)
    return int(count) if count is not None and count.isdigit() else 0
