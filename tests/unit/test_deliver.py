import asyncio
from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas.errors import Misconfigured
from freki.streams.deliver.dead_letters import DeadLetter, from_record
from freki.streams.deliver.errors import ErrorAction, action_for
from freki.streams.deliver.intake import or_tombstone, required
from freki.streams.deliver.retry import Backoff
from freki.streams.messages import Headers, Outgoing, Received
from tests.unit.deliveries import Bad, Bench, Down, Event, FakeProducer, Sent, WrongSetting

Batch = Sequence[Received[str]]


def text(value: bytes) -> str:
    return value.decode()


def events(*values: str) -> list[Event]:
    return [Event(offset=offset, key=b"key", value=value.encode()) for offset, value in enumerate(values)]


class Work:
    """Remembers what was done; `raises` says what a value does."""

    def __init__(self, **raises: Exception) -> None:
        self.raises = raises
        self.done: list[str] = []
        self.batches: list[list[str]] = []

    async def __call__(self, batch: Batch) -> None:
        self.batches.append([received.value for received in batch])
        for received in batch:
            if received.value in self.raises:
                raise self.raises[received.value]
        self.done.extend(received.value for received in batch)


class Recovers(Work):
    """Fails as often as it is told, then works."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = list(failures)

    async def __call__(self, batch: Batch) -> None:
        if self.failures:
            raise self.failures.pop(0)
        await super().__call__(batch)


async def test_a_batch_without_failures_is_handled_once_and_whole() -> None:
    bench, work = Bench(), Work()

    await bench.delivery(decode=required(text), handle=work).deliver(events("a", "b", "c"), group="g")

    assert work.batches == [["a", "b", "c"]]
    assert bench.producer.sent == []


async def test_a_record_that_cannot_be_decoded_is_parked_as_it_was_and_the_others_are_handled() -> None:
    bench, work = Bench(), Work()
    poison = Event(offset=1, key=b"k", value=b"\xff", headers=(("h", b"1"), ("h", b"2")), timestamp_ms=7, partition=3)

    await bench.delivery(decode=required(text), handle=work).deliver([*events("a"), poison, *events("b")], group="g")

    assert work.batches == [["a", "b"]]
    [letter] = map(from_record, bench.dead)
    assert (letter.key, letter.value) == (b"k", b"\xff")
    assert letter.headers[:2] == (("h", b"1"), ("h", b"2"))
    assert (letter.topic, letter.partition, letter.offset, letter.timestamp) == ("documents", 3, 1, 7)
    assert (letter.stage, letter.error, letter.attempts, letter.died_at) == ("stage", "UnicodeDecodeError", 0, 42_000)


async def test_whatever_a_decoder_raises_parks_the_record() -> None:
    bench, work = Bench(), Work()

    def explode(_: bytes) -> str:
        raise Down("a decoder has no business with the world")

    await bench.delivery(decode=required(explode), handle=work).deliver(events("a"), group="g")

    assert [from_record(sent).error for sent in bench.dead] == ["Down"]
    assert work.batches == []


async def test_a_record_without_a_key_is_parked() -> None:
    bench, work = Bench(), Work()

    await bench.delivery(decode=required(text), handle=work).deliver([Event(key=None)], group="g")

    assert [from_record(sent).error for sent in bench.dead] == ["NullKey"]
    assert work.batches == []


async def test_a_record_with_neither_key_nor_value_is_parked_too() -> None:
    bench = Bench()

    await bench.delivery(decode=required(text), handle=Work()).deliver([Event(key=None, value=None)], group="g")

    [letter] = map(from_record, bench.dead)
    assert (letter.key, letter.value) == (None, None)


async def test_a_tombstone_passes_as_none_where_the_stage_wants_it() -> None:
    bench = Bench()
    seen: list[str | None] = []

    async def handle(batch: Sequence[Received[str | None]]) -> None:
        seen.extend(received.value for received in batch)

    await bench.delivery(decode=or_tombstone(text), handle=handle).deliver([Event(value=None), Event()], group="g")

    assert seen == [None, "value"]
    assert bench.dead == []


async def test_a_tombstone_is_a_bad_record_where_the_stage_knows_none() -> None:
    bench, work = Bench(), Work()

    await bench.delivery(decode=required(text), handle=work).deliver([Event(value=None)], group="g")

    assert [from_record(sent).error for sent in bench.dead] == ["NullValue"]


@given(
    keys=st.lists(st.sampled_from("abc"), min_size=1, max_size=20),
    bad=st.sets(st.integers(min_value=0, max_value=19)),
    bugs=st.sets(st.integers(min_value=0, max_value=19)),
)
async def test_every_record_ends_in_its_effect_or_in_the_dead_letters_in_order(
    keys: list[str], bad: set[int], bugs: set[int]
) -> None:
    bench = Bench(attempts=2)
    done: list[int] = []

    async def handle(batch: Sequence[Received[int]]) -> None:
        for received in batch:
            if received.value in bad:
                raise Bad
            if received.value in bugs:
                raise ZeroDivisionError
        done.extend(received.value for received in batch)

    await bench.delivery(decode=required(int), handle=handle).deliver(
        [Event(offset=i, key=key.encode(), value=str(i).encode()) for i, key in enumerate(keys)], group="g"
    )

    blamed = (bad | bugs) & set(range(len(keys)))
    assert done == [i for i in range(len(keys)) if i not in blamed]
    assert [from_record(sent).offset for sent in bench.dead] == sorted(blamed)


async def test_a_bad_record_is_not_tried_again() -> None:
    bench, work = Bench(), Work(b=Bad("no"))

    await bench.delivery(decode=required(text), handle=work).deliver(events("b"), group="g")

    assert work.batches == [["b"]]
    [letter] = map(from_record, bench.dead)
    assert (letter.error, letter.message, letter.traceback, letter.attempts) == ("Bad", "no", "", 1)


async def test_an_unforeseen_error_is_tried_again_alone_and_then_parked_with_its_places_but_no_source_lines() -> None:
    bench, work = Bench(), Work(b=ZeroDivisionError("oops"))

    await bench.delivery(decode=required(text), handle=work).deliver(events("a", "b"), group="g")

    assert work.batches == [["a", "b"], ["a"], ["b"], ["b"], ["b"]]
    [letter] = map(from_record, bench.dead)
    assert (letter.error, letter.attempts) == ("ZeroDivisionError", 3)
    assert "test_deliver.py" in letter.traceback
    assert "raise" not in letter.traceback


async def test_an_unforeseen_error_that_passes_leaves_no_trace() -> None:
    bench, work = Bench(), Recovers(ZeroDivisionError(), ZeroDivisionError())

    await bench.delivery(decode=required(text), handle=work).deliver(events("a"), group="g")

    assert work.done == ["a"]
    assert bench.dead == []


async def test_while_the_world_is_down_the_whole_batch_is_tried_again_after_growing_waits() -> None:
    bench, work = Bench(), Recovers(Down(), Down())

    await bench.delivery(decode=required(text), handle=work).deliver(events("a", "b"), group="g")

    assert work.batches == [["a", "b"]]
    first, second = bench.waits.seconds
    assert 0.05 <= first <= 0.1
    assert 0.1 <= second <= 0.2


async def test_when_the_world_stays_down_the_stage_stops_and_parks_nothing() -> None:
    bench, work = Bench(attempts=4), Work(b=Down())

    with pytest.raises(Down):
        await bench.delivery(decode=required(text), handle=work).deliver(events("a", "b"), group="g")

    assert work.batches == [["a", "b"]] * 4
    assert len(bench.waits.seconds) == 3
    assert bench.dead == []


async def test_a_wrong_setting_stops_the_stage_at_once() -> None:
    bench, work = Bench(), Work(a=WrongSetting())

    with pytest.raises(Misconfigured):
        await bench.delivery(decode=required(text), handle=work).deliver(events("a"), group="g")

    assert work.batches == [["a"]]
    assert bench.dead == []


async def test_an_output_that_can_never_be_stored_is_the_record_s_fault() -> None:
    bench = Bench()

    async def handle(batch: Batch) -> None:
        if any(received.value == "large" for received in batch):
            bench.producer.failures.append(Bad("too large"))
        await bench.outbox.send(*(Outgoing(topic="out", key=b"k", value=received.value.encode()) for received in batch))

    await bench.delivery(decode=required(text), handle=handle).deliver(events("a", "large", "b"), group="g")

    assert [sent.value for sent in bench.producer.to("out")][-2:] == [b"a", b"b"]
    assert [from_record(sent).value for sent in bench.dead] == [b"large"]


async def test_a_dead_letter_that_cannot_be_stored_stops_the_stage() -> None:
    bench = Bench(attempts=3)
    bench.producer.failures.extend([Down(), Down(), Down()])

    with pytest.raises(Down):
        await bench.delivery(decode=required(text), handle=Work()).deliver([Event(value=b"\xff")], group="g")

    assert len(bench.waits.seconds) == 2


async def test_the_stage_is_told_of_a_dead_record_after_it_is_parked() -> None:
    bench = Bench()
    told: list[tuple[int, DeadLetter, str | None]] = []

    async def on_dead_letter(letter: DeadLetter, received: Received[str] | None) -> None:
        told.append((len(bench.dead), letter, None if received is None else received.value))

    await bench.delivery(decode=required(text), handle=Work(bad=Bad()), on_dead_letter=on_dead_letter).deliver(
        [Event(value=b"\xff"), *events("bad")], group="g"
    )

    assert [(parked, letter.error, value) for parked, letter, value in told] == [
        (1, "UnicodeDecodeError", None),
        (2, "Bad", "bad"),
    ]


async def test_being_cancelled_parks_nothing() -> None:
    bench, begun = Bench(), asyncio.Event()

    async def handle(_: Batch) -> None:
        begun.set()
        await asyncio.Event().wait()

    delivering = asyncio.create_task(
        bench.delivery(decode=required(text), handle=handle).deliver(events("a"), group="g")
    )
    await begun.wait()
    delivering.cancel()

    with pytest.raises(asyncio.CancelledError):
        await delivering
    assert bench.dead == []


@pytest.mark.parametrize("times", [1, 3])
async def test_a_batch_is_tried_again_if_something_that_it_waits_for_is_cancelled(times: int) -> None:
    bench, work = Bench(), Work()
    left = times

    async def handle(batch: Batch) -> None:
        nonlocal left
        if left:
            left -= 1
            shared = asyncio.get_running_loop().create_future()
            shared.cancel()
            await shared
        await work(batch)

    await bench.delivery(decode=required(text), handle=handle).deliver(events("a"), group="g")

    assert work.done == (["a"] if times == 1 else [])
    assert [from_record(sent).error for sent in bench.dead] == ([] if times == 1 else ["WaitedForCancelled"])


async def test_a_long_message_is_cut_so_that_the_dead_letter_fits() -> None:
    bench = Bench()

    await bench.delivery(decode=required(text), handle=Work(a=Bad("ü" * 10_000))).deliver(events("a"), group="g")

    assert len(from_record(bench.dead[0]).message.encode()) <= 2_000


async def test_what_decoding_needs_is_fetched_before_it_patiently_and_for_all_values() -> None:
    bench, work = Bench(), Work()
    fetched: list[Sequence[bytes | None]] = []
    failures = [Down()]

    async def prepare(values: Sequence[bytes | None]) -> None:
        if failures:
            raise failures.pop()
        fetched.append(values)

    def decode(value: bytes) -> str:
        assert fetched
        return value.decode()

    await bench.delivery(decode=required(decode), handle=work, prepare=prepare).deliver(
        [*events("a", "b"), Event(key=None, value=None)], group="g"
    )

    assert fetched == [[b"a", b"b", None]]
    assert work.done == ["a", "b"]


@pytest.mark.parametrize(
    ("errors", "ending"),
    [
        ([Bad(), Bad()], ErrorAction.DEAD_LETTER),
        ([Bad(), ValueError()], ErrorAction.BUG),
        ([ValueError(), Down()], ErrorAction.RETRY),
        ([Down(), ExceptionGroup("", [WrongSetting()])], ErrorAction.STOP),
    ],
)
def test_a_group_of_errors_counts_as_the_one_that_is_least_the_record_s_fault(
    errors: list[Exception], ending: ErrorAction
) -> None:
    assert action_for(ExceptionGroup("several", errors)) is ending


@given(attempt=st.integers(min_value=1, max_value=60), spread=st.floats(min_value=0, max_value=1))
def test_waits_are_positive_and_bounded(attempt: int, spread: float) -> None:
    backoff = Backoff()

    assert 0 < backoff.wait_s(attempt, spread) <= backoff.longest_s


async def test_what_another_stage_takes_is_done_without_a_trace() -> None:
    bench, work = Bench(), Work()
    delivery = bench.delivery(decode=required(text), handle=work, accepts=lambda event: event.value != b"theirs")

    await delivery.deliver([*events("accepts", "theirs")], group="g")
    await delivery.deliver([*events("theirs")], group="g")

    assert work.batches == [["accepts"]]
    assert len(bench.spans.finished) == 1


class Small(FakeProducer):
    """Takes no record above a size, as a broker does."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self.most_bytes = most_bytes

    async def check(self, record: Sent) -> None:
        headers = sum(len(name) + len(content) for name, content in record.headers)
        size = len(record.key or b"") + len(record.value or b"") + headers
        if size > self.most_bytes:
            raise Bad(f"{size} bytes are too many")


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        (Event(value=b"\xff" * 9_000, headers=(("h", b"1"),)), (b"key", (("h", b"1"),))),
        (Event(value=b"\xff", headers=(("h", b"1" * 9_000),)), (b"key", ())),
        (Event(key=b"k" * 9_000, value=b"\xff"), (None, ())),
        (Event(key=None, value=b"\xff" * 9_000), (None, ())),
    ],
)
async def test_a_dead_letter_that_is_too_large_is_parked_without_what_does_not_fit(
    event: Event, kept: tuple[bytes | None, Headers]
) -> None:
    bench = Bench()
    bench.use(Small(2_000))

    await bench.delivery(decode=required(text), handle=Work()).deliver([event], group="g")

    [letter] = [from_record(sent) for sent in bench.dead]
    headers = tuple((name, content) for name, content in letter.headers if name != "traceparent")
    assert (letter.key, headers) == kept
    assert (letter.topic, letter.partition, letter.offset) == (event.topic, event.partition, event.offset)
    assert letter.omitted == f"{len(event.value or b'')} bytes, SHA-256 {sha256(event.value or b'').hexdigest()}"


class Mute(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "message"), [(Bad("bad name \udc80"), r"bad name \udc80"), (Mute(), ""), (Bad(b"\xff"), r"b'\xff'")]
)
async def test_whatever_an_error_says_parks_its_record(error: Exception, message: str) -> None:
    bench = Bench()
    error.add_note("in a child: \ud800")

    await bench.delivery(decode=required(text), handle=Work(a=error)).deliver(events("a"), group="g")

    [letter] = [from_record(sent) for sent in bench.dead]
    assert letter.message == message


async def test_a_receipt_that_cannot_be_sent_costs_the_receipt_and_no_other_record() -> None:
    bench, work = Bench(), Work(bad=Bad())

    async def on_dead_letter(_: DeadLetter, __: Received[str] | None) -> None:
        raise Bad("the receipt is too large")

    await bench.delivery(decode=required(text), handle=work, on_dead_letter=on_dead_letter).deliver(
        events("bad", "good"), group="g"
    )

    assert [from_record(sent).value for sent in bench.dead] == [b"bad"]
    assert work.done == ["good"]


async def test_a_receipt_for_which_the_world_is_down_is_waited_for() -> None:
    bench = Bench(attempts=3)

    async def on_dead_letter(_: DeadLetter, __: Received[str] | None) -> None:
        raise Down

    with pytest.raises(Down):
        await bench.delivery(decode=required(text), handle=Work(bad=Bad()), on_dead_letter=on_dead_letter).deliver(
            events("bad"), group="g"
        )


async def test_what_cannot_be_prepared_for_a_record_spoils_that_record_only() -> None:
    bench, work = Bench(), Work()

    async def prepare(values: Sequence[bytes | None]) -> None:
        if b"\xff" in values:
            raise KeyError("an answer that nobody foresaw")

    await bench.delivery(decode=required(text), handle=work, prepare=prepare).deliver(
        [Event(value=b"\xff"), *events("good")], group="g"
    )

    assert work.done == ["good"]
    assert [from_record(sent).value for sent in bench.dead] == [b"\xff"]
