"""Makes the scenario of a seed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import NamedTuple

from tests.simulation.loop import Style
from tests.simulation.network import Spell
from tests.simulation.scenario import (
    ANYONE,
    SENDS,
    WRITES,
    Ask,
    Bare,
    Compact,
    Crash,
    Delete,
    Expire,
    Fault,
    Junk,
    Leave,
    Lose,
    Operation,
    Pause,
    Put,
    Reclaim,
    Retain,
    Scenario,
    Transaction,
    Unreadable,
    Weather,
)

STAGES = ("chunk", "contextualise", "embed", "retrieve")
PRINCIPALS = (("everyone",), ("staff",), ("board",), ("staff", "board"))
READERS = ((), ("staff",), ("board",))
PARAGRAPHS = 40
LARGE = (8, 16)
"""Paragraphs of a document that has several parts."""
SKEWS_MS = (-6_000, -300, 0, 300, 6_000)
FIRST = ("commit", "commit", "commit", "roots", "roots", "naming", "write_pages", "page_heads", "commits", "rows_of")
"""Those of them that name documents, for who is stopped first: mostly it has decided, and not yet done what it will."""
NEXT = ("naming", "places", "write_pages", "write_pages", "roots", "roots", "page_heads", "commit", "rows_of")
"""For who is stopped next: mostly it knows the store, and has not yet written what others would see of it."""
PARTS = "sends:chunks-bulk"
BETWEEN = ("roots", "stored", "naming", "insert", "write_pages", "page_heads", "commit", "commits", "rows_of", "delete")
"""Calls of an indexer, in its order: a worker that is stopped before one of them has not done what follows."""


def make(seed: int, *, calm: bool = False) -> Scenario:
    """Make the scenario of a seed; calm: without faults, and all workers are there from the beginning."""
    random = Random(seed)  # noqa: S311 - its seed is the point
    lasts_s = random.choice((5.0, 20.0, 60.0, 200.0))
    mixes = random.random() < 0.15
    workers = (STAGES, STAGES) if mixes else _workers(random)
    has_bare = random.random() < 0.5
    # A repetition that another release cuts does not bring back what was lost.
    loses = not (calm or has_bare) and random.random() < 0.1 and not mixes
    session_s = random.choice((2.0, 10.0))
    drawn = _Drawn(random, lasts_s, has_bare=has_bare, compacts=random.random() < 0.3, repeats=loses, large=mixes)
    operations = tuple(drawn.operations())
    times = [each.at_s for each in operations if not isinstance(each, Ask)]
    faults: list[Fault] = []
    if not calm:
        faults = list(_faults(random, times, workers, compacts=drawn.compacts))
        faults += [fault for storm in drawn.storms for fault in _aimed(random, storm, session_s, mixes=mixes)]
        if loses:
            faults += [Lose(random.choice(times[:-1]), random.choice((0.1, 0.5))) for _ in range(random.randint(1, 3))]
    return Scenario(
        seed=seed,
        schedule=seed,
        style=random.choice((Style.EVEN, Style.EVEN, Style.BURSTING, Style.STARVING)),
        workers=workers,
        partitions=random.choice((1, 2, 3)),
        batch_events=random.choice((1, 3, 8)),
        idempotent=calm or random.random() < 0.7,
        bounded=random.random() < 0.2,
        skew_ms=None if has_bare or random.random() < 0.7 else random.choice((-7_000, 7_000)),
        starts_s=0.1 if calm else random.choice((0.1, 1.0, 10.0)),
        session_s=session_s,
        token_s=random.choice((0.0005, 0.005, 0.05)),
        slowest_s=random.choice((0.005, 0.05, 0.5)),
        clocks_ms=tuple(random.choice(SKEWS_MS) for _ in workers),
        releases=tuple(number % 2 if mixes else 0 for number, _ in enumerate(workers)),
        request_records=1 if mixes else random.choice((1, 3, 1_000)),
        operations=operations,
        faults=tuple(sorted(faults, key=lambda each: each.at_s)),
    )


def with_requests(scenario: Scenario) -> Scenario:
    """Add requests to reindex versions, each between a change and the next one of its document.

    Of a document with a null value without a version none: the request would count as recorded after it.
    """
    random = Random(scenario.seed)  # noqa: S311 - its seed is the point
    changes = [each for each in scenario.operations if not isinstance(each, Ask | Junk)]
    fenced = {(each.tenant, each.document) for each in changes if isinstance(each, Bare)}
    editions = count(1)
    requests = []
    for number, change in enumerate(changes):
        if not isinstance(change, Put) or (change.tenant, change.document) in fenced or random.random() < 0.5:
            continue
        following = (each.at_s for each in changes[number + 1 :] if _touches(each, change))
        until_s = min(next(following, change.at_s + 10), change.at_s + 10)
        requests += [
            replace(change, at_s=random.uniform(change.at_s, until_s), edition=next(editions))
            for _ in range(random.choice((1, 1, 2)))
        ]
    return replace(scenario, operations=tuple(sorted([*scenario.operations, *requests], key=lambda each: each.at_s)))


def _touches(operation: Operation, change: Put) -> bool:
    if isinstance(operation, Transaction):
        return any(_touches(each, change) for each in operation.changes)
    return not isinstance(operation, Ask | Junk) and (operation.tenant, operation.document) == (
        change.tenant,
        change.document,
    )


def _workers(random: Random) -> tuple[tuple[str, ...], ...]:
    if random.random() < 0.3:
        return (("chunk", "contextualise"), ("embed",), ("embed", "retrieve"))
    return tuple(STAGES for _ in range(random.choice((1, 2, 2, 2, 3))))


class _Past(NamedTuple):
    """What a document was."""

    version: int
    paragraphs: tuple[int, ...]
    principals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Storm:
    """Many changes of one document within a short time: to and fro between few contents, deletions between them."""

    key: tuple[str, str]
    times: tuple[float, ...]
    contents: tuple[tuple[int, ...], ...]
    principals: tuple[str, ...]


class _Drawn:
    """Draws the operations of producers and askers."""

    def __init__(
        self, random: Random, lasts_s: float, *, has_bare: bool, compacts: bool, repeats: bool, large: bool
    ) -> None:
        self._random = random
        self._lasts_s = lasts_s
        self._has_bare = has_bare
        self.compacts = compacts
        self._repeats = repeats
        self._large = 0.7 if large else 0.3
        self._documents = [
            (tenant, f"{name}.txt") for tenant in ("t", "u") for name in "abcd"[: random.choice((1, 2, 3, 4))]
        ][: random.randint(3, 8)]
        self._past: dict[tuple[str, str], list[_Past]] = {each: [] for each in self._documents}
        self._gone: set[tuple[str, str]] = set()
        self._numbers = count(1)
        self.storms = [self._storm() for _ in range(random.choice((0, 1, 1, 2)))]

    def operations(self) -> Iterator[Operation]:
        """Draw all, in the order of their times."""
        random = self._random
        # Changes come in bursts as often as evenly: they meet each other on their way.
        events = random.randint(12, 30) if not self.storms else random.randint(4, 16)
        bursts = [random.uniform(0, self._lasts_s) for _ in range(3)]
        times: list[tuple[float, _Storm | None]] = [
            (
                random.choice(bursts) + random.expovariate(2)
                if random.random() < 0.5
                else random.uniform(0, self._lasts_s),
                None,
            )
            for _ in range(events)
        ]
        times += [(at_s, storm) for storm in self.storms for at_s in storm.times]
        changes = [
            each
            for at_s, storm in sorted(times, key=lambda each: each[0])
            for each in (self._change(at_s) if storm is None else self._stormy(at_s, storm))
        ]
        if self._repeats:
            changes += self._all_again(changes[-1].at_s + 1)
        asks = [self._ask(random.uniform(0.5, self._lasts_s + 10)) for _ in range(random.randint(8, 24))]
        yield from sorted([*changes, *asks], key=lambda each: each.at_s)

    def _storm(self) -> _Storm:
        random = self._random
        size = random.randint(*LARGE) if random.random() < self._large else random.randint(2, 5)
        whole = tuple(random.sample(range(PARAGRAPHS), size))
        less = tuple(each for each in whole if random.random() < 0.5) or whole[:1]
        other = tuple(random.sample(sorted({*range(PARAGRAPHS)} - {*whole}), random.randint(*LARGE)))
        gap_s, at_s = random.choice((0.02, 0.2, 1.0, 3.0)), random.uniform(0, self._lasts_s)
        times = []
        for _ in range(random.randint(3, 9)):
            times.append(at_s)
            at_s += random.expovariate(1 / gap_s)
        contents = (whole, whole, less, other if random.random() < 0.5 else whole[1:] or whole)
        return _Storm(random.choice(self._documents), tuple(times), contents, random.choice(PRINCIPALS))

    def _stormy(self, at_s: float, storm: _Storm) -> Iterator[Operation]:
        random, past, kind = self._random, self._past[storm.key], self._random.random()
        if kind < 0.25 and past and storm.key not in self._gone:
            yield self._delete(at_s, storm.key)
        elif kind < 0.45 and past and self._has_bare and not self.compacts:
            if random.random() < 0.7:
                yield self._put_of(at_s, storm.key, random.choice(storm.contents), storm.principals)
            self._gone.add(storm.key)
            yield Bare(at_s + 0.1 * random.random(), *storm.key)
        else:
            yield self._put_of(at_s, storm.key, random.choice(storm.contents), storm.principals)

    def _all_again(self, at_s: float) -> list[Operation]:
        """Send the last version of each document once more."""
        return [
            Put(at_s, *key, past[-1].version, past[-1].paragraphs, past[-1].principals)
            for key, past in self._past.items()
            if past and key not in self._gone
        ]

    def _ask(self, at_s: float) -> Ask:
        random = self._random
        tenant, document = self._documents[0] if random.random() < 0.5 else random.choice(self._documents)
        said = [number for past in self._past[tenant, document] for number in past.paragraphs]
        number = random.choice(said) if said else random.randrange(PARAGRAPHS)
        return Ask(at_s, next(self._numbers), tenant, number, random.choice(READERS))

    def _change(self, at_s: float) -> Iterator[Operation]:
        random, kind = self._random, self._random.random()
        # What a storm has left stays as it is: only then does anybody see it in the end.
        over = {storm.key for storm in self.storms if at_s > storm.times[0]}
        documents = [each for each in self._documents if each not in over] or self._documents
        # Changes of one document meet each other more often than those of many.
        key = documents[0] if random.random() < 0.5 else random.choice(documents)
        past = self._past[key]
        if kind < 0.05:
            yield Junk(at_s, random.choice(("bytes", "no key", "no slash", "null", "version")), next(self._numbers))
        elif kind < 0.12 and not (self._has_bare or self.compacts):
            # Its records may lie behind those of later changes.
            yield self._transaction(at_s, documents)
        elif kind < 0.24 and past:
            yield self._delete(at_s, key)
        elif kind < 0.30 and past and self._has_bare and not self.compacts:
            self._gone.add(key)
            yield Bare(at_s, *key)
        elif kind < 0.38 and past and key not in self._gone:
            yield Put(at_s, *key, past[-1].version, past[-1].paragraphs, past[-1].principals)
        else:
            yield self._put(at_s, key)

    def _put(self, at_s: float, key: tuple[str, str]) -> Put:
        return self._put_of(at_s, key, *self._edited(self._past[key]))

    def _put_of(
        self, at_s: float, key: tuple[str, str], paragraphs: tuple[int, ...], principals: tuple[str, ...]
    ) -> Put:
        version = self._next_version(key)
        self._gone.discard(key)
        self._past[key].append(_Past(version, paragraphs, principals))
        return Put(at_s, *key, version, paragraphs, principals, priority=int(self._random.random() < 0.15))

    def _next_version(self, key: tuple[str, str]) -> int:
        past = self._past[key]
        return (past[-1].version if past else 0) + self._random.choice((1, 1, 2, 10))

    def _edited(self, past: list[_Past]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        random, kind = self._random, self._random.random()
        if not past or kind < 0.15:
            size = random.randint(*LARGE) if random.random() < 0.25 else random.randint(1, 5)
            return tuple(random.sample(range(PARAGRAPHS), size)), random.choice(PRINCIPALS)
        last = past[-1]
        if kind < 0.35:
            return random.choice(past).paragraphs, last.principals
        if kind < 0.45:
            return last.paragraphs, random.choice(PRINCIPALS)
        changed = list(last.paragraphs)
        for _ in range(random.randint(1, 2)):
            _EDITS[random.randrange(len(_EDITS))](changed, random)
        return tuple(changed), last.principals

    def _delete(self, at_s: float, key: tuple[str, str]) -> Delete:
        past = self._past[key]
        # A producer may also delete at the version that it last wrote.
        version = past[-1].version if self._random.random() < 0.2 else self._next_version(key)
        past.append(_Past(version, past[-1].paragraphs, past[-1].principals))
        self._gone.add(key)
        return Delete(at_s, *key, version, tombstone=self._random.random() < 0.6)

    def _transaction(self, at_s: float, documents: Sequence[tuple[str, str]]) -> Transaction:
        random = self._random
        commits = random.random() < 0.5
        keys = random.sample(documents, min(len(documents), random.randint(1, 3)))
        before = {key: list(self._past[key]) for key in keys}, set(self._gone)
        changes = tuple(
            self._delete(at_s, key) if self._past[key] and random.random() < 0.3 else self._put(at_s, key)
            for key in keys
        )
        if not commits:
            for key, past in before[0].items():
                # The versions are used up all the same, as a producer's clock or counter is.
                self._past[key] = [*past[:-1], past[-1]._replace(version=self._past[key][-1].version)] if past else []
            self._gone = before[1]
        return Transaction(at_s, changes, commits, random.uniform(0.01, 1.0))


def _replaced(paragraphs: list[int], random: Random) -> None:
    paragraphs[random.randrange(len(paragraphs))] = random.randrange(PARAGRAPHS)


def _inserted(paragraphs: list[int], random: Random) -> None:
    paragraphs.insert(random.randint(0, len(paragraphs)), random.randrange(PARAGRAPHS))


def _removed(paragraphs: list[int], random: Random) -> None:
    if len(paragraphs) > 1:
        del paragraphs[random.randrange(len(paragraphs))]


def _moved(paragraphs: list[int], random: Random) -> None:
    paragraphs.insert(random.randint(0, len(paragraphs)), paragraphs.pop(random.randrange(len(paragraphs))))


_EDITS: tuple[Callable[[list[int], Random], None], ...] = (_replaced, _inserted, _removed, _moved)


def _faults(
    random: Random, times: Sequence[float], workers: tuple[tuple[str, ...], ...], *, compacts: bool
) -> Iterator[Fault]:
    """Draw faults, which mostly hit what is done of a change."""

    def time_s() -> float:
        return random.choice(times) + random.expovariate(random.choice((0.2, 1.0, 5.0)))

    kinds = random.sample(_FAULTS, random.randint(1, 3))
    faults: list[Fault] = [
        random.choice(kinds)(random, time_s(), random.randrange(len(workers)), workers)
        for _ in range(random.randint(1, 6))
    ]
    if compacts:
        faults += [Compact(time_s(), random.choice((0, 3, 10))) for _ in range(2)]
    if random.random() < 0.2:
        faults.append(Retain(time_s()))
    return iter(faults)


def _aimed(random: Random, storm: _Storm, session_s: float, *, mixes: bool) -> Iterator[Fault]:
    """Draw faults that stop whoever is at work with a document while it changes, and perhaps the one who follows."""
    key = "/".join(storm.key)

    def in_turn(at_s: float, first: str, then: str) -> Pause:
        # The first one goes on while its successor stands still with what it knew before.
        for_s = session_s * random.uniform(1.2, 2.0) + random.uniform(0.0, 3.0)
        later = Pause(0.0, ANYONE, for_s * random.uniform(0.7, 1.5), random.choice((1, 1, 2, 2, 3)), then, key)
        return Pause(at_s, ANYONE, for_s, random.choice((1, 1, 2, 2, 3)), first, key, later)

    if mixes:
        yield in_turn(storm.times[-1] - 0.01, PARTS, PARTS)
    for _ in range(random.choice((1, 1, 2))):
        at_s = random.choice((random.choice(storm.times), storm.times[-1])) - 0.01
        of = SENDS if random.random() < 0.1 else random.choice(FIRST)
        kind = random.random()
        if kind < 0.6:
            yield in_turn(at_s, of, random.choice(NEXT))
        elif kind < 0.85:
            lasts_s = random.choice((0.0, 1.0, storm.times[-1] - storm.times[0]))
            for_s = session_s * random.uniform(0.8, 2.0) + lasts_s * random.random()
            yield Pause(at_s, ANYONE, for_s, random.choice((1, 1, 2, 3)), of, key)
        else:
            yield Crash(at_s, ANYONE, random.choice((0.2, 2.0, 15.0)), random.choice((1, 1, 2, 3)), of, key)


def _crash(random: Random, at_s: float, worker: int, _workers: object) -> Fault:
    return Crash(at_s, worker, random.choice((0.2, 2.0, 15.0)), _calls(random), random.choice((WRITES, SENDS)))


def _pause(random: Random, at_s: float, worker: int, _workers: object) -> Fault:
    for_s = random.choice((2.0, 5.0, 12.0, 20.0, 100.0)) * random.uniform(0.5, 1.5)
    return Pause(at_s, worker, for_s, _calls(random), random.choice((WRITES, *BETWEEN)))


def _reclaim(_random: Random, at_s: float, worker: int, _workers: object) -> Fault:
    return Reclaim(at_s, worker)


def _leave(random: Random, at_s: float, worker: int, _workers: object) -> Fault:
    return Leave(at_s, worker, random.choice((0.5, 10.0)))


def _unreadable(random: Random, at_s: float, worker: int, _workers: object) -> Fault:
    return Unreadable(at_s, worker, random.choice((0.1, 1.0, 10.0)))


def _expire(random: Random, at_s: float, worker: int, workers: tuple[tuple[str, ...], ...]) -> Fault:
    group = random.choice(workers[worker])
    return Expire(
        at_s, worker, random.choice(("chunk", "chunk-express")) if group == "chunk" else group, _calls(random)
    )


def _calls(random: Random) -> int:
    return random.choice((0, 1, 1, 2, 3, 5))


def _weather(random: Random, at_s: float, _worker: int, _workers: object) -> Fault:
    place = random.choice(("store", "store", "broker"))
    for_s = random.choice((2.0, 8.0, 30.0))
    spell = Spell(place, at_s, at_s + for_s)
    match random.randrange(4):
        case 0:
            return Weather(at_s, replace(spell, fails=1.0))
        case 1:
            return Weather(at_s, replace(spell, fails=0.1, unanswered=0.1, late=0.1))
        case 2:
            return Weather(at_s, replace(spell, late=0.3, slow_s=0.5))
        case _:
            return Weather(at_s, replace(spell, slow_s=3.0))


_FAULTS: tuple[Callable[[Random, float, int, tuple[tuple[str, ...], ...]], Fault], ...] = (
    _crash,
    _pause,
    _leave,
    _expire,
    _reclaim,
    _unreadable,
    _weather,
)
