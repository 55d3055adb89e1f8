import pytest

from tests.simulation.broker import Broker, Partition

PLACE = ("documents", 0)


@pytest.fixture
def broker() -> Broker:
    broker = Broker(lambda: 1.5, partitions=1, epoch_ms=1_000)
    broker.create("documents")
    return broker


def keys(log: Partition, *, committed: bool = True) -> list[bytes | None]:
    return [record.key for record in log.read(0, 100, committed=committed)[0]]


def test_records_of_a_key_lie_in_one_partition_in_order() -> None:
    broker = Broker(lambda: 0.0, partitions=3, epoch_ms=0)
    broker.create("documents")
    places = {key: broker.place("documents", key) for key in (b"a", b"b", b"c", b"d")}
    for number in range(3):
        for key, place in places.items():
            broker.append(place, key, b"%d" % number)

    assert len(set(places.values())) > 1
    for key, place in places.items():
        records, _ = broker.partition(place).read(0, 100, committed=True)
        assert [record.value for record in records if record.key == key] == [b"0", b"1", b"2"]


def test_the_broker_s_clock_counts_unless_the_producer_says_otherwise(broker: Broker) -> None:
    broker.append(PLACE, b"a", b"1")
    broker.append(PLACE, b"a", b"2", timestamp_ms=7)

    records, _ = broker.partition(PLACE).read(0, 100, committed=True)

    assert [record.timestamp_ms for record in records] == [2_500, 7]


def test_a_numbered_record_is_stored_once(broker: Broker) -> None:
    first = broker.append(PLACE, b"a", b"1", sequence=(1, 1))
    again = broker.append(PLACE, b"a", b"1", sequence=(1, 1))
    other = broker.append(PLACE, b"a", b"1", sequence=(1, 2))

    assert (first, again, other) == (0, 0, 1)


def test_readers_of_what_is_committed_wait_at_an_open_transaction(broker: Broker) -> None:
    transaction = broker.begin()
    broker.append(PLACE, b"before", b"1")
    broker.append(PLACE, b"in it", b"1", transaction=transaction)
    broker.append(PLACE, b"behind", b"1")
    log = broker.partition(PLACE)

    waiting = keys(log)
    anyway = keys(log, committed=False)
    broker.finish(transaction, commit=True)

    assert waiting == [b"before"]
    assert anyway == [b"before", b"in it", b"behind"]
    assert keys(log) == [b"before", b"in it", b"behind"]
    assert log.read(0, 100, committed=True)[1] == 4


def test_what_was_aborted_is_skipped(broker: Broker) -> None:
    transaction = broker.begin()
    broker.append(PLACE, b"in it", b"1", transaction=transaction)
    broker.append(PLACE, b"behind", b"1")
    broker.finish(transaction, commit=False)
    log = broker.partition(PLACE)

    assert keys(log) == [b"behind"]
    assert keys(log, committed=False) == [b"in it", b"behind"]
    assert [record.key for record in broker.everything("documents")] == [b"behind"]


def test_compaction_keeps_the_last_record_of_each_key_and_the_dirty_head(broker: Broker) -> None:
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"a", b"3")):
        broker.append(PLACE, key, value)

    removed = broker.compact("documents", dirty=1)

    records, _ = broker.partition(PLACE).read(0, 100, committed=True)
    assert removed == 2
    assert [(record.offset, record.key, record.value) for record in records] == [
        (2, b"a", b"2"),
        (3, b"b", None),
        (4, b"a", b"3"),
    ]


def test_old_tombstones_go(broker: Broker) -> None:
    broker.append(PLACE, b"a", None)
    broker.append(PLACE, b"b", b"1")

    broker.compact("documents", dirty=0, tombstones_before_ms=2_501)

    assert keys(broker.partition(PLACE)) == [b"b"]


def test_compaction_does_not_count_what_was_aborted(broker: Broker) -> None:
    broker.append(PLACE, b"a", b"1")
    transaction = broker.begin()
    broker.append(PLACE, b"a", b"2", transaction=transaction)
    broker.finish(transaction, commit=False)

    broker.compact("documents", dirty=0)

    assert keys(broker.partition(PLACE)) == [b"a"]


def test_retention_moves_the_start(broker: Broker) -> None:
    for number in range(3):
        broker.append(PLACE, b"%d" % number, b"1")

    broker.retain({PLACE: 2})

    assert keys(broker.partition(PLACE)) == [b"2"]
    assert len(broker.everything("documents")) == 3
