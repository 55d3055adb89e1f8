"""`freki relay`: publish the records of foreign topics as document changes."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Mapping

from opentelemetry.trace import Tracer

from freki.cli.context import command, console, fail, load_settings
from freki.infra.kafka import KafkaProducer
from freki.infra.kafka.admin import Admin
from freki.infra.kafka.app import look_behind, make_app
from freki.infra.keys import cipher_of
from freki.infra.registry import RegistryClient
from freki.infra.settings import RelaySettings, Settings
from freki.infra.telemetry.logs import set_up_logging
from freki.infra.telemetry.traces import tracing
from freki.operators.map_envelope import Envelope, Event, Fields, read_change, read_cloudevent, read_outbox, to_changes
from freki.schemas import DocumentChange, TenantId
from freki.schemas.errors import Misconfigured
from freki.streams.client import Publisher
from freki.streams.deliver.dead_letter_queue import DeadLetterQueue
from freki.streams.deliver.delivery import Delivery, Handle
from freki.streams.deliver.intake import Intake
from freki.streams.deliver.outbox import Outbox
from freki.streams.deliver.run import run_stages
from freki.streams.deliver.stage import Batching, Stage, register
from freki.streams.feed.relay import as_they_are, from_avro, relay_handler
from freki.streams.wire.acls import relay_group
from freki.streams.wire.connect import open_publisher, open_registry
from freki.streams.wire.from_settings import topics_of

_READERS: Mapping[str, Callable[[Envelope], Event | None]] = {
    "cloudevents": read_cloudevent,
    "debezium": read_change,
    "outbox": read_outbox,
}
_EVENT_TYPES = {"cloudevents": "/type", "outbox": "/headers/eventType"}


@command
async def relay() -> None:
    """Publish the changes in the topics that freki.toml describes as relays, until SIGTERM or Ctrl-C."""
    settings = load_settings()
    if not settings.relays:
        fail("no topic to read: describe one as [[relays]] in freki.toml; docs/sources.md shows how", code=2)
    await _check(settings)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    set_up_logging(settings.telemetry)
    with tracing(settings.telemetry, "relay") as tracer:
        # A record that is read again may be an older deletion: its tombstone would delete newer changes.
        async with (
            open_registry(settings) as registry,
            KafkaProducer(settings.kafka) as producer,
            open_publisher(settings, tombstones=False) as publisher,
        ):
            outbox = Outbox(producer, tracer)
            stages = [
                _stage(settings, one, outbox, tracer, _handle(settings, one, publisher, registry))
                for one in settings.relays
            ]
            await run_stages(stages, stop, look_behind=look_behind, on_ready=lambda: _announce(settings))


async def _check(settings: Settings) -> None:
    name, count = Counter(map(_name, settings.relays)).most_common(1)[0]
    if count > 1:
        raise Misconfigured(f"{count} relays are called {name}: give each a `name` of its own in freki.toml")
    for one in settings.relays:
        if one.encoding == "avro" and settings.registry.url is None:
            raise Misconfigured(
                f'relay of {one.topic}: encoding = "avro" needs the registry of its schemas: set FREKI_REGISTRY__URL'
            )
    async with Admin(settings.kafka) as admin:
        partitions = await admin.partitions([one.topic for one in settings.relays])
        for one in settings.relays:
            if not partitions[one.topic]:
                raise Misconfigured(
                    f"topic {one.topic} does not exist, or may not be read; correct `topic` of its relay in freki.toml,"
                    " or give the right that `freki topics acls relay` lists"
                )
            await admin.check_group(relay_group(settings, _name(one)))


def _name(settings: RelaySettings) -> str:
    return settings.name or settings.topic


def _handle(
    settings: Settings, one: RelaySettings, publisher: Publisher, registry: RegistryClient | None
) -> Handle[bytes | None]:
    changes_of = _mapping(one, TenantId(one.tenant or settings.tenant))
    decode = as_they_are if one.encoding == "json" or registry is None else from_avro(registry)
    return relay_handler(changes_of, publisher.publish, decode=decode, keyed_by_row=one.format == "debezium")


def _stage(
    settings: Settings, one: RelaySettings, outbox: Outbox, tracer: Tracer, handle: Handle[bytes | None]
) -> Stage:
    name = f"relay-{_name(one)}"
    delivery = Delivery(
        name,
        intake=Intake(lambda value: value, keyed=False),
        handle=handle,
        dead_letters=DeadLetterQueue(
            outbox, topics_of(settings).dead_letters.name, cipher=cipher_of(settings.encryption)
        ),
        tracer=tracer,
    )
    app = make_app(settings.kafka, relay_group(settings, _name(one)), state_dir=settings.local.state_dir / "faust")
    ingest = settings.ingest
    return register(app, one.topic, delivery, Batching(records=ingest.batch_events, wait_s=ingest.batch_wait_s))


def _mapping(one: RelaySettings, tenant: TenantId) -> Callable[[Envelope], list[DocumentChange]]:
    read = _READERS[one.format]
    fields = Fields(
        document_id=one.document_id,
        prefix=one.prefix,
        content=one.content,
        title=one.title,
        media_type=one.media_type,
        language=one.language,
        source_uri=one.source_uri,
        principals=one.principals,
        attributes=one.attributes,
        version=one.version,
        event_type=one.event_type or _EVENT_TYPES.get(one.format),
        deleted_types=one.deleted_types,
        priority=one.priority,
    )

    def changes(envelope: Envelope) -> list[DocumentChange]:
        event = read(envelope)
        return [] if event is None else to_changes(event, fields, tenant=tenant)

    return changes


def _announce(settings: Settings) -> None:
    console.print(f"Relaying {', '.join(one.topic for one in settings.relays)}. Ctrl-C stops.")
