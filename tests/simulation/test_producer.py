from random import Random

import pytest

from freki.schemas.errors import Unavailable
from tests.simulation.broker import Broker
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Network, Spell
from tests.simulation.producer import DELIVERY_S, Producer


def test_what_waits_behind_a_record_that_is_given_up_is_not_stored_before_it() -> None:
    random = Random(1)  # noqa: S311 - its seed is the point
    loop = SimulatedLoop(random)
    network = Network(loop, random, spells=[Spell("broker", 0.0, DELIVERY_S, fails=1.0)])
    broker = Broker(loop.time, partitions=1, epoch_ms=0)
    broker.create("t")
    producer = Producer(
        1, broker=broker, network=network, random=random, idempotent=True, skew_ms=None, request_records=1
    )

    async def send() -> None:
        for delivery in [await producer.send("t", key=b"k", value=value) for value in (b"first", b"second")]:
            with pytest.raises(Unavailable):
                await delivery
        await (await producer.send("t", key=b"k", value=b"again"))

    loop.run_until_complete(loop.begin(Process("p"), send()))
    loop.dispose()

    assert [record.value for record in broker.everything("t")] == [b"again"]
