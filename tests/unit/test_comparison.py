"""What `freki verify` reports beside a stream of changes."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.cli import comparison
from freki.cli.comparison import Comparison, compare_with, lasting, withhold_deletion
from freki.cli.send_nulls import superseding_nulls
from freki.cli.stream_state import Stream, take
from freki.cli.verify import _show
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.operators.reconcile import Difference, Expected, RepairAction, reconcile
from freki.schemas import DocumentChange, DocumentId, Operation, RootId, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.index import Root
from tests.contract.index_records import root
from tests.unit.deliveries import Event
from tests.unit.document_changes import change

KEY = root_id(TenantId("t"), DocumentId("d"))
AT, LATER = Timestamp(1_000), Timestamp(2_000)
BEHIND = Difference("t/d", "version 2 is current, but version 1 is searchable", RepairAction.REINDEX)
HOLES = Difference("t/d", "rows missing: 1 of 3", RepairAction.REINDEX)


def compared(*differences: Difference, stream: int, index: Root | None) -> Comparison:
    expected = {KEY: Expected("t/d", stream, deleted=False, content_hash="")}
    roots = {} if index is None else {KEY: index}
    return Comparison(Stream(expected=expected), roots, differences)


def test_what_was_indexed_meanwhile_is_no_difference() -> None:
    first = compared(BEHIND, stream=2, index=root(KEY, version=1))
    again = compared(stream=2, index=root(KEY, version=2))

    assert lasting(first.states, again) == []


def test_what_lasts_is_a_difference() -> None:
    for index in (root(KEY, version=1), None):
        first = again = compared(BEHIND, stream=2, index=index)

        assert lasting(first.states, again) == [BEHIND]


def test_the_same_difference_of_another_state_may_be_a_moment_of_an_update() -> None:
    first = compared(HOLES, stream=1, index=root(KEY, version=1))

    assert lasting(first.states, compared(HOLES, stream=2, index=root(KEY, version=1))) == []
    assert lasting(first.states, compared(HOLES, stream=1, index=root(KEY, version=2))) == []
    assert lasting(first.states, compared(HOLES, stream=1, index=root(KEY, version=1, edition=5))) == []
    assert lasting(first.states, compared(HOLES, BEHIND, stream=1, index=root(KEY, version=1))) == [HOLES]


@pytest.mark.parametrize("passed_on", [True, False])
async def test_differences_found_while_records_still_wait_are_said_to_be_perhaps_on_their_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, passed_on: bool
) -> None:
    found = compared(BEHIND, stream=2, index=root(KEY, version=1))

    async def read(*_: object) -> Comparison:
        return found

    async def wait(_: object) -> None:
        if not passed_on:
            await asyncio.Event().wait()

    monkeypatch.setattr(comparison, "_compared", read)
    monkeypatch.setattr(comparison, "until_passed", wait)
    monkeypatch.setattr(comparison, "INDEXED_S", 0.05)

    again = await comparison.compare(Settings(), cast("MilvusIndex", None))
    _show(Settings(), again, 0)

    assert again.differences == [BEHIND]
    assert ("records still wait" in capsys.readouterr().out) is not passed_on


def test_a_record_under_a_key_that_names_no_document_is_no_change_of_one() -> None:
    stream = Stream()
    for key in (b"t/caf\xe9", b"t\xe9/d", b"/d", b"t/", b"t", None):
        take(stream, Event(key=key, value=None), Codec(DocumentChange), ())

    assert stream.expected == {}


def test_a_tombstone_is_a_change_of_the_document_in_its_key() -> None:
    stream = Stream()
    take(stream, Event(key=b"t/d", value=None), Codec(DocumentChange), ())

    assert stream.deleted == {KEY}


def test_a_tombstone_of_a_version_is_a_deletion_of_it_where_partitions_were_added() -> None:
    """An erasure or a rectification sends it to each partition; compaction may have removed the deletion elsewhere."""
    codec = Codec(DocumentChange)
    change = DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId("d"),
        operation=Operation.UPSERT,
        version=2,
        occurred_at=Timestamp(1),
        content="text",
    )
    kept = Event(key=b"t/d", value=codec.encode(change))
    for version, deletes in ((1, False), (2, True)):
        headers = (("freki-version", b"%d" % version),)
        null = Event(key=b"t/d", value=None, headers=headers, partition=version % 2, offset=1, timestamp_ms=2_000)
        for records in ([kept, null], [null, kept]):
            stream = Stream()
            for record in records:
                take(stream, record, codec, ())
            assert stream.expected[KEY].deleted is deletes


def test_a_null_value_whose_version_is_damaged_deletes_nothing_and_proves_nothing() -> None:
    codec, headers = Codec(DocumentChange), (("freki-version", b"0x3"),)
    stream = Stream()
    take(stream, Event(key=b"t/d", value=codec.encode(change(1))), codec, ())
    take(stream, Event(key=b"t/d", value=None, headers=headers, offset=1, timestamp_ms=2_000), codec, ())

    assert not stream.deleted
    assert stream.undecodable == {"t/d"}

    take(stream, Event(key=b"t/d", value=codec.encode(change(2)), offset=2, timestamp_ms=3_000), codec, ())

    assert stream.undecodable == set()


def test_a_document_in_several_partitions_is_the_same_difference_in_whatever_order_they_are_read() -> None:
    value = Codec(DocumentChange).encode(change(1))
    records = [Event(key=b"t/d", value=value, partition=partition, offset=1) for partition in (0, 1, 2, 0)]
    readings = [Stream(), Stream()]
    for stream, read in zip(readings, (records, records[::-1]), strict=True):
        for record in read:
            take(stream, record, Codec(DocumentChange), ())

    first, again = [compared(*stream.scattered_differences, stream=1, index=None) for stream in readings]

    (difference,) = lasting(first.states, again)
    assert "in partitions 0 and 1 and 2" in difference.problem


@dataclass
class Moved:
    """The records of a document whose partition changed, in the order in which they were sent."""

    records: list[Event] = field(default_factory=list)

    def add(self, partition: int, change: DocumentChange | None, version: int = 0) -> None:
        value = None if change is None else Codec(DocumentChange).encode(change)
        headers = (("freki-version", b"%d" % version),) if version else ()
        at = len(self.records)
        self.records.append(
            Event(
                key=b"t/d", value=value, headers=headers, partition=partition, offset=at, timestamp_ms=1_000 + 10 * at
            )
        )

    def read(self, order: Sequence[int], *, watched: bool = True) -> Stream:
        """Read one partition after the other."""
        stream = Stream(watched={"t/d"} if watched else ())
        for partition in order:
            for record in self.records:
                if record.partition == partition:
                    take(stream, record, Codec(DocumentChange), ())
        return stream

    def compacted(self, *, later: bool) -> "Moved":
        """Return what compaction leaves; later: also after the time for which null values stay."""
        last = {record.partition: record for record in self.records}.values()
        return Moved([record for record in last if record.value is not None or not later])

    @property
    def contents(self) -> list[int]:
        """The partitions with content, once compaction has run and null values are gone."""
        left = self.compacted(later=True).records
        changes = [(record.partition, Codec(DocumentChange).decode(record.value or b"")) for record in left]
        return [partition for partition, change in changes if change.operation is Operation.UPSERT]


STEPS = st.lists(st.tuples(st.sampled_from(["upsert", "again", "delete", "bury"]), st.integers(0, 2)), min_size=1)


@given(STEPS, st.permutations(range(3)), st.permutations(range(3)))
def test_after_a_repair_compaction_keeps_what_counts_and_no_superseded_content(
    steps: list[tuple[str, int]], order: list[int], other: list[int]
) -> None:
    moved, version, is_live = Moved(), 1, False
    for step, partition in steps:
        if step == "upsert" or (step == "again" and not is_live):
            version, is_live = version + 1, True
            moved.add(partition, change(version))
        elif step == "again":
            moved.add(partition, change(version))
        else:
            version, is_live = version + (step == "delete"), False
            if step == "delete":
                moved.add(partition, change(version, Operation.DELETE))
            moved.add(partition, None, version if step == "delete" else 0)
    before = moved.read(order)
    nulls = list(superseding_nulls(before, "t/d")) if before.scattered_differences else []
    assert nulls == (list(superseding_nulls(moved.read(other), "t/d")) if before.scattered_differences else [])

    for null in nulls:
        moved.add(null.partition or 0, None, int(null.headers[0][1]))

    after = moved.read(other)
    assert after.expected[KEY].deleted is before.expected[KEY].deleted is not is_live
    assert not after.scattered_differences
    if len({partition for _, partition in steps}) > 1:
        assert len(moved.contents) == is_live
    for left in (moved.compacted(later=False), moved.compacted(later=True)):
        found = left.read(order).expected.get(KEY)
        assert (found is not None and not found.deleted) is is_live
        assert found is None or not is_live or found.version == version


@pytest.mark.parametrize("operation", [Operation.UPSERT, Operation.DELETE])
def test_a_damaged_record_in_another_partition_is_buried(operation: Operation) -> None:
    moved = Moved()
    moved.add(0, None)
    moved.records = [replace(moved.records[0], value=b"{}")]
    moved.add(1, change(2, operation))

    (null,) = superseding_nulls(moved.read((0, 1)), "t/d")

    assert (null.partition, null.headers) == (0, (("freki-version", b"1"),))


def test_no_null_value_follows_what_may_count() -> None:
    """Version 1 has no version below, and of two contents with one version nobody can tell which one is indexed."""
    twice, differing, unread = Moved(), Moved(), Moved()
    for partition in (0, 1):
        twice.add(partition, change(1))
        differing.add(partition, replace(change(2), content=f"text {partition}"))
    unread.add(0, None)
    unread.records = [replace(unread.records[0], value=b"\x00\x00\x00\x00\x01ab")]
    unread.add(1, change(2, Operation.DELETE))

    for moved in (twice, differing, unread):
        stream = moved.read((0, 1))
        assert [each.repair for each in stream.scattered_differences] == [RepairAction.SEND_NULLS]
        assert not list(superseding_nulls(stream, "t/d"))


@pytest.mark.parametrize("is_deleted", [True, False])
def test_of_two_partitions_the_later_record_counts_in_whatever_order_they_are_read(is_deleted: bool) -> None:  # noqa: FBT001 - a parameter
    codec = Codec(DocumentChange)
    value = codec.encode(change(1))
    values = (value, None) if is_deleted else (None, value)
    records = [
        Event(key=b"t/d", value=value, partition=partition, timestamp_ms=1_000 + partition)
        for partition, value in enumerate(values)
    ]
    for read in (records, records[::-1]):
        stream = Stream()
        for record in read:
            take(stream, record, codec, ())

        assert stream.expected[KEY].deleted is is_deleted


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_tombstone_without_a_version_deletes_also_the_later_version_of_another_partition(
    order: tuple[int, int],
) -> None:
    codec = Codec(DocumentChange)

    def sent(partition: int, version: int | None, timestamp_ms: int) -> Event:
        value = None if version is None else codec.encode(change(version))
        return Event(key=b"t/d", value=value, partition=partition, timestamp_ms=timestamp_ms)

    records = {0: [sent(0, 1, 1_000), sent(0, None, 3_000)], 1: [sent(1, 2, 2_000)]}
    stream = Stream()
    for partition in order:
        for record in records[partition]:
            take(stream, record, codec, ())

    assert stream.expected[KEY].deleted


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_tombstone_of_an_older_version_elsewhere_does_not_outdate_one_without_a_version(
    order: tuple[int, int],
) -> None:
    codec = Codec(DocumentChange)
    value = codec.encode(change(2))
    old = Event(key=b"t/d", value=None, headers=(("freki-version", b"1"),), partition=1, timestamp_ms=3_000)
    bare = Event(key=b"t/d", value=None, timestamp_ms=2_000)
    records = {0: [Event(key=b"t/d", value=value), bare], 1: [old]}
    stream = Stream()
    for partition in order:
        for record in records[partition]:
            take(stream, record, codec, ())

    assert stream.expected[KEY].deleted


@pytest.mark.parametrize(
    ("stream", "before"),
    [
        pytest.param(Stream(starts={0: 0}, firsts={0: (0, AT)}), AT, id="recreated"),
        pytest.param(Stream(starts={0: 0}, firsts={0: (7, AT)}), None, id="compacted"),
        pytest.param(Stream(starts={0: 7}, firsts={0: (7, AT)}), AT + 1, id="records deleted"),
        pytest.param(Stream(starts={0: 7, 1: 0}, firsts={0: (9, AT), 1: (3, LATER)}), AT + 1, id="of one partition"),
    ],
)
def test_what_compaction_does_not_explain_was_lost(stream: Stream, before: int | None) -> None:
    assert stream.lost_before == before


def test_no_document_is_deleted_whose_last_record_cannot_be_decoded() -> None:
    stream = Stream()
    # As with a schema registry; this reader has none.
    take(stream, Event(key=b"t/d", value=b"\x00\x00\x00\x00\x01ab"), Codec(DocumentChange), ())
    difference = reconcile(stream.expected.get(KEY), root(KEY, tenant="t", document_id="d"))
    assert difference is not None
    assert difference.repair is RepairAction.DELETE

    kept = withhold_deletion(difference, stream)

    assert kept.repair is RepairAction.BY_HAND
    assert "FREKI_REGISTRY__URL" in kept.problem
    take(stream, Event(key=b"t/d", value=None), Codec(DocumentChange), ())
    assert withhold_deletion(difference, stream) == difference


class Large:
    """An index of many documents without rows, some of which differ from the stream."""

    def __init__(self, versions: Mapping[DocumentId, int]) -> None:
        self._versions = versions

    async def all_roots(self) -> AsyncIterator[Root]:
        for name, version in self._versions.items():
            yield indexed(name, version)

    async def pages(self, _: object) -> Mapping[Any, Any]:
        return {}

    async def rows_of(self, keys: Sequence[RootId]) -> Mapping[RootId, Sequence[Any]]:
        return dict.fromkeys(keys, ())


def indexed(name: DocumentId, version: int) -> Root:
    key = root_id(TenantId("t"), name)
    return root(
        key, tenant="t", document_id=name, version=version, pages=(), name=f"{name} " * 20, deleted=version == 0
    )


def streamed(versions: Mapping[DocumentId, int]) -> Stream:
    names = {root_id(TenantId("t"), name): name for name in versions}
    content_hash = indexed(DocumentId("d"), 1).content_hash
    expected = {
        key: Expected(f"t/{name}", versions[name], deleted=False, content_hash=content_hash)
        for key, name in names.items()
    }
    return Stream(expected=expected, starts={0: 0}, firsts={0: (7, AT)})


def some(count: int, version: int, name: str) -> dict[DocumentId, int]:
    return {DocumentId(f"{name}{number}"): version for number in range(count)}


async def test_of_the_roots_of_an_index_only_those_that_differ_are_held() -> None:
    """An index may have more documents than their roots have room in memory."""
    same, older = some(20_000, 2, "same"), some(3, 1, "older")
    stream = streamed({**same, **dict.fromkeys(older, 2), DocumentId("missing"): 1})
    tracemalloc.start()
    try:
        found = await compare_with(stream, cast("Any", Large({**same, **older})), set(), lambda _: None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [each.name for each in found.differences] == ["t/missing", "t/older0", "t/older1", "t/older2"]
    assert {each.document_id for each in found.roots.values()} == older.keys()
    assert peak < 150 * len(same)


async def test_what_the_stream_lacks_is_surplus_only_where_the_index_had_it_before_the_stream_was_read() -> None:
    there = {DocumentId("before"): 1, DocumentId("replaced"): 2, DocumentId("new"): 1, DocumentId("gone"): 0}
    before = {indexed(DocumentId(name), 1).commit_id for name in ("before", "replaced")}

    found = await compare_with(streamed({}), cast("Any", Large(there)), before, lambda _: None)

    assert [(each.name, each.repair) for each in found.differences] == [("t/before", RepairAction.DELETE)]
    assert (found.live, found.deleted, found.lost) == (3, 1, 0)


async def test_documents_whose_changes_the_topic_lost_are_counted_and_no_differences() -> None:
    there = {DocumentId("lost"): 1, DocumentId("kept"): 1}
    stream = streamed({DocumentId("kept"): 1})
    stream.firsts = {0: (0, Timestamp(indexed(DocumentId("lost"), 1).recorded_at + 1))}
    before = {indexed(name, 1).commit_id for name in there}

    found = await compare_with(stream, cast("Any", Large(there)), before, lambda _: None)

    assert (found.differences, found.lost, found.live) == ([], 1, 2)
