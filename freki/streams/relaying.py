"""Relay: records of somebody else's topic become document changes."""

from collections.abc import Awaitable, Callable, Sequence

from freki.operators.map_envelope import Envelope
from freki.operators.validate_change import validate_change
from freki.schemas import DocumentChange
from freki.streams.deliver import Handle
from freki.streams.messages import Received

Publish = Callable[..., Awaitable[None]]
"""Takes changes, and returns when the broker has them."""
Map = Callable[[Envelope], DocumentChange | None]
"""Makes the change that a record tells of; None: it tells of none. Raises InvalidEnvelope."""


def relaying(to_change: Map, publish: Publish) -> Handle[bytes | None]:
    """Publish what records tell of. All are mapped before any is sent, so a bad one among them repeats nothing."""

    async def handle(batch: Sequence[Received[bytes | None]]) -> None:
        mapped = [to_change(_envelope(received)) for received in batch]
        changes = [change for change in mapped if change is not None]
        for change in changes:
            validate_change(change, key=f"{change.tenant}/{change.document_id}")
        await publish(*changes)

    return handle


def _envelope(received: Received[bytes | None]) -> Envelope:
    return Envelope(
        key=received.key,
        value=received.value,
        headers=received.headers,
        timestamp=received.timestamp,
        offset=received.offset,
    )
