"""Faust's consumer with changed commits, memory limits and rebalances."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

import structlog
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from faust.transport.consumer import RecordMap
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage, Message
from faust.types.transports import TPorTopicSet
from mode import Service
from mode.threads import WorkerThread

from freki.client.kafka import stop_consumer
from freki.client.wakeups import FetchPauses, pace
from freki.infra.kafka.connection import BrokerProfile, wakeups_of
from freki.infra.kafka.local_groups import LocalMembership
from freki.infra.kafka.offsets import Offsets
from freki.infra.kafka.reader import ISOLATION
from freki.infra.kafka.topic_ids import TopicIds
from freki.infra.settings import KafkaSettings

_log = structlog.get_logger(__name__)
_HELD_BYTES = 32 * 1024 * 1024
"""Maximum size of unfinished records of a topic in memory, exceeded by at most one poll."""
_RECORD_BYTES = 1024
"""Estimated overhead per record in memory."""
Release = Callable[[float], Awaitable[None]]
"""Finishes or abandons the work in flight within the given seconds; never raises."""
Lost = Callable[[str, int, int], None]
"""Called with topic, partition and the number of offsets that retention deleted before they were read."""


class _DaemonThread(WorkerThread):
    """Ends with the process: one that waits for a silent broker without end would keep the process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().__init__(*args, **kwargs)
        self.daemon = True


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    """Reads committed records only, with the fetch wait of the profile instead of 1500 ms; records positions."""

    Worker = _DaemonThread
    _pauses: FetchPauses | None = None
    _topic_ids: TopicIds

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:  # noqa: ANN401 - aiokafka is untyped
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = cast("Transport", transport).profile.fetch_wait_ms  # noqa: SLF001
        # Faust reads uncommitted records unless it writes its own transactions.
        consumer._isolation_level = ISOLATION  # noqa: SLF001
        return consumer

    async def on_start(self) -> None:
        await super().on_start()
        _give_up_commits_to_deleted_topics(self._consumer)
        _begin_at_committed_offsets_at_once(self._consumer)
        if cast("Transport", self.transport).profile.keeps_leaders:
            LocalMembership(self._consumer)
        self._watch_resets()
        self._topic_ids = TopicIds(self._consumer)
        self._topic_ids.watch()
        self._pauses = pace(self._consumer, wakeups_of(cast("Transport", self.transport).settings))

    async def on_thread_stop(self) -> None:
        # As Faust does, but for the way in which the consumer is stopped once the queue of calls has ended.
        await super(driver.AIOKafkaConsumerThread, self).on_thread_stop()
        if self._consumer is not None:
            await stop_consumer(self._consumer, self._pauses)

    async def stop(self) -> None:
        """End the thread, also while it begins: Faust leaves it then, and the process waits for it without end."""
        if self._thread is not None:
            await Service.stop(self)
            self._thread.stop()

    def close(self) -> None:
        """Do nothing: the thread ends with the app, and closes its consumer then.

        Faust calls it where partitions move while the app stops. Its own marks the consumer as closed and closes the
        connections in another thread's loop, which fails: then nobody leaves the group, or closes them.
        """

    def _stopped_set(self) -> None:
        # After a crash the thread has ended, and its loop takes no calls.
        if self.thread_loop.is_closed():
            self._stopped.set()
        else:
            super()._stopped_set()

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to the committed offset of each partition and return it; None where there is none of its topic.

        aiokafka asks for the offset of one partition at a time, so that a rebalance takes longer the more there are.
        """
        found: Mapping[TP, int] = await self.call_thread(self._seek_to_committed)
        return found

    async def _seek_to_committed(self) -> dict[TP, int | None]:
        consumer = self._ensure_consumer()
        places = consumer.assignment()
        # Before the offsets: of a topic that is recreated in between, they are of another one than the ids.
        await self._topic_ids.note(places)
        told = await consumer._coordinator.fetch_committed_offsets(list(places))  # noqa: SLF001
        self._topic_ids.adopt(told)
        offsets = {place: self._topic_ids.valid(place, told[place]) if place in told else None for place in places}
        # Partitions that were revoked meanwhile are sought again once they are assigned.
        for place in places & consumer.assignment():
            if offset := offsets[place]:
                consumer.seek(place, offset)
        return offsets

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> RecordMap:  # noqa: ANN401 - passed on as they are
        # Recorded here, where positions advance: Faust may drop fetched records on their way to the stream.
        fetched = await super()._fetch_records(*args, **kwargs)
        consumer = cast("Consumer", self.consumer)
        for place, records in fetched.items():
            if records:
                consumer.finished.setdefault(TP(*place), records[0].offset)
                consumer.read[TP(*place)] = records[-1].offset + 1
        return fetched

    def _watch_resets(self) -> None:
        """Tell of positions that aiokafka moves forward, because retention has deleted the records there."""
        consumer, fetcher = cast("Consumer", self.consumer), self._ensure_consumer()._fetcher  # noqa: SLF001
        update = fetcher._update_fetch_positions  # noqa: SLF001

        async def watched(assignment: Any, node: Any, places: Collection[Any]) -> Any:  # noqa: ANN401
            moved = [place for place in places if assignment.state_value(place).awaiting_reset]
            is_due = await update(assignment, node, places)
            for place in moved:
                state, read = assignment.state_value(place), consumer.read.get(TP(*place))
                if state.has_valid_position and read is not None:
                    consumer.loop.call_soon_threadsafe(consumer.skipped, TP(*place), read, state.position)
            return is_due

        fetcher._update_fetch_positions = watched  # noqa: SLF001

    async def commit_beginnings(self, offsets: Mapping[TP, int]) -> None:
        """Commit offsets of partitions, as far as this member still has them."""
        assigned = self.assignment()
        places = {driver.ensure_aiokafka_TP(place): offset for place, offset in offsets.items() if place in assigned}
        if places:
            with suppress(CommitFailedError, IllegalStateError):  # revoked meanwhile: the next owner commits
                await self._ensure_consumer().commit(places)

    async def positions(self, places: Collection[TP]) -> dict[TP, int]:
        """Return the position in each of the assigned partitions, once all have one."""
        consumer = self._ensure_consumer()
        return {place: await consumer.position(driver.ensure_aiokafka_TP(place)) for place in places}

    async def passed(self, places: Collection[TP]) -> dict[TP, tuple[int, int]]:
        """Return one past the last read record, and the position, of partitions that have both."""
        # In the reading thread: elsewhere the position could advance before the read records are recorded.
        subscription = self._ensure_consumer()._subscription.subscription  # noqa: SLF001
        assignment = None if subscription is None else subscription.assignment
        found: dict[TP, tuple[int, int]] = {}
        for place in places:
            state = assignment and assignment.state_value(driver.ensure_aiokafka_TP(place))
            read = cast("Consumer", self.consumer).read.get(place)
            if state is not None and state.has_valid_position and read is not None:
                found[place] = (read, state.position)
        return found


def _give_up_commits_to_deleted_topics(consumer: Any) -> None:  # noqa: ANN401 - aiokafka is untyped
    """Let commits end where their topic does not exist.

    aiokafka repeats them until it does: then the offsets of the deleted topic are those of the recreated one, whose
    records before them are never read.
    """
    coordinator = consumer._coordinator  # noqa: SLF001
    commit = coordinator._do_commit_offsets  # noqa: SLF001

    async def commit_once(assignment: Any, offsets: Mapping[Any, Any]) -> None:  # noqa: ANN401
        try:
            await commit(assignment, offsets)
        except UnknownTopicOrPartitionError:
            _log.warning(
                "offsets were not committed: their topic does not exist",
                topics=sorted({each.topic for each in offsets}),
            )

    coordinator._do_commit_offsets = commit_once  # noqa: SLF001


def _begin_at_committed_offsets_at_once(consumer: Any) -> None:  # noqa: ANN401 - aiokafka is untyped
    """Let new partitions ask for their committed offsets together.

    aiokafka asks for that of the next one once it has the answer for the one before.
    """
    fetcher = consumer._fetcher  # noqa: SLF001
    update = fetcher._update_fetch_positions  # noqa: SLF001

    async def asked_at_once(assignment: Any, node: Any, places: Collection[Any]) -> Any:  # noqa: ANN401
        states = [assignment.state_value(place) for place in places]
        new = [state for state in states if not _has_begun(state)]
        try:
            told = await asyncio.gather(*(state.fetch_committed() for state in new))
        except asyncio.CancelledError:
            # As aiokafka's own: it awaits the requests that it cancels, and expects no error.
            return False
        for state, committed in zip(new, told, strict=True):
            # Somebody may have sought meanwhile.
            if not _has_begun(state):
                if committed.offset >= 0:
                    state.reset_to(committed.offset)
                else:
                    state.await_reset(fetcher._default_reset_strategy)  # noqa: SLF001
        return await update(assignment, node, places)

    fetcher._update_fetch_positions = asked_at_once  # noqa: SLF001


def _has_begun(state: Any) -> bool:  # noqa: ANN401 - aiokafka is untyped
    return bool(state.has_valid_position or state.awaiting_reset)


class Consumer(driver.Consumer):
    """Tracks read and finished records, and limits the memory per topic.

    Faust commits by counting offsets, not records: it stops where offset 0 survives compaction and the next ones do
    not, and it can skip a single unfinished record.

    Faust limits the number of waiting records, not their size. Here each topic has a limit of its own in bytes, so
    that a backlog in one does not delay another.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().__init__(*args, **kwargs)
        self.read: dict[TP, int] = {}
        """One past the last read record of each partition."""
        self.finished: dict[TP, int] = {}
        """First unfinished record of each partition, else one past the last; initially the first offset read."""
        self.held_bytes: Counter[str] = Counter()
        self._offsets: dict[TP, Offsets] = {}
        self._is_handing_over = False
        self._told_lost: dict[TP, int] = {}

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:  # noqa: ANN401 - aiokafka is untyped
        place = TP(tp.topic, tp.partition)
        if record.offset < (self._read_offset[place] or 0):
            self._begin_anew(place, record.offset)
        self._offsets.setdefault(place, Offsets()).read(record.offset)
        self.held_bytes[tp.topic] += _size(record.value)
        if self.held_bytes[tp.topic] > _HELD_BYTES:
            self.on_buffer_full(place)
        return super()._to_message(tp, record)

    def _begin_anew(self, place: TP, offset: int) -> None:
        """Forget what was read of a partition: it continues at an earlier offset, as one of a recreated topic does.

        Faust would drop all records before the last one that it read of the topic of before, and never commit them.
        """
        _log.warning(
            "a partition continues before what was read of it; was the topic deleted and created again?",
            topic=place.topic,
            partition=place.partition,
            offset=offset,
            read=self._read_offset[place],
        )
        for message in [each for each in self._unacked_messages if each.tp == place]:
            # Its offset is that of another record now.
            self._unacked_messages.discard(message)
            message.acked = True
            self._let_go(message)
        self._read_offset.pop(place, None)
        self._committed_offset.pop(place, None)
        self._told_lost.pop(place, None)
        self._offsets[place] = Offsets()
        self.finished[place] = offset

    def ack(self, message: Message) -> bool:
        """Mark a record as finished, unless its partition was revoked since it was read."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        offsets = self._offsets.get(message.tp)
        if offsets is None or message.generation_id != self.app.consumer_generation_id:
            return False
        offsets.finish(message.offset)
        self.finished[message.tp] = offsets.finished or 0
        self._let_go(message)
        return True

    def _let_go(self, message: Message) -> None:
        topic = message.tp.topic
        self.held_bytes[topic] = max(0, self.held_bytes[topic] - _size(message.value))
        if self.held_bytes[topic] < _HELD_BYTES // 2:
            for place in tuple(self._buffered_partitions):
                if place.topic == topic:
                    self.on_buffer_drop(place)

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Look whether a partition stands still, unless it has no position yet.

        Faust asks for the position also while it is being reset to the beginning, and its worker would stop.
        """
        with suppress(AssertionError):
            super().verify_event_path(now, tp)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to committed offsets, else to the beginning, and commit that; report records that retention deleted.

        aiokafka keeps the position of partitions without a committed offset: records that Faust fetched and dropped
        during a rebalance would never be read again.
        """
        committed = await super().seek_to_committed()
        for place, offset in committed.items():
            if cast("int | None", offset) is None:
                # What was committed is of a deleted topic: Faust would commit nothing before it.
                self._committed_offset.pop(TP(*place), None)
                self._told_lost.pop(TP(*place), None)
        begun = [place for place, offset in committed.items() if (offset or 0) <= 0]
        if begun:
            with suppress(IllegalStateError):  # revoked meanwhile: the next owner seeks again
                await cast("_ConsumerThread", self._thread).seek_to_beginning(*begun)
        try:
            earliest = await self.earliest_offsets(*committed)
            self._compare(committed, earliest)
            await self._begin(committed, earliest)
        except (KafkaError, OSError) as error:
            _log.warning("could not see whether records were lost", error=repr(error))
        return committed

    async def _begin(self, committed: Mapping[TP, int | None], earliest: Mapping[TP, int]) -> None:
        """Commit where partitions without an offset begin.

        Otherwise nobody could tell later that records were deleted before the first one was read.
        """
        new = {TP(*place): earliest[place] for place, offset in committed.items() if offset is None}
        if new:
            thread = cast("_ConsumerThread", self._thread)
            await thread.call_thread(thread.commit_beginnings, new)

    def _compare(self, committed: Mapping[TP, int | None], earliest: Mapping[TP, int]) -> None:
        for place, offset in committed.items():
            if offset is not None and offset >= 0:
                self.skipped(TP(*place), offset, earliest.get(place, 0))

    def skipped(self, place: TP, expected: int, first: int) -> None:
        """Report the records between the one that was to be read and the first that is left, if any."""
        # Report each record once, however many rebalances precede the next commit.
        expected = max(expected, self._told_lost.get(place, 0))
        if first > expected:
            self._told_lost[place] = first
            for lost in cast("Transport", self.transport).lost:
                lost(place.topic, place.partition, first - expected)

    async def force_commit(self, topics: TPorTopicSet | None = None, start_new_transaction: bool = True) -> bool:  # noqa: FBT001, FBT002 - Faust's signature
        """Commit finished records; where all are finished, also skip the gap after the last record."""
        if cast("_ConsumerThread", self._thread).thread_loop.is_closed():
            # Faust ended it after a crash: what is not committed is read again.
            return False
        idle = {place for place, offsets in self._offsets.items() if offsets.idle}
        for place, (read, position) in (await self._passed(idle) if idle else {}).items():
            offsets = self._offsets.get(place)
            # No read record is on its way to the stream, so the skipped offsets are no records.
            if offsets is not None and offsets.idle and offsets.end == read < position:
                offsets.pass_gap(position)
                self.read[place] = self.finished[place] = position
        return bool(await super().force_commit(topics, start_new_transaction))

    async def positions(self, places: Collection[TP]) -> dict[TP, int]:
        """Return the position in each of the assigned partitions, once all have one.

        In one call of the thread that reads: each takes milliseconds where threads compete.
        """
        thread = cast("_ConsumerThread", self._thread)
        found: dict[TP, int] = await thread.call_thread(thread.positions, places) if places else {}
        return found

    async def _passed(self, places: Collection[TP]) -> dict[TP, tuple[int, int]]:
        thread = cast("_ConsumerThread", self._thread)
        found: dict[TP, tuple[int, int]] = await thread.call_thread(thread.passed, places)
        return found

    def _filter_tps_with_pending_acks(self, topics: TPorTopicSet | None = None) -> Iterator[TP]:
        return (place for place in self._offsets if topics is None or place in topics or place.topic in topics)

    def _new_offset(self, tp: TP) -> int | None:
        return self._offsets[tp].finished

    def _should_commit(self, tp: TP, offset: int) -> bool:
        return offset > (self._committed_offset[tp] or 0)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Ignore gaps."""

    def holds(self, message: Message) -> bool:
        """Return whether a record was read after the last revocation."""
        if self._is_handing_over or message.tp not in self._offsets:
            return False
        return message.generation_id == self.app.consumer_generation_id

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish or abandon the work in flight, and commit finished records; the group waits meanwhile."""
        self._is_handing_over = True
        self.stop_flow()
        # Not suspended: then Faust would acknowledge the events that it drops.
        self.app.flow_control.clear()
        transport = cast("Transport", self.transport)
        try:
            if not self.app.should_stop:
                await asyncio.gather(*(release(transport.profile.hand_over_s) for release in transport.releases))
            # Commit now, so that the next owner does not repeat finished work: Faust commits at intervals only, and
            # joins a commit in progress instead of starting its own.
            await self.maybe_wait_for_commit_to_finish()
            await self.commit(revoked)
        except KafkaError as error:
            # aiokafka would log it and go on with the rebalance, and this consumer hand over without end.
            _log.warning("offsets were not committed; their records are handled again", error=repr(error))
        finally:
            self.read.clear()
            self.finished.clear()
            self.held_bytes.clear()
            self._offsets.clear()
            self._is_handing_over = False
        await super().on_partitions_revoked(revoked)


def _size(value: bytes | None) -> int:
    return _RECORD_BYTES + len(value or b"")


class Transport(driver.Transport):
    """Creates the changed consumer."""

    Consumer = Consumer
    profile: BrokerProfile
    settings: KafkaSettings

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().__init__(*args, **kwargs)
        self.releases: list[Release] = []
        self.lost: list[Lost] = []
