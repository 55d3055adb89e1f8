"""What sends records, and how long it waits for the broker."""

import asyncio

import pytest
from opentelemetry.trace import NoOpTracer

from freki.schemas.errors import Unavailable
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Headers, Outgoing


class Hanging:
    """A producer whose broker confirms nothing, and which takes no record after so many."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.deliveries: list[asyncio.Future[None]] = []

    async def send(
        self,
        topic: str,  # noqa: ARG002
        *,
        key: bytes | None,  # noqa: ARG002
        value: bytes | None,  # noqa: ARG002
        headers: Headers = (),  # noqa: ARG002
        partition: int | None = None,  # noqa: ARG002
    ) -> asyncio.Future[None]:
        delivery: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(self.deliveries) == self.takes:
            await delivery
        self.deliveries.append(delivery)
        return delivery


@pytest.mark.parametrize("takes", [0, 1, 2])
async def test_a_broker_that_confirms_nothing_is_waited_for_no_longer_than_it_may_take(takes: int) -> None:
    producer = Hanging(takes)
    outbox = Outbox(producer, NoOpTracer(), limit_s=0.01)

    # A change, and the tombstone after it.
    with pytest.raises(Unavailable, match="documents: the broker has not taken it within"):
        await outbox.send(
            Outgoing(topic="documents", key=b"k", value=b"v"), Outgoing(topic="documents", key=b"k", value=None)
        )

    assert all(delivery.cancelled() for delivery in producer.deliveries), "nobody waits for them any more"
