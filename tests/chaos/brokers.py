"""What happens to brokers while workers come and go, drawn from the seed of the run: one broker at a time."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tests.cluster import Cluster


class BrokerKind(StrEnum):
    """What happens to a broker, or to all in turn."""

    KILL_LEADER = "leader killed (SIGKILL)"
    KILL_COORDINATOR = "coordinator killed (SIGKILL)"
    RESTART_ALL = "all restarted in turn (SIGTERM)"
    PAUSE = "stopped (SIGSTOP, SIGCONT)"
    CUT = "cut off from clients"
    FILL = "disk full"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFault:
    """One event."""

    kind: BrokerKind
    broker: int
    """Where the kind leaves it open."""
    partition: int
    """Whose leader is killed."""
    wait_s: float
    """After the brokers were well again."""
    lasts_s: float


WEIGHTS = {
    BrokerKind.KILL_LEADER: 25,
    BrokerKind.KILL_COORDINATOR: 25,
    BrokerKind.RESTART_ALL: 10,
    BrokerKind.PAUSE: 20,
    BrokerKind.CUT: 20,
}
WAIT_S = (1.0, 4.0)
LASTS_S = (2.0, 14.0)
"""From less than a broker's session with the controller to more than the clients' with their group."""


def plan(seed: int, faults: int, *, brokers: int, partitions: int, small_disk: int) -> Iterator[BrokerFault]:
    """Draw the faults; every tenth fills the disk that can be filled."""
    drawn = random.Random(f"broker faults {seed}")  # noqa: S311 - not a secret
    for count in range(1, faults + 1):
        fills = small_disk and count % 10 == 0
        yield BrokerFault(
            kind=BrokerKind.FILL if fills else drawn.choices(list(WEIGHTS), list(WEIGHTS.values()))[0],
            broker=small_disk if fills else drawn.randint(1, brokers),
            partition=drawn.randrange(partitions),
            wait_s=drawn.uniform(*WAIT_S),
            lasts_s=drawn.uniform(*LASTS_S),
        )


async def strike(cluster: Cluster, fault: BrokerFault, *, topic: str, group: str) -> None:
    """Let a fault happen and pass; ends when all replicas are in sync again."""
    match fault.kind:
        case BrokerKind.KILL_LEADER:
            await _kill(cluster, await cluster.leader(topic, fault.partition), fault.lasts_s)
        case BrokerKind.KILL_COORDINATOR:
            await _kill(cluster, await cluster.coordinator(group), fault.lasts_s)
        case BrokerKind.RESTART_ALL:
            for number in cluster.brokers:
                await cluster.stop(number)
                await cluster.start(number)
                await cluster.healthy()
        case BrokerKind.PAUSE:
            cluster.pause(fault.broker)
            await asyncio.sleep(fault.lasts_s)
            cluster.resume(fault.broker)
        case BrokerKind.CUT:
            door = cluster.brokers[fault.broker].door
            door.open.clear()
            await asyncio.sleep(fault.lasts_s)
            door.open.set()
        case BrokerKind.FILL:
            await cluster.fill(fault.broker)
            await asyncio.sleep(fault.lasts_s)
            cluster.empty(fault.broker)
            await cluster.start(fault.broker)
    await cluster.healthy()


async def _kill(cluster: Cluster, number: int, lasts_s: float) -> None:
    await cluster.kill(number)
    await asyncio.sleep(lasts_s)
    await cluster.start(number)
