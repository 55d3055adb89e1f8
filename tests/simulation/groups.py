"""Consumer groups: members, sessions, eager rebalances, and commits that only the current generation may make."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.broker import Place
from tests.simulation.loop import SimulatedLoop

REBALANCE_S = 60.0
FIRST_JOIN_S = 1.5
"""How long a group waits for further members when it begins."""


class Fenced(Exception):
    """Whoever commits is no member of this generation."""


@dataclass(eq=False, slots=True)
class Member:
    """A client in a group, as the coordinator knows it."""

    name: str
    topics: tuple[str, ...]
    told: Callable[[], None]
    """Called when the member's next heartbeat learns that it has to join again."""
    joined: "asyncio.Future[Assignment] | None" = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a member owns in a generation."""

    generation: int
    places: tuple[Place, ...]


@dataclass(slots=True)
class Coordinator:
    """One group. Calls are instantaneous; `network.py` gives them their time."""

    group: str
    loop: SimulatedLoop
    random: Random
    partitions: int
    session_s: float
    generation: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    committed: dict[Place, int] = field(default_factory=dict)
    owners: dict[Place, str] = field(default_factory=dict)
    rebalancing: bool = False
    note: Callable[..., None] = lambda *_: None
    _timer: asyncio.TimerHandle | None = None

    def heartbeat_s(self) -> float:
        """Draw how long it takes until the next heartbeat."""
        return 0.3 * self.session_s * self.random.random()

    def join(self, name: str, topics: tuple[str, ...], told: Callable[[], None]) -> "asyncio.Future[Assignment]":
        """Enter the group, or enter it again; the future has the assignment of the next generation."""
        member = self.members.get(name)
        if member is None:
            member = self.members[name] = Member(name, topics, told)
        if member.joined is None or member.joined.cancelled():
            # Cancelled: the member lost patience with its last request.
            member.joined = self.loop.create_future()
        joined = member.joined
        if not self.rebalancing:
            self._rebalance()
        self._complete_if_all()
        return joined

    def expire(self, name: str) -> None:
        """Throw a member out whose session ended; its next heartbeat says so."""
        member = self.members.get(name)
        if member is not None:
            self.leave(name)
            self.loop.outside(self.heartbeat_s(), member.told)

    def leave(self, name: str) -> None:
        """Take a member out."""
        if self.members.pop(name, None) is None:
            return
        if not self.rebalancing and self.members:
            self._rebalance()
        self._complete_if_all()

    def commit(self, name: str, generation: int, offsets: dict[Place, int]) -> None:
        """Store offsets. Raises Fenced for who is no member of this generation."""
        if name not in self.members or generation != self.generation:
            raise Fenced(f"{name} commits generation {generation} of {self.group}, which is at {self.generation}")
        self.committed.update(offsets)

    def offsets(self, places: tuple[Place, ...]) -> dict[Place, int]:
        """Read what is committed."""
        return {place: self.committed[place] for place in places if place in self.committed}

    def _rebalance(self) -> None:
        self.rebalancing = True
        for member in self.members.values():
            if member.joined is None:
                self._tell(member)
        patience_s = FIRST_JOIN_S if self.generation == 0 else REBALANCE_S
        self._timer = self.loop.outside(patience_s, self._complete)

    def _tell(self, member: Member) -> None:
        """Let the member's next heartbeat say so."""

        def tell() -> None:
            if self.rebalancing and self.members.get(member.name) is member:
                member.told()

        self.loop.outside(self.heartbeat_s(), tell)

    def _complete_if_all(self) -> None:
        if not self.rebalancing or self.generation == 0:
            return
        if all(member.joined is not None for member in self.members.values()):
            self._complete()

    def _complete(self) -> None:
        """Begin the next generation with those who have joined."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.rebalancing = False
        self.members = {name: member for name, member in self.members.items() if member.joined is not None}
        self.generation += 1
        self.owners = {}
        names = list(self.members)
        self.random.shuffle(names)
        for name in names:
            member = self.members[name]
            own = range(names.index(name), self.partitions, len(names))
            places = tuple((topic, number) for topic in member.topics for number in own)
            self.owners.update(dict.fromkeys(places, name))
            self._give(member, Assignment(self.generation, places))
        self.note("assigned", self.group, self.generation, {name: member_numbers(self.owners, name) for name in names})

    def _give(self, member: Member, assignment: Assignment) -> None:
        joined, member.joined = member.joined, None
        if joined is not None:
            self.loop.outside(0.01 * self.random.random(), _answer, joined, assignment)


def member_numbers(owners: dict[Place, str], name: str) -> list[int]:
    """Give the numbers of the partitions that a member owns."""
    return sorted({number for (_, number), owner in owners.items() if owner == name})


def _answer(joined: "asyncio.Future[Any]", assignment: Assignment) -> None:
    if not joined.done():
        joined.set_result(assignment)
