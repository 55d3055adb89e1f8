"""Map records of other systems' topics to document changes."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from freki.operators.errors import InvalidEnvelope
from freki.operators.map_envelope import Envelope, without_overtaken
from freki.operators.validate_change import validate_change
from freki.schemas import DocumentChange
from freki.schemas.avro import JsonOfAvro, UndecodableError
from freki.streams.deliver.delivery import Handle
from freki.streams.messages import Received, recorded_at
from freki.streams.ports import SchemaRegistry

Publish = Callable[..., Awaitable[None]]
"""Publisher of changes; returns when the broker has stored them."""
Map = Callable[[Envelope], Sequence[DocumentChange]]
"""Mapping of a record to the changes that it describes. Raises InvalidEnvelope."""
Decode = Callable[[Sequence[Envelope]], Awaitable[Sequence[Envelope]]]
"""Decoder of records to key and value in JSON. Raises InvalidEnvelope, and the errors of a schema registry."""


async def as_they_are(envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
    """Return records unchanged, for key and value that are JSON already."""
    return envelopes


def from_avro(registry: SchemaRegistry) -> Decode:
    """Return a decoder of Avro keys and values written by a schema registry's converter."""
    avro = JsonOfAvro(registry)

    def read(part: bytes | None) -> bytes | None:
        try:
            return None if part is None else avro.read(part)
        except UndecodableError as error:
            raise InvalidEnvelope(str(error)) from error

    async def decode(envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        await registry.prepare(part for envelope in envelopes for part in (envelope.key, envelope.value))
        return [replace(envelope, key=read(envelope.key), value=read(envelope.value)) for envelope in envelopes]

    return decode


def relay_handler(
    changes_of: Map, publish: Publish, *, decode: Decode = as_they_are, keyed_by_row: bool = False
) -> Handle[bytes | None]:
    """Return a handler that publishes the changes in records.

    keyed_by_row: keys of records identify rows of a table, as Debezium's do (see `without_overtaken`).
    All records are mapped before any change is sent, so that a bad record does not cause repeated changes.
    """

    async def handle(batch: Sequence[Received[bytes | None]]) -> None:
        envelopes = await decode([_envelope(received) for received in batch])
        mapped = [(envelope.key, changes_of(envelope)) for envelope in envelopes]
        changes = without_overtaken(mapped) if keyed_by_row else [change for _, several in mapped for change in several]
        for change in changes:
            validate_change(change, key=f"{change.tenant}/{change.document_id}")
        await publish(*changes)

    return handle


def _envelope(received: Received[bytes | None]) -> Envelope:
    return Envelope(
        key=received.key,
        value=received.value,
        headers=received.headers,
        # Of a record that was sent again, the first one: versions may derive from it, and an old state is no newer one.
        timestamp=recorded_at(received.headers, received.timestamp),
        offset=received.offset,
    )
