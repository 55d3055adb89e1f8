"""Erasing in a worker: what may not be removed is told, and stops nothing else."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from freki.infra.claims import ClaimStore
from freki.infra.settings import ClaimSettings, Settings
from freki.schemas import Coverage, DocumentId, Hold, TenantId
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.schemas.findings import Findings
from freki.schemas.names import root_id
from freki.streams.deliver.dead_letters import note_settled
from freki.streams.deliver.outbox import Outbox
from freki.streams.privacy.requests import ErasureRequests
from freki.streams.privacy.retention import Retention, RetentionRun
from freki.streams.wire.erasing.consumers import Consumers
from freki.streams.wire.erasing.holds import RecentHolds
from freki.streams.wire.erasing.remove import Remover, sent_again, time_on_disk
from freki.streams.wire.erasing.serve import resume_held, retain
from freki.streams.wire.erasing.topics import searched_topics
from tests.erasing import TENANT, hold
from tests.unit.deliveries import Event

A, B = DocumentId("a"), DocumentId("b")


class Failing:
    """Satisfies what the loops call of ErasureRequests and Retention: fails once, then is done."""

    def __init__(self, error: InfraError) -> None:
        self._errors = [error]
        self.done = asyncio.Event()

    async def resume(self) -> None:
        """Fail at first."""
        if self._errors:
            raise self._errors.pop()
        self.done.set()

    async def run(self) -> RetentionRun:
        """Fail at first."""
        await self.resume()
        return RetentionRun()


LOOPS: list[Callable[[Failing], asyncio.Task[None]]] = [
    lambda work: asyncio.create_task(resume_held(cast("ErasureRequests", work), 0.001)),
    lambda work: asyncio.create_task(retain(cast("Retention", work), 0.001)),
]


@pytest.mark.parametrize("loop", LOOPS, ids=["requests", "retention"])
@pytest.mark.parametrize("error", [Unavailable("down"), Rejected("one claim may not be removed")])
async def test_what_fails_once_is_tried_again(loop: Callable[[Failing], asyncio.Task[None]], error: InfraError) -> None:
    work = Failing(error)
    task = loop(work)

    await asyncio.wait({task, asyncio.create_task(work.done.wait())}, return_when=asyncio.FIRST_COMPLETED)

    assert not task.done()
    task.cancel()


@pytest.mark.parametrize("loop", LOOPS, ids=["requests", "retention"])
async def test_a_wrong_setting_ends_the_task_and_with_it_the_worker(
    loop: Callable[[Failing], asyncio.Task[None]],
) -> None:
    with pytest.raises(Misconfigured):
        await loop(Failing(Misconfigured("FREKI_X")))


async def test_holds_are_read_once_a_second() -> None:
    now, read = 100.0, list[float]()

    async def read_holds() -> Sequence[Hold]:
        read.append(now)
        return [hold(f"h{len(read)}", Coverage(whole_tenant=True))]

    book = RecentHolds(read_holds, clock=lambda: now)
    named = []
    for _ in range(5):
        named.append([each.name for each in await book.of(TENANT)])
        now += 0.4

    assert read == [100.0, pytest.approx(101.2)]
    assert named == [["h1"]] * 3 + [["h2"]] * 2
    assert await book.of(TenantId("sales")) == []


async def test_nobody_gets_older_holds_than_another_got_before() -> None:
    now, gates = 100.0, [asyncio.Event(), asyncio.Event()]
    numbers = count()

    async def read_holds() -> Sequence[Hold]:
        number = next(numbers)
        await gates[number].wait()
        return [hold(f"h{number}", Coverage(whole_tenant=True))]

    book = RecentHolds(read_holds, clock=lambda: now)
    first = asyncio.create_task(book.of(TENANT))
    await asyncio.sleep(0)
    now += 2
    second = asyncio.create_task(book.of(TENANT))
    gates[1].set()
    # Would be done if it read beside the first, whose holds are older and come later.
    await asyncio.wait({second}, timeout=0.05)
    gates[0].set()
    told = [[each.name for each in holds] for holds in (await second, await first, await book.of(TENANT))]

    assert told == [["h1"], ["h0"], ["h1"]]


async def test_what_could_not_be_read_is_read_at_the_next_call() -> None:
    answers: list[Exception | list[Hold]] = [Unavailable("down"), [hold("h", Coverage(whole_tenant=True))]]

    async def read_holds() -> Sequence[Hold]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    book = RecentHolds(read_holds)
    with pytest.raises(Unavailable):
        await book.of(TENANT)

    assert [each.name for each in await book.of(TENANT)] == ["h"]


async def free() -> Collection[DocumentId]:
    return (A, B)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(claims=ClaimSettings(directory=str(tmp_path / "claims")))


async def written(settings: Settings) -> Findings:
    """Write a claim of each document, and find them."""
    store = ClaimStore(settings.claims)
    claims = [await store.put(b"text", document=root_id(TenantId("hr"), each), version=1) for each in (A, B)]
    return Findings(claimed={claim.uri: frozenset({name}) for claim, name in zip(claims, (A, B), strict=True)})


def test_of_dead_letters_before_an_erased_one_all_stays_that_still_says_something() -> None:
    def letter(partition: int, offset: int) -> Event:
        return Event(topic="dead-letters", partition=partition, offset=offset)

    def note(partition: int, offset: int, of: tuple[int, int]) -> Event:
        sent = note_settled(of, "dead-letters", superseded=offset == 2)
        return Event(topic="dead-letters", partition=partition, offset=offset, key=sent.key, headers=sent.headers)

    open_one, of_elsewhere, of_later = letter(0, 0), note(0, 3, (1, 0)), note(0, 5, (0, 8))
    records = [
        *(open_one, letter(0, 1), note(0, 2, (0, 1)), of_elsewhere, letter(0, 4), of_later, letter(0, 6)),
        *(letter(0, 7), letter(0, 8), letter(1, 0)),
    ]

    assert sent_again(records, 0, 6, {4, 6}) == [open_one, of_elsewhere, of_later]


def test_topics_are_searched_in_the_order_in_which_workers_copy_content(settings: Settings) -> None:
    def place(name: str, generation: str = "") -> int:
        return next(at for at, topic in enumerate(names) if name in topic and generation in topic)

    names = [topic.name for topic in searched_topics(settings, ["old"], TENANT)]

    assert place("documents") == 0
    for generation in ("", "old"):
        assert place(".chunks", generation) < place("contextual-chunks", generation) < place("dead-letters")
    assert place("dead-letters") == len(names) - 1
    assert len(set(names)) == len(names)


async def no_others() -> tuple[str, Collection[str]]:
    return "g1", ()


def remover(settings: Settings) -> Remover:
    return Remover(settings, cast("Outbox", None), Consumers(settings, no_others, patience_s=1))


def make_irremovable(file: Path) -> None:
    """Put a folder in the place of a file, which no account may remove as one."""
    file.unlink()
    file.mkdir()


async def test_a_claim_that_may_not_be_removed_remains_and_the_others_go(settings: Settings) -> None:
    found = await written(settings)
    of_a, of_b = found.claimed
    make_irremovable(Path(of_a.removeprefix("file://")))

    removal = await remover(settings).remove_claims(found, free)

    assert [each["claim"] for each in removal.removed] == [of_b]
    [remains] = removal.remains
    assert remains["claim"] == of_a
    assert "cannot be removed" in remains["until"]


async def test_a_claim_that_a_record_names_and_nobody_finds_is_named(settings: Settings) -> None:
    found = await written(settings)
    of_a, of_b = found.claimed
    assert await ClaimStore(settings.claims).remove(of_a)

    removal = await remover(settings).remove_claims(found, free)

    assert [each["claim"] for each in removal.removed] == [of_b]
    assert [each["claim"] for each in removal.remains] == [of_a]


@pytest.mark.parametrize("cleanup", ["delete", "compact"])
@pytest.mark.parametrize("endless", ["-1", str(2**63 - 1)])
def test_a_topic_that_never_removes_records_gives_no_time_by_which_they_are_gone(cleanup: str, endless: str) -> None:
    limit = {"delete": "retention.ms", "compact": "max.compaction.lag.ms"}[cleanup]
    config = {"cleanup.policy": cleanup, "segment.ms": "1000", limit: "1000"}

    remains = time_on_disk(config | {limit: endless}, "segments")

    assert (remains["until_ms"], limit in remains["until"]) == (None, True)
    assert time_on_disk(config, "segments")["until_ms"] is not None
