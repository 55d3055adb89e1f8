"""Faust apps, configured for at-least-once delivery and low latency; `consumer.py` changes what Faust 0.15.3 reads."""

import asyncio
from pathlib import Path
from typing import cast

import faust
from aiokafka.errors import KafkaError
from faust.auth import Credentials, OAuthCredentials
from faust.tables import TableManager
from faust.types import TP, Message

from freki.infra.kafka.batches import read_any_header_names
from freki.infra.kafka.connection import (
    PROFILES,
    REQUEST_MARGIN_BYTES,
    credentials,
    probe,
    ssl_context,
    tokens,
    translate,
    translated,
)
from freki.infra.kafka.consumer import Consumer, Lost, Release, Transport
from freki.infra.kafka.tokens import ForAiokafka
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import InfraError, Misconfigured

_COMMIT_INTERVAL_S = 0.5
"""Interval of commits, which bounds the work repeated after a crash; a commit is one small request."""
_MAX_POLL_INTERVAL_S = 7200.0
"""Maximum interval of polls: Faust does not poll while its buffer is full, and a watchdog checks liveness."""
_METADATA_AGE_MS = 10_000
"""Interval of looks at the topics: until then, nobody reads one that was recreated, or partitions that were added.

Five minutes by default, in which a worker without partitions seems healthy.
"""
_BACKLOG_TIMEOUT_S = 10.0
"""Timeout for measuring the backlog."""
_POLLED_RECORDS = 256
"""Maximum records per poll, over all partitions."""
_BUFFERED_RECORDS = 4096
"""Capacity of a stream buffer, of at least five polls: Faust pauses partitions at 80 %."""


def make_app(settings: KafkaSettings, name: str, *, state_dir: Path) -> faust.App:
    """Return a Faust app whose name is the consumer group. Topics with equally many partitions are assigned alike.

    Topics carry raw bytes, partitions are read from the earliest record where the group has no offset, and an event is
    finished only when the stage acknowledges it. Faust creates a few empty directories in `state_dir`; no tables are
    used.
    """
    read_any_header_names()
    state_dir.mkdir(parents=True, exist_ok=True)
    profile = PROFILES[settings.profile]
    app = faust.App(
        name,
        broker=[f"kafka://{server}" for server in settings.bootstrap.split(",")],
        broker_credentials=_faust_credentials(settings),
        broker_session_timeout=profile.session_timeout_s,
        broker_heartbeat_interval=profile.heartbeat_s,
        broker_rebalance_timeout=profile.rebalance_timeout_s,
        broker_commit_interval=_COMMIT_INTERVAL_S,
        broker_max_poll_records=_POLLED_RECORDS,
        broker_max_poll_interval=_MAX_POLL_INTERVAL_S,
        consumer_auto_offset_reset="earliest",
        consumer_metadata_max_age_ms=_METADATA_AGE_MS,
        consumer_max_fetch_size=settings.max_message_bytes + REQUEST_MARGIN_BYTES,
        stream_buffer_maxsize=_BUFFERED_RECORDS,
        # Otherwise an unacknowledged event would block shutdown and rebalances forever.
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
    app.transport = Transport(app.conf.broker_consumer, app)
    app.transport.profile = profile
    app.transport.settings = settings
    return app


def on_revoked(app: faust.App, release: Release) -> None:
    """Call `release` with its time limit in seconds whenever partitions are revoked, before they are reassigned.

    It must finish or abandon the work in flight. aiokafka revokes all partitions in each rebalance, also those that
    the member gets back.
    """
    cast("Transport", app.transport).releases.append(release)


def on_lost(app: faust.App, lost: Lost) -> None:
    """Call `lost` when a partition no longer holds the next offset of this group."""
    cast("Transport", app.transport).lost.append(lost)


def crash_of(app: faust.App) -> BaseException | None:
    """Return the exception that crashed an app, translated if it is one of Kafka; None where it has not crashed."""
    reason = app.crash_reason
    if isinstance(reason, KafkaError):
        ours = translate("read", reason, cast("Transport", app.transport).settings)
        ours.__cause__ = reason
        return ours
    return reason


async def refusal_of(app: faust.App) -> Misconfigured | None:
    """Return what the broker refuses a new connection with, such as a changed password; None where it does not."""
    settings = cast("Transport", app.transport).settings
    try:
        with translated("connect", settings):
            await probe(settings)
    except Misconfigured as error:
        return error
    except InfraError:
        return None
    return None


def holds(app: faust.App, message: Message) -> bool:
    """Return whether this member still owns the partition of a record."""
    return cast("Consumer", app.consumer).holds(message)


async def look_behind(app: faust.App) -> dict[tuple[str, int], int] | None:
    """Return the number of unfinished records in each assigned partition; None if the broker does not answer."""
    consumer = cast("Consumer", app.consumer)
    places = consumer.assignment()
    try:
        async with asyncio.timeout(_BACKLOG_TIMEOUT_S):
            ends = await consumer.highwaters(*places)
            positions = await consumer.positions({place for place in places if not _is_begun(consumer, place)})
    except (KafkaError, OSError):
        return None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Of the request alone: the reading thread cancels its requests when it crashes, and `crash_of` knows why.
        return None
    return {
        (place.topic, place.partition): _waiting(consumer, place, end=ends[place], position=positions.get(place))
        for place in places
    }


def _is_begun(consumer: "Consumer", place: TP) -> bool:
    """Return whether a record was read of a partition, and is not finished."""
    return consumer.read.get(place, 0) > consumer.finished.get(place, 0)


def _waiting(consumer: "Consumer", place: TP, *, end: int, position: int | None) -> int:
    if position is None or _is_begun(consumer, place):
        # The local broker reports the first record of the last batch as the end of a partition.
        return max(0, max(consumer.read.get(place, 0), end) - consumer.finished.get(place, 0))
    # Positions skip the gaps left by compaction and transactions; offsets of finished records do not.
    return max(0, end - position)


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
    """Starts without the second that Faust waits for tables to be declared: there are none."""

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()
