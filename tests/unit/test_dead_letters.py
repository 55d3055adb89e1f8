import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import NoOpTracer

from freki.infra.keys import Cipher, make_keys
from freki.schemas import Timestamp
from freki.schemas.names import is_known
from freki.streams.deliver.dead_letter_queue import DeadLetterQueue
from freki.streams.deliver.dead_letters import (
    DeadLetter,
    NotADeadLetter,
    from_record,
    note_settled,
    opened,
    replay,
    sealed,
    settled_by,
    to_record,
)
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Outgoing, recorded_at
from tests.unit.deliveries import Event, FakeProducer, dead_letter

_KEYS = make_keys(Path(tempfile.mkdtemp()) / "freki.keys")

letters = st.builds(
    DeadLetter,
    key=st.none() | st.binary(),
    value=st.none() | st.binary(),
    headers=st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=3).map(tuple),
    topic=st.text(),
    partition=st.integers(min_value=0),
    offset=st.integers(min_value=0),
    timestamp=st.integers(min_value=-1, max_value=10**18 - 1).map(Timestamp),
    stage=st.text(),
    error=st.text(),
    message=st.text(),
    traceback=st.text(),
    attempts=st.integers(min_value=0),
    died_at=st.integers(min_value=0).map(Timestamp),
    omitted=st.text(),
)


def stored(record: Outgoing) -> Event:
    return Event(topic=record.topic, key=record.key, value=record.value, headers=record.headers)


@given(letter=letters)
def test_writing_then_reading_a_dead_letter_is_the_identity(letter: DeadLetter) -> None:
    assert from_record(stored(to_record(letter, "dead-letters"))) == letter


@given(letter=letters)
def test_every_dead_letter_has_a_key_or_a_value_as_kafka_demands(letter: DeadLetter) -> None:
    record = to_record(letter, "dead-letters")

    assert record.key is not None or record.value is not None


@given(letter=letters)
def test_a_replay_is_the_record_as_it_was_with_one_more_replay_counted(letter: DeadLetter) -> None:
    record = replay(letter)

    assert (record.topic, record.key, record.value) == (letter.topic, letter.key, letter.value)
    assert record.headers[:-1] == (*letter.headers, ("freki-replays", b"1"))
    first = letter.timestamp if is_known(letter.timestamp) else 2**62
    assert recorded_at(record.headers, Timestamp(2**62)) == first


def test_replays_are_counted_however_often_a_record_dies() -> None:
    letter = dead_letter(headers=(("h", b"1"),))

    once = from_record(stored(to_record(_died_again(replay(letter)), "dead-letters")))
    twice = from_record(stored(to_record(_died_again(replay(once)), "dead-letters")))

    assert (letter.replays, once.replays, twice.replays) == (0, 1, 2)
    assert twice.headers == (("h", b"1"), ("freki-replays", b"2"), ("freki-recorded-at", b"0"))


def test_a_number_in_a_header_that_is_longer_than_python_reads_stops_no_reader() -> None:
    number = b"9" * 5_000
    letter = from_record(stored(to_record(dead_letter(headers=(("freki-replays", number),)), "dead-letters")))

    assert letter.replays == 0
    assert replay(letter).headers[0] == ("freki-replays", b"1")
    assert settled_by(Event(headers=(("freki-dead-letter-replayed", b"0/" + number),))) is None


def _died_again(record: Outgoing) -> DeadLetter:
    return dead_letter(key=record.key, value=record.value, headers=record.headers, topic=record.topic)


_POSITIONS = st.integers(min_value=0, max_value=2**63 - 1)


@given(place=st.tuples(_POSITIONS, _POSITIONS), superseded=st.booleans(), letter=letters)
def test_a_note_says_why_its_letter_is_settled_and_is_none(
    place: tuple[int, int],
    superseded: bool,  # noqa: FBT001
    letter: DeadLetter,
) -> None:
    note = stored(note_settled(place, "dead-letters", superseded=superseded))

    assert settled_by(note) == (place, superseded)
    assert settled_by(stored(to_record(letter, "dead-letters"))) is None
    with pytest.raises(NotADeadLetter):
        from_record(note)


@given(letter=letters, died=letters)
def test_a_record_that_was_a_dead_letter_once_gets_a_letter_of_its_own(letter: DeadLetter, died: DeadLetter) -> None:
    # Copied with its headers, as tools do.
    copied = to_record(replace(letter, encrypted=True), "documents")
    noted = replace(copied, headers=(*copied.headers, *note_settled((0, 5), "dead-letters", superseded=False).headers))
    queue = DeadLetterQueue[bytes](Outbox(FakeProducer(), NoOpTracer()), "dead-letters")

    record = stored(to_record(queue.letter(stored(noted), ValueError(died.message), stage="s", attempts=1), "d"))
    own = from_record(record)

    assert settled_by(record) is None
    assert (own.omitted, own.encrypted, own.stage) == ("", False, "s")
    assert own.value == copied.value
    assert own.headers == letter.headers


@pytest.mark.parametrize(
    ("header", "timestamp", "recorded"),
    [(b"5", 9, 5), (b"9", 5, 5), (b"-1", 9, 9), (b"junk", 9, 9), (b"", 9, 9), (b"9" * 40, 5, 5), (b"5", -1, -1)],
)
def test_the_time_of_a_record_may_be_put_back_and_never_forward(header: bytes, timestamp: int, recorded: int) -> None:
    assert recorded_at((("freki-recorded-at", header),), Timestamp(timestamp)) == recorded


@pytest.mark.parametrize("headers", [(), (("freki-dead-letter-topic", b"documents"),)])
def test_other_records_are_not_taken_for_dead_letters(headers: tuple[tuple[str, bytes], ...]) -> None:
    with pytest.raises(NotADeadLetter, match="documents/0/0"):
        from_record(Event(headers=headers))


@given(letter=letters)
async def test_an_encrypted_dead_letter_comes_back_as_it_was(letter: DeadLetter) -> None:
    cipher = Cipher(_KEYS, cache_s=60)
    plain = replace(letter, encrypted=False)
    written = await sealed(plain, cipher)
    read = from_record(stored(to_record(written, "dead-letters")))
    assert await opened(read, cipher) == plain
    assert await opened(plain, None) == plain
    if len(plain.value or b"") > 8:
        assert (plain.value or b"") not in (read.value or b"")
    assert len(plain.message) < 8 or plain.message not in read.message


async def test_an_encrypted_dead_letter_that_cannot_be_read_says_why() -> None:
    letter = dead_letter(value=b"a sentence", offset=2, message="quotes a sentence")
    cipher = Cipher(_KEYS, cache_s=60)
    written = await sealed(letter, cipher)
    assert "FREKI_ENCRYPTION__KEYS" in (await opened(written, None)).message
    moved = await opened(replace(written, offset=3), cipher)
    assert moved.encrypted
    assert "cannot be decrypted" in moved.message
