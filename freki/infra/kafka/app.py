"""Faust, set up for delivery at least once and for low latency.

Faust 0.15.3 does a few things in a way that we need otherwise; each class below changes one of them.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import faust
import structlog
from aiokafka.errors import IllegalStateError, KafkaError
from faust.auth import Credentials, OAuthCredentials
from faust.tables import TableManager
from faust.transport.consumer import RecordMap
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage, Message
from faust.types.transports import TPorTopicSet

from freki.infra.kafka.batches import read_any_header_names
from freki.infra.kafka.connection import (
    PROFILES,
    REQUEST_MARGIN_BYTES,
    Profile,
    credentials,
    ssl_context,
    tokens,
    translate,
)
from freki.infra.kafka.offsets import Offsets
from freki.infra.kafka.reader import ISOLATION
from freki.infra.kafka.tokens import ForAiokafka
from freki.infra.settings.sections import KafkaSettings

_log = structlog.get_logger(__name__)

_COMMIT_INTERVAL_S = 0.5
"""What is done again after a crash; a commit is one small request."""
_MAX_POLL_INTERVAL_S = 7200.0
"""Faust does not poll while its buffer is full. Liveness is the watchdog's, which is sooner."""
_BACKLOG_TIMEOUT_S = 10.0
_POLLED_RECORDS = 256
"""Events that one poll of all partitions may bring."""
_BUFFERED_RECORDS = 4096
_BUFFER_POLLS = 5
"""Faust pauses partitions when the buffer of their stream is 80 % full, and wakes them late: five polls stay below."""
_HELD_BYTES = 32 * 1024 * 1024
"""Values of a topic in memory that are not finished; what one more poll brings comes on top."""
_RECORD_BYTES = 1024
"""What a record takes besides its value."""

Release = Callable[[float], Awaitable[None]]
"""Ends within so many seconds what is at hand; never raises."""
Lost = Callable[[str, int, int], None]
"""Takes topic, partition, and how many offsets of it the broker dropped before they were read."""


def make_app(settings: KafkaSettings, name: str, *, state_dir: Path) -> faust.App:
    """Make an app: its name is the consumer group. Topics of one app with equally many partitions are shared out alike.

    Topics carry raw bytes, partitions are read from the earliest record where the group has no offset yet, and an
    event counts as done only when the stage acknowledges it. `state_dir` gets a few empty directories: Faust makes
    them when it starts, and we keep no tables.
    """
    read_any_header_names()
    state_dir.mkdir(parents=True, exist_ok=True)
    profile = PROFILES[settings.profile]
    polled = max(1, _POLLED_RECORDS // settings.partitions)
    app = faust.App(
        name,
        broker=[f"kafka://{server}" for server in settings.bootstrap.split(",")],
        broker_credentials=_faust_credentials(settings),
        broker_session_timeout=profile.session_timeout_s,
        broker_heartbeat_interval=profile.heartbeat_s,
        broker_rebalance_timeout=profile.rebalance_timeout_s,
        broker_commit_interval=_COMMIT_INTERVAL_S,
        broker_max_poll_records=polled,
        broker_max_poll_interval=_MAX_POLL_INTERVAL_S,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=settings.max_message_bytes + REQUEST_MARGIN_BYTES,
        stream_buffer_maxsize=max(_BUFFERED_RECORDS, polled * settings.partitions * _BUFFER_POLLS),
        # An event that was not acknowledged would block the shutdown and every rebalance for good.
        stream_wait_empty=False,
        key_serializer="raw",
        value_serializer="raw",
        topic_allow_declare=False,
        topic_disable_leader=True,
        datadir=state_dir / name,
        store="memory://",
        web_enabled=False,
        worker_redirect_stdouts=False,
        TableManager=_NoTables,
    )
    app.transport = _Transport(app.conf.broker_consumer, app)
    app.transport.profile = profile
    app.transport.settings = settings
    return app


def on_revoked(app: faust.App, release: Release) -> None:
    """Call `release` whenever partitions are taken away, with the seconds that it has: before others may begin.

    It ends what is at hand, one way or the other. aiokafka takes all partitions away when members come or go, also
    those that a member gets again.
    """
    cast("_Transport", app.transport).releases.append(release)


def on_lost(app: faust.App, lost: Lost) -> None:
    """Call `lost` when reading begins in a partition that no longer holds what comes next for this group."""
    cast("_Transport", app.transport).lost.append(lost)


def crash_of(app: faust.App) -> BaseException | None:
    """Return what an app crashed with, in our words where Kafka refused something; None where it does not say."""
    reason = app.crash_reason
    if isinstance(reason, KafkaError):
        ours = translate("read", reason, cast("_Transport", app.transport).settings)
        ours.__cause__ = reason
        return ours
    return reason


def holds(app: faust.App, message: Message) -> bool:
    """Tell whether a record is still this member's to finish."""
    return cast("_Consumer", app.consumer).holds(message)


async def look_behind(app: faust.App) -> dict[tuple[str, int], int] | None:
    """Count the unfinished records in each of the app's partitions; None where the broker does not tell."""
    consumer = cast("_Consumer", app.consumer)
    places = consumer.assignment()
    try:
        async with asyncio.timeout(_BACKLOG_TIMEOUT_S):
            ends = await consumer.highwaters(*places)
            return {(place.topic, place.partition): await _waiting(consumer, place, ends[place]) for place in places}
    except (KafkaError, OSError):
        return None


async def _waiting(consumer: "_Consumer", place: TP, end: int) -> int:
    read, finished = consumer.read.get(place, 0), consumer.finished.get(place, 0)
    if read > finished:
        # The local broker, asked where a partition ends, names the first record of its last batch.
        return max(read, end) - finished
    # Positions move past what compaction and transactions leave; offsets of finished records do not.
    return max(0, end - (await consumer.position(place) or 0))


def _faust_credentials(settings: KafkaSettings) -> Credentials | None:
    context = ssl_context(settings)
    given = tokens(settings)
    if given is not None:
        return OAuthCredentials(oauth_cb=ForAiokafka(given), ssl_context=context)
    login = credentials(settings)
    if login is not None:
        username, password = login
        return faust.SASLCredentials(
            username=username, password=password, mechanism=settings.sasl_mechanism, ssl_context=context
        )
    return None if context is None else faust.SSLCredentials(context)


class _NoTables(TableManager):
    """Starts at once; Faust's waits a second for tables to be declared, and we have none."""

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    """Reads what is committed, waits as our profile says where Faust waits 1500 ms, and notes what it has read."""

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:  # noqa: ANN401 - aiokafka is untyped
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = cast("_Transport", transport).profile.fetch_wait_ms  # noqa: SLF001
        # Faust reads uncommitted records unless it writes its own transactions.
        consumer._isolation_level = ISOLATION  # noqa: SLF001
        return consumer

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> RecordMap:  # noqa: ANN401 - passed on as they are
        # Noted here, where positions move on: what is read may be dropped on its way to the stream.
        fetched = await super()._fetch_records(*args, **kwargs)
        consumer = cast("_Consumer", self.consumer)
        for place, records in fetched.items():
            if records:
                consumer.finished.setdefault(TP(*place), records[0].offset)
                consumer.read[TP(*place)] = records[-1].offset + 1
        return fetched

    async def passed(self, places: Collection[TP]) -> dict[TP, tuple[int, int]]:
        """Give one past the last record that was read, and the position, of partitions that have both."""
        # In the thread that reads: elsewhere the position could move on before it is noted what was read.
        subscription = self._ensure_consumer()._subscription.subscription  # noqa: SLF001
        assignment = None if subscription is None else subscription.assignment
        found: dict[TP, tuple[int, int]] = {}
        for place in places:
            state = assignment and assignment.state_value(driver.ensure_aiokafka_TP(place))
            read = cast("_Consumer", self.consumer).read.get(place)
            if state is not None and state.has_valid_position and read is not None:
                found[place] = (read, state.position)
        return found


class _Consumer(driver.Consumer):
    """Knows what was read and what of it is finished, and holds no more bytes of a topic than it may.

    Faust's own bookkeeping of commits counts offsets, not records: it stands still where offset 0 survives compaction
    and the next ones do not, and steps over a single unfinished record.

    Faust limits how many records wait for the stream, whatever their size. Each topic has a limit of its own, so that
    one with a backlog does not hold up another.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().__init__(*args, **kwargs)
        self.read: dict[TP, int] = {}
        """One past the last record that was read of each partition."""
        self.finished: dict[TP, int] = {}
        """The first record that is not finished, or one past the last; at first, where reading began."""
        self.held_bytes: Counter[str] = Counter()
        self._offsets: dict[TP, Offsets] = {}
        self._is_handing_over = False
        self._told_lost: dict[TP, int] = {}

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:  # noqa: ANN401 - aiokafka is untyped
        place = TP(tp.topic, tp.partition)
        self._offsets.setdefault(place, Offsets()).read(record.offset)
        self.held_bytes[tp.topic] += _size(record.value)
        if self.held_bytes[tp.topic] > _HELD_BYTES:
            self.on_buffer_full(place)
        return super()._to_message(tp, record)

    def ack(self, message: Message) -> bool:
        """Note that a record is done with, unless its partition was taken away since it was read."""
        if message.acked:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        offsets = self._offsets.get(message.tp)
        if offsets is None or message.generation_id != self.app.consumer_generation_id:
            return False
        offsets.finish(message.offset)
        self.finished[message.tp] = offsets.finished or 0
        topic = message.tp.topic
        self.held_bytes[topic] = max(0, self.held_bytes[topic] - _size(message.value))
        if self.held_bytes[topic] < _HELD_BYTES // 2:
            for place in tuple(self._buffered_partitions):
                if place.topic == topic:
                    self.on_buffer_drop(place)
        return True

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Begin where the group stopped, else at the beginning; tell where retention was faster.

        aiokafka leaves a partition of which nothing is committed where it is: what Faust has fetched and dropped, since
        partitions were moving, would never come again.
        """
        committed = await super().seek_to_committed()
        begun = [place for place, offset in committed.items() if (offset or 0) <= 0]
        if begun:
            with suppress(IllegalStateError):  # taken away meanwhile: whoever gets them next begins anew
                await cast("_ConsumerThread", self._thread).seek_to_beginning(*begun)
        try:
            self._compare(committed, await self.earliest_offsets(*committed))
        except (KafkaError, OSError) as error:
            _log.warning("could not see whether records were lost", error=repr(error))
        return committed

    def _compare(self, committed: Mapping[TP, int | None], earliest: Mapping[TP, int]) -> None:
        for place, offset in committed.items():
            first = earliest.get(place, 0)
            # Once for each record, however often partitions move before the next commit.
            expected = max(-1 if offset is None else offset, self._told_lost.get(TP(*place), 0))
            if offset is not None and offset >= 0 and first > expected:
                self._told_lost[TP(*place)] = first
                for lost in cast("_Transport", self.transport).lost:
                    lost(place.topic, place.partition, first - expected)

    async def force_commit(self, topics: TPorTopicSet | None = None, start_new_transaction: bool = True) -> bool:  # noqa: FBT001, FBT002 - Faust's signature
        """Commit what is finished; where that is all, also past the gap that may follow the last record."""
        idle = {place for place, offsets in self._offsets.items() if offsets.idle}
        for place, (read, position) in (await self._passed(idle) if idle else {}).items():
            offsets = self._offsets.get(place)
            # Nothing that was read is on its way to the stream: what the position has passed are no records.
            if offsets is not None and offsets.idle and offsets.end == read < position:
                offsets.pass_gap(position)
                self.read[place] = self.finished[place] = position
        return bool(await super().force_commit(topics, start_new_transaction))

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
        """Forget gaps."""

    def holds(self, message: Message) -> bool:
        """Tell whether a record was read since partitions were last taken away."""
        if self._is_handing_over or message.tp not in self._offsets:
            return False
        return message.generation_id == self.app.consumer_generation_id

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish what is at hand, or give it up, and commit what is finished; the group waits meanwhile."""
        self._is_handing_over = True
        self.stop_flow()
        # Not suspended yet: from then on Faust acknowledges the events that it drops.
        self.app.flow_control.clear()
        transport = cast("_Transport", self.transport)
        if not self.app.should_stop:
            await asyncio.gather(*(release(transport.profile.hand_over_s) for release in transport.releases))
        # What is done is not done again by the next owner of the partitions; Faust commits at intervals only, and joins
        # a commit that is under way instead of beginning its own.
        await self.maybe_wait_for_commit_to_finish()
        await self.commit(revoked)
        self.read.clear()
        self.finished.clear()
        self.held_bytes.clear()
        self._offsets.clear()
        self._is_handing_over = False
        await super().on_partitions_revoked(revoked)


def _size(value: bytes | None) -> int:
    return _RECORD_BYTES + len(value or b"")


class _Transport(driver.Transport):
    """Makes our consumer."""

    Consumer = _Consumer
    profile: Profile
    settings: KafkaSettings

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().__init__(*args, **kwargs)
        self.releases: list[Release] = []
        self.lost: list[Lost] = []
