"""Dead letters: records that could not be processed, with the reason, and their replay."""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

from freki.schemas.errors import Rejected
from freki.schemas.names import Timestamp, record
from freki.streams.messages import RECORDED_AT_HEADER, Headers, Outgoing, Stored, header, number_in, recorded_at
from freki.streams.ports.encryption import ValueCipher

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
_SUPERSEDED = f"{_PREFIX}superseded"
_ENCRYPTED = f"{_PREFIX}encrypted"
_PLACE = re.compile(rb"(\d{1,19})/(\d{1,19})")
REPLAYS = "freki-replays"

Letter = tuple[int, int]
"""Position of a dead letter: partition and offset on the dead letter topic."""

MESSAGE_BYTES = 2_000
"""Maximum length of an error message in a dead letter, in bytes."""
TRACEBACK_BYTES = 4_000
"""Maximum length of a traceback in a dead letter, in bytes."""
_SHORT_KEY_BYTES = 1_000
"""Maximum length of a key that the shortest dead letter keeps, in bytes."""


@record
class DeadLetter:
    """A record that a stage could not process, and the reason."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    """Headers of the record."""
    topic: str
    """Topic of the record, as are its `partition`, `offset` and `timestamp`."""
    partition: int
    offset: int
    timestamp: Timestamp
    stage: str
    error: str
    """Class name of the exception."""
    message: str
    """Message of the exception, cut to 2,000 bytes."""
    traceback: str
    """Files, lines and functions, innermost last; empty if the record is known to be bad."""
    attempts: int
    """Number of attempts; 0 if the record could not be decoded."""
    died_at: Timestamp
    omitted: str = ""
    """Size and SHA-256 of a value that does not fit the dead letter; the original record holds it while retained."""

    encrypted: bool = False
    """Whether `value` is an envelope, and `message` one in base64."""

    @property
    def replays(self) -> int:
        """Number of replays of the record before this dead letter."""
        return number_in(self.headers, REPLAYS)


class NotADeadLetter(ValueError):
    """The record lacks headers that every dead letter has."""


def to_record(letter: DeadLetter, topic: str) -> Outgoing:
    """Return a dead letter as a record: original key, value and headers, with the reason in further headers."""
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
        **({_ENCRYPTED: "true"} if letter.encrypted else {}),
    }
    return Outgoing(
        topic=topic,
        key=letter.key,
        value=b"" if nothing else letter.value,
        headers=(*letter.headers, *((name, printable(text).encode()) for name, text in reasons.items())),
    )


def without_reasons(headers: Headers) -> Headers:
    """Return headers without those of a dead letter.

    A record has them if it was copied from one, or by mistake; in its own letter they would be taken for that letter's.
    """
    return tuple((name, value) for name, value in headers if not name.startswith(_PREFIX))


def abridged(letter: DeadLetter) -> Iterator[DeadLetter]:
    """Yield the whole dead letter, then without its value, then also without headers and a long key."""
    yield letter
    if letter.value is not None:
        letter = without_value(letter)
        yield letter
    key = letter.key if len(letter.key or b"") <= _SHORT_KEY_BYTES else None
    yield replace(letter, key=key, headers=())


def without_value(letter: DeadLetter) -> DeadLetter:
    """Return a dead letter that omits its value; the same where the record has none."""
    return letter if letter.value is None else replace(letter, value=None, omitted=omitted_of(letter.value))


def omitted_of(value: bytes | None) -> str:
    """Return the description of a value that a dead letter omits: size and SHA-256."""
    return f"{len(value or b'')} bytes, SHA-256 {sha256(value or b'').hexdigest()}"


def printable(text: str) -> str:
    """Escape lone surrogates, which UTF-8 cannot encode and file names may contain."""
    return text.encode(errors="backslashreplace").decode()


def from_record(stored: Stored) -> DeadLetter:
    """Return the dead letter in a record. Raises NotADeadLetter for any other record."""
    reasons = {name: value.decode(errors="replace") for name, value in stored.headers if name.startswith(_PREFIX)}
    try:
        return DeadLetter(
            key=stored.key,
            value=None if _NULL in reasons else stored.value,
            headers=without_reasons(stored.headers),
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
            encrypted=_ENCRYPTED in reasons,
        )
    except (KeyError, ValueError) as error:
        raise NotADeadLetter(
            f"{stored.topic}/{stored.partition}/{stored.offset} is not a dead letter: {error!r}"
        ) from error


async def sealed(letter: DeadLetter, cipher: ValueCipher) -> DeadLetter:
    """Return a plain dead letter with value and message encrypted. Raises InfraError."""
    message, *value = await cipher.seal(_values(letter, letter.message.encode(errors="backslashreplace")))
    return replace(
        letter, message=b64encode(message).decode("ascii"), value=value[0] if value else None, encrypted=True
    )


async def opened(letter: DeadLetter, cipher: ValueCipher | None) -> DeadLetter:
    """Return a dead letter decrypted; one that cannot be, as it is, with the reason as its message.

    Raises Unavailable.
    """
    if not letter.encrypted:
        return letter
    if cipher is None:
        return replace(letter, message="it is encrypted: set FREKI_ENCRYPTION__KEYS as where workers run")
    try:
        message, *value = await cipher.unseal(_values(letter, b64decode(letter.message)))
    except (Rejected, ValueError) as error:
        return replace(letter, message=f"it cannot be decrypted: {error}")
    return replace(letter, message=message.decode(errors="replace"), value=value[0] if value else None, encrypted=False)


def _values(letter: DeadLetter, message: bytes) -> list[tuple[bytes, bytes]]:
    """Return message and value, if there is one, each after its place: the record of the letter, and which it is."""
    record = f"{letter.topic}/{letter.partition}/{letter.offset}"
    values = [(f"dead letter message {record}".encode(), message)]
    return values if letter.value is None else [*values, (f"dead letter value {record}".encode(), letter.value)]


def replay(letter: DeadLetter) -> Outgoing:
    """Return the original record for its topic, with its replay count incremented and its first timestamp in a header.

    The broker assigns a new timestamp: without the first one an old change would count as newer than a later deletion.
    """
    kept = tuple((name, value) for name, value in letter.headers if name not in {REPLAYS, RECORDED_AT_HEADER})
    first = recorded_at(letter.headers, letter.timestamp)
    added = ((REPLAYS, str(letter.replays + 1).encode()), (RECORDED_AT_HEADER, str(max(0, first)).encode()))
    return Outgoing(topic=letter.topic, key=letter.key, value=letter.value, headers=(*kept, *added))


def note_settled(place: Letter, topic: str, *, superseded: bool) -> Outgoing:
    """Return a note on the dead letter topic that a dead letter needs nothing more, for later readers of the topic.

    superseded: a later record of its document made it void; otherwise its record was sent again.
    """
    partition, offset = place
    name, header_name = f"{partition}/{offset}".encode(), _SUPERSEDED if superseded else _REPLAYED
    return Outgoing(topic=topic, key=b"settled/" + name, value=b"", headers=((header_name, name),))


def settled_by(stored: Stored) -> tuple[Letter, bool] | None:
    """Return the position in a note of `note_settled`, and whether it was superseded; None for any other record."""
    for name in (_REPLAYED, _SUPERSEDED):
        if found := _PLACE.fullmatch(header(stored.headers, name) or b""):
            return (int(found[1]), int(found[2])), name == _SUPERSEDED
    return None
