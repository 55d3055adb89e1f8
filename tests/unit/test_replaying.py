from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.map_envelope.envelope import ordered
from freki.schemas import DocumentChange, DocumentId, IndexOutcome, Operation, OutcomeStatus, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.names import FIRST_YEAR_MS, LARGEST_INTEGER
from freki.streams.deliver.dead_letters import DeadLetter, replay
from freki.streams.deliver.replay import Latest, latest_of, refusal_of_change, refusal_of_part
from freki.streams.messages import Headers, number_in, recorded_at
from freki.streams.wire.replaying import Letters
from tests.unit.deliveries import Event, dead_letter
from tests.unit.pipelines import Pipeline
from tests.unit.revisions import revision

CODEC = Codec(DocumentChange)
KEY = b"t/d"
DELETED: Headers = (("freki-version", b"3"),)


def change(version: int, operation: Operation = Operation.UPSERT) -> bytes:
    return CODEC.encode(
        DocumentChange(
            tenant=TenantId("t"),
            document_id=DocumentId("d"),
            operation=operation,
            version=version,
            occurred_at=Timestamp(version),
            principals=("all",),
            content="secret" if operation is Operation.UPSERT else None,
        )
    )


def letter(*, offset: int = 0, partition: int = 0, at: int = 1_000, topic: str = "documents") -> DeadLetter:
    return dead_letter(
        key=KEY,
        value=change(1),
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=Timestamp(at),
        died_at=Timestamp(at),
    )


async def latest(*records: tuple[bytes | None, Headers]) -> dict[bytes, Latest]:
    """Read a partition with these values and headers of one key, one a second."""

    async def stored() -> AsyncIterator[Event]:
        for offset, (value, headers) in enumerate(records):
            yield Event(key=b"t/other", value=change(9), offset=offset)
            yield Event(key=KEY, value=value, headers=headers, offset=offset, timestamp_ms=1_000 * (offset + 1))

    return await latest_of({KEY}, stored(), CODEC.decode)


def test_a_record_that_several_generations_rejected_is_one_open_letter() -> None:
    first, again, other = letter(), letter(), letter(offset=1)
    letters = Letters(by_place={(0, 0): first, (0, 1): other, (0, 2): again}, replayed=set())

    assert list(letters.open_ones()) == [(0, 2), (0, 1)]


def test_a_record_that_was_sent_again_has_no_open_letter_whichever_of_them_was_named() -> None:
    letters = Letters(by_place={(0, 0): letter(), (0, 2): letter(), (0, 3): letter(at=2_000)}, replayed={(0, 0)})

    assert list(letters.open_ones()) == [(0, 3)], "another record, of a topic that was recreated"


async def test_the_last_record_of_its_document_may_be_sent_again() -> None:
    assert refusal_of_change(letter(), await latest((change(1), ()))) is None
    assert refusal_of_change(letter(offset=1), await latest((change(2), ()), (change(1), ()))) is None


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        ([(change(2), ())], "a later change (version 2)"),
        ([(change(3, Operation.DELETE), ())], "a later deletion (version 3)"),
        ([(change(3, Operation.DELETE), ()), (None, DELETED)], "a later deletion (version 3)"),
        ([(None, ())], "a later deletion"),
        ([(b"junk", ())], "a later change"),
    ],
)
async def test_an_older_record_is_not_put_over_a_newer_one(
    later: list[tuple[bytes | None, Headers]], reason: str
) -> None:
    refusal = refusal_of_change(letter(), await latest((change(1), ()), *later))

    assert refusal is not None
    assert refusal.reason.startswith(reason)
    assert refusal.superseded


async def test_what_the_topic_has_forgotten_was_deleted() -> None:
    of_part = refusal_of_part(letter(topic="chunks"), {}, revision("d", 1, ["x"])[0].revision)
    for refusal in (refusal_of_change(letter(), {}), of_part):
        assert refusal is not None
        assert ("deleted since" in refusal.reason, refusal.superseded) == (True, True)


def test_a_record_without_a_key_was_not_superseded() -> None:
    refusal = refusal_of_change(replace(letter(), key=None), {})

    assert refusal is not None
    assert ("without a key" in refusal.reason, refusal.superseded) == (True, False)


async def test_where_partitions_were_added_the_times_of_records_decide() -> None:
    newest = await latest((change(1), ()), (change(2), ()))

    assert refusal_of_change(letter(partition=3, offset=9, at=2_000), newest) is None
    assert refusal_of_change(letter(partition=3, offset=9, at=1_999), newest) is not None


async def test_the_last_change_is_found_in_whatever_order_added_partitions_are_read() -> None:
    old = Event(key=KEY, value=change(1), offset=7, timestamp_ms=1_000)
    new = Event(key=KEY, value=change(2), partition=3, timestamp_ms=2_000)

    for order in ([old, new], [new, old]):

        async def stored(order: list[Event] = order) -> AsyncIterator[Event]:
            for each in order:
                yield each

        newest = await latest_of({KEY}, stored(), CODEC.decode)
        refusal = refusal_of_change(letter(offset=7), newest)
        assert refusal is not None
        assert "(version 2)" in refusal.reason


async def test_a_null_value_of_an_older_version_in_another_partition_supersedes_nothing() -> None:
    """A rectification sends one where partitions were added."""
    old, new = Event(key=KEY, value=change(1)), Event(key=KEY, value=change(2), partition=3, timestamp_ms=2_000)
    null = Event(key=KEY, value=None, headers=(("freki-version", b"1"),), offset=1, timestamp_ms=3_000)

    for order in ([old, null, new], [new, old, null]):

        async def stored(order: list[Event] = order) -> AsyncIterator[Event]:
            for each in order:
                yield each

        newest = await latest_of({KEY}, stored(), CODEC.decode)
        assert (newest[KEY].partition, newest[KEY].deleted) == (3, False)
        assert refusal_of_change(letter(partition=3, at=2_000), newest) is None
        assert refusal_of_change(letter(), newest) is not None


@pytest.mark.parametrize(
    ("version", "recorded_at", "may"), [(2, 2_000, True), (1, 2_000, False), (2, 1_999, False), (3, 2_001, True)]
)
async def test_a_part_may_be_sent_again_while_its_change_is_the_last(version: int, recorded_at: int, may: bool) -> None:  # noqa: FBT001
    [part] = revision("d", version, ["x"])
    of_part = replace(part.revision, recorded_at=Timestamp(recorded_at))
    newest = await latest((change(1), ()), (change(2), ()))

    assert (refusal_of_part(letter(topic="chunks"), newest, of_part) is None) is may


async def test_a_replay_counts_as_recorded_when_its_record_was() -> None:
    again = replay(letter(at=1_000))

    newest = await latest((again.value, again.headers))

    assert newest[KEY].recorded_at == 1_000


async def test_a_replay_does_not_outlive_the_tombstone_that_came_in_between() -> None:
    pipeline, again = Pipeline(), replay(letter(at=1_000))

    for event in (
        Event(key=KEY, value=None, timestamp_ms=5_000),
        Event(key=KEY, value=again.value, headers=again.headers, timestamp_ms=6_000),
    ):
        pipeline.producer.sent.clear()
        await pipeline.take("documents", event)
        for topic in ("chunks", "contextual-chunks"):
            await pipeline.take(
                topic, *(Event(topic=topic, key=KEY, value=one.value) for one in pipeline.producer.to(topic))
            )

    [receipt] = [Codec(IndexOutcome).decode(one.value or b"") for one in pipeline.producer.to("outcomes")]
    assert (receipt.status, receipt.recorded_at) == (OutcomeStatus.STALE, 1_000)


async def test_the_receipt_of_a_tombstone_that_is_rejected_has_the_version_of_its_deletion() -> None:
    pipeline = Pipeline()

    await pipeline.take("documents", Event(key=b"t/", value=None, headers=DELETED))

    [receipt] = [Codec(IndexOutcome).decode(one.value or b"") for one in pipeline.producer.to("outcomes")]
    assert (receipt.status, receipt.version) == (OutcomeStatus.REJECTED, 3)


@pytest.mark.parametrize(
    "version", [b"", b"0", b"-1", b"3.0", b" 3", b"0x3", b"\xff", b"%d" % (LARGEST_INTEGER + 1), b"9" * 5_000]
)
async def test_a_null_value_whose_version_is_damaged_deletes_nothing_and_is_a_dead_letter(version: bytes) -> None:
    pipeline = Pipeline()

    await pipeline.take("documents", Event(key=KEY, value=None, headers=(("freki-version", version),)))

    [receipt] = [Codec(IndexOutcome).decode(one.value or b"") for one in pipeline.producer.to("outcomes")]
    assert receipt.status is OutcomeStatus.REJECTED
    assert "freki-version: it is no whole number" in receipt.reason
    assert len(pipeline.producer.to("dead-letters")) == 1
    assert not pipeline.producer.to("chunks") + pipeline.producer.to("chunks-express")


@given(header=st.integers(1, FIRST_YEAR_MS - 1), at=st.integers(FIRST_YEAR_MS, LARGEST_INTEGER))
def test_a_time_before_1971_in_a_header_is_none_beside_that_of_the_broker(header: int, at: int) -> None:
    """A rule of retention counts from it, and takes such a time for none: the document would never be due."""
    assert recorded_at((("freki-recorded-at", b"%d" % header),), Timestamp(at)) == at


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(1_732_385_959_000_000_000, id="nanoseconds"),
        pytest.param(ordered(Timestamp(1_732_385_959_000), 7), id="of an event that freki relay read"),
        pytest.param(LARGEST_INTEGER, id="the largest"),
    ],
)
async def test_a_null_value_of_a_version_deletes_no_later_one_however_large_versions_are(version: int) -> None:
    pipeline = Pipeline()
    kept = CODEC.encode(replace(CODEC.decode(change(1)), version=version))

    for event in (
        Event(key=KEY, value=kept, timestamp_ms=1_000),
        Event(key=KEY, value=None, headers=(("freki-version", b"%d" % (version - 1)),), timestamp_ms=2_000),
        Event(key=KEY, value=None, headers=(("freki-version", b"%d" % version),), timestamp_ms=3_000),
    ):
        before = len(pipeline.producer.to("chunks")), len(pipeline.producer.to("contextual-chunks"))
        await pipeline.take("documents", event)
        for topic, seen in zip(("chunks", "contextual-chunks"), before, strict=True):
            await pipeline.take(
                topic, *(Event(topic=topic, key=KEY, value=one.value) for one in pipeline.producer.to(topic)[seen:])
            )

    receipts = [Codec(IndexOutcome).decode(one.value or b"") for one in pipeline.producer.to("outcomes")]
    assert [(each.status, each.version) for each in receipts] == [
        (OutcomeStatus.INDEXED, version),
        (OutcomeStatus.STALE, version - 1),
        (OutcomeStatus.DELETED, version),
    ]


@pytest.mark.parametrize("value", [b"", b"-1", b"1e3", b"1_000", b" 7", b"%d" % (LARGEST_INTEGER + 1), b"9" * 5_000])
def test_a_header_that_no_record_could_hold_is_no_number(value: bytes) -> None:
    assert number_in((("freki-version", value),), "freki-version") == 0
