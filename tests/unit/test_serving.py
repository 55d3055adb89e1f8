"""Which generation answers, and the change from one to another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.settings import LexicalSettings, MilvusSettings, ModelSettings, Settings
from freki.schemas import ChunkKind, ContextQuery, DocumentQuery, Timestamp
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.index import GenerationEntry, offered, serving
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.messages import Received
from freki.streams.retrieve import serving as module
from freki.streams.retrieve.serving import Serving
from freki.streams.wire.serving import entry_of, serving_entry, settings_of


def entry(generation: str, at: int, *, serves: bool = True) -> GenerationEntry:
    return GenerationEntry(entry_id=f"{generation}:{at}", generation=generation, serves=serves, at=Timestamp(at))


class Log:
    """A log of generations in memory."""

    def __init__(self, *entries: GenerationEntry) -> None:
        self.held = list(entries)
        self.is_down = False

    async def entries(self) -> Sequence[GenerationEntry]:
        if self.is_down:
            raise Unavailable("down")
        return list(self.held)

    async def append(self, entry: GenerationEntry) -> None:
        self.held.append(entry)


class Generation:
    """Answers from one generation, when it is allowed to."""

    def __init__(self, name: str, answered: list[tuple[str, int]]) -> None:
        self.name = name
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.is_idle = True
        self.is_closed = False
        self.failure: Exception | None = None
        self._answered = answered

    async def handle(self, batch: Sequence[Received[ContextQuery]]) -> None:
        for place in range(len(batch)):
            await self.go_on.wait()
            assert not self.is_closed
            self._answered.append((self.name, place))

    async def report(self, batch: Sequence[Received[DocumentQuery]]) -> None:
        await self.go_on.wait()
        assert not self.is_closed
        self._answered.append((f"documents of {self.name}", len(batch)))

    async def give_up(self, letter: DeadLetter, received: Received[ContextQuery] | None) -> None:
        assert not self.is_closed
        self._answered.append((f"{letter.stage} of {self.name}", 0 if received is None else 1))

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure


class Workshop:
    """Opens generations, or fails to."""

    def __init__(self) -> None:
        self.opened: dict[str, Generation] = {}
        self.broken: set[str] = set()
        self.failure: Exception = Misconfigured("no such model")
        self.go_on = asyncio.Event()
        """Cleared while opening takes its time."""
        self.go_on.set()
        self.given_up: list[str] = []
        self.answered: list[tuple[str, int]] = []
        self.tries = 0

    @asynccontextmanager
    async def open(self, entry: GenerationEntry) -> AsyncIterator[Generation]:
        self.tries += 1
        if entry.generation in self.broken:
            raise self.failure
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.given_up.append(entry.generation)
            raise
        generation = self.opened[entry.generation] = Generation(entry.generation, self.answered)
        try:
            yield generation
        finally:
            generation.is_closed = True


def batch(size: int) -> list[Received[ContextQuery]]:
    return [object()] * size  # type: ignore[list-item] # only counted


async def looked(serving: Serving) -> None:
    await serving.look()
    for _ in range(5):  # what is opened beside
        await asyncio.sleep(0)
    await serving.look()


async def test_the_first_worker_of_an_index_makes_its_generation_serve() -> None:
    log, workshop = Log(), Workshop()
    one, other = Serving(log, workshop.open), Serving(log, workshop.open)

    await one.start(entry("g1", 1))
    await other.start(entry("g2", 2))

    assert (one.generation, other.generation) == ("g1", "g1")
    assert [each.generation for each in log.held] == ["g1"]


async def test_a_switch_while_a_worker_starts_counts_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log, workshop = Log(entry("g1", 1)), Workshop()
    serving = Serving(log, workshop.open)
    opened = workshop.open

    def switching(found: GenerationEntry) -> AbstractAsyncContextManager[Generation]:
        if found.generation == "g1":
            log.held.append(entry("g2", 2))
        return opened(found)

    monkeypatch.setattr(serving, "_open_generation", switching)

    await serving.start(entry("g1", 1))

    assert serving.generation == "g2"


async def test_a_worker_starts_with_all_that_is_offered_except_what_cannot_be_opened() -> None:
    log, workshop = Log(entry("g1", 1), entry("g2", 2, serves=False), entry("g3", 3, serves=False)), Workshop()
    workshop.broken.add("g2")
    serving = Serving(log, workshop.open)

    await serving.start(entry("g1", 1))

    assert set(workshop.opened) == {"g1", "g3"}
    assert serving.generation == "g1"


async def test_a_batch_is_answered_by_one_generation_and_the_next_one_by_the_other() -> None:
    log, workshop = Log(entry("g1", 1)), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))
    workshop.opened["g1"].go_on.clear()
    early = asyncio.create_task(serving.handle(batch(3)))
    await asyncio.sleep(0)

    log.held.append(entry("g2", 2))
    await looked(serving)
    await serving.handle(batch(2))
    workshop.opened["g1"].go_on.set()
    await early

    assert serving.generation == "g2"
    assert workshop.answered == [("g2", 0), ("g2", 1), ("g1", 0), ("g1", 1), ("g1", 2)]


async def test_it_goes_back_to_the_first_one_as_long_as_that_is_there() -> None:
    log, workshop = Log(entry("g1", 1), entry("g2", 2)), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))
    await looked(serving)

    log.held.append(entry("g1", 3))
    await looked(serving)

    assert serving.generation == "g1"
    assert workshop.tries == 2


async def test_an_offered_generation_is_opened_before_it_serves() -> None:
    log, workshop = Log(entry("g1", 1)), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))

    log.held.append(entry("g2", 2, serves=False))
    await looked(serving)

    assert set(workshop.opened) == {"g1", "g2"}
    assert serving.generation == "g1"


@pytest.mark.parametrize("failure", [Misconfigured("no such model"), ValueError("settings of another release")])
async def test_one_that_cannot_be_opened_leaves_the_other_answering_and_is_tried_again(failure: Exception) -> None:
    log, workshop, now_s = Log(entry("g1", 1)), Workshop(), 0.0
    workshop.failure = failure
    serving = Serving(log, workshop.open, clock=lambda: now_s)
    await serving.start(entry("g1", 1))
    workshop.broken.add("g2")
    log.held.append(entry("g2", 2))

    tried_s = []
    for now_s in range(100):
        before = workshop.tries
        await looked(serving)
        tried_s += [now_s] * (workshop.tries - before)
    assert (serving.generation, tried_s) == ("g1", [0, 1, 3, 7, 15, 31, 61, 91]), "a cause may be over soon"

    workshop.broken.clear()
    log.held.append(entry("g2", 4))
    await looked(serving)
    assert serving.generation == "g2", "another entry may have settings that can be used"


async def test_the_generation_that_should_serve_must_open_at_the_start() -> None:
    workshop = Workshop()
    workshop.broken.add("g1")

    with pytest.raises(Misconfigured, match="no such model"):
        await Serving(Log(entry("g1", 1)), workshop.open).start(entry("g2", 2))


async def test_a_dropped_generation_is_closed_once_nothing_is_answered_from_it() -> None:
    log, workshop = Log(entry("g1", 1), entry("g2", 2)), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))
    log.held.append(entry("g1", 3))
    await looked(serving)
    workshop.opened["g1"].go_on.clear()
    early = asyncio.create_task(serving.handle(batch(1)))
    await asyncio.sleep(0)

    log.held = [entry("g2", 4)]
    await looked(serving)
    assert (serving.generation, workshop.opened["g1"].is_closed) == ("g2", False)
    workshop.opened["g1"].go_on.set()
    await early
    workshop.opened["g1"].is_idle = False
    await serving.look()
    assert not workshop.opened["g1"].is_closed
    workshop.opened["g1"].is_idle = True
    await serving.look()

    assert workshop.opened["g1"].is_closed


async def test_a_generation_that_is_dropped_while_it_is_opened_is_given_up() -> None:
    log, workshop = Log(entry("g1", 1)), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))
    workshop.go_on.clear()
    log.held.append(entry("g2", 2, serves=False))
    await looked(serving)

    log.held = [entry("g1", 1)]
    await serving.look()

    assert workshop.given_up == ["g2"], "it would create collections that were dropped"
    workshop.go_on.set()
    log.held.append(entry("g2", 3, serves=False))
    await looked(serving)
    assert set(workshop.opened) == {"g1", "g2"}, "another of its name is opened"


@pytest.mark.parametrize("answers", ["g1", "g2"])
async def test_a_generation_that_was_dropped_and_made_for_others_while_the_worker_paused_is_opened_anew(
    answers: str,
) -> None:
    before = replace(entry("g2", 2, serves=answers == "g2"), settings={"models": {"embedder": "one"}})
    log, workshop = Log(entry("g1", 1), before), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))
    old = workshop.opened["g2"]
    old.go_on.clear()
    early = asyncio.create_task(serving.handle(batch(1))) if answers == "g2" else None
    await asyncio.sleep(0)

    log.held = [entry("g1", 3), replace(entry("g2", 4), settings={"models": {"embedder": "other"}})]
    await serving.look()
    assert serving.generation == answers, "it goes on answering from what is open"
    await looked(serving)

    new = workshop.opened["g2"]
    assert (serving.generation, new is old, new.is_closed) == ("g2", False, False)
    assert old.is_closed is (early is None)
    old.go_on.set()
    if early is not None:
        await early
    await serving.handle(batch(1))
    await looked(serving)
    assert (old.is_closed, workshop.tries) == (True, 3)


async def test_an_outage_of_the_store_changes_nothing_and_a_failed_task_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHECK_INTERVAL_S", 0.0)
    log, workshop = Log(entry("g1", 1)), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))
    log.is_down = True
    following = asyncio.create_task(serving.follow())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not following.done()
    assert serving.generation == "g1"

    workshop.opened["g1"].failure = Misconfigured("a topic is gone")

    with pytest.raises(Misconfigured, match="a topic is gone"):
        await following


async def test_an_outage_of_the_log_is_told_once_and_so_is_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_INTERVAL_S", 0.0)
    log, workshop = Log(entry("g1", 1)), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))
    following = asyncio.create_task(serving.follow())

    with structlog.testing.capture_logs() as lines:
        for log.is_down in (True, False, True):
            for _ in range(20):
                await asyncio.sleep(0)
    following.cancel()

    told = [(line["log_level"], line["now"], line["error"]) for line in lines]
    assert told == [("warning", "g1", "down")] * 2


async def test_all_generations_are_closed_at_the_end() -> None:
    log, workshop = Log(entry("g1", 1), entry("g2", 2, serves=False)), Workshop()
    serving = Serving(log, workshop.open)
    await serving.start(entry("g1", 1))
    await looked(serving)

    await serving.aclose()

    assert all(generation.is_closed for generation in workshop.opened.values())


def test_an_entry_carries_the_settings_that_queries_on_its_generation_need() -> None:
    made_for = Settings(
        milvus=MilvusSettings(generation="g2"),
        models=ModelSettings(embedder="/models/other", embedders={ChunkKind.CODE: "coder"}, late_window_tokens=480),
        lexical=LexicalSettings(analyser="plain"),
    )
    worker = Settings(models=ModelSettings(threads=3))

    found = settings_of(worker, entry_of(made_for, serves=False))

    assert found.milvus.generation == "g2"
    assert (found.lexical, found.models) == (made_for.lexical, made_for.models.model_copy(update={"threads": 3}))
    assert settings_of(worker, entry_of(worker, serves=True)) == worker, "its own generation needs no further model"


def test_a_switch_is_later_than_the_last_one_whatever_the_clocks_say() -> None:
    last = entry("g1", 1 << 60)

    after = serving_entry(entry("g2", 5, serves=False), last)

    assert serving([last, after]) == after
    assert serving([after, serving_entry(last, after)]) != after


@given(st.lists(st.tuples(st.sampled_from(["g1", "g2", "g3"]), st.integers(0, 9), st.booleans()), unique=True))
def test_what_serves_does_not_depend_on_the_order_of_reading(drawn: list[tuple[str, int, bool]]) -> None:
    entries = [entry(name, at, serves=serves) for name, at, serves in drawn]

    assert serving(entries) == serving(reversed(entries))
    assert offered(entries).keys() == {name for name, _, _ in drawn}
    assert (serving(entries) is None) == (not any(serves for _, _, serves in drawn))
