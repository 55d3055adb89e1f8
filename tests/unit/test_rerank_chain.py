"""Rerankers that step in for each other, and what is left alone because it is down."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from freki.infra.llm.ledger import TokenLedger
from freki.schemas import (
    Completion,
    ContextQuery,
    ContextResult,
    NoCompletion,
    NoticeKind,
    Prompt,
    QueryId,
    RerankerChoice,
    Timestamp,
)
from freki.schemas.errors import Busy, Rejected, Unavailable
from freki.schemas.index import RerankPair
from freki.streams.observe.meters import Meters
from freki.streams.ports import Reranker
from freki.streams.retrieve.budget.attempts import StepFailed
from freki.streams.retrieve.budget.breaker import FAILURES, REST_MS
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.llm_reranker import LlmReranker
from tests.unit.questions import OPTIONS, TEXTS, Broken, Scorer, stores
from tests.unit.rerank_pairs import paired
from tests.unit.revisions import TENANT, World
from tests.unit.test_metrics import Reading

DEADLINE_MS = 10_000


class Clock:
    """Moves only where a test or a service that stalls moves it."""

    def __init__(self) -> None:
        self.ms = 1_000_000_000

    def __call__(self) -> Timestamp:
        return Timestamp(self.ms)


class Service:
    """A reranker outside that does what it is told, and counts how often it is asked."""

    def __init__(self, clock: Clock, name: str = "remote") -> None:
        self.name = name
        self._clock = clock
        self.error: Exception | None = None
        self.stalls = False
        self.budgets: list[float] = []

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        assert budget_s is not None
        self.budgets.append(budget_s)
        if self.error is not None:
            raise self.error
        if self.stalls:
            self._clock.ms += int(1000 * budget_s)
            return [None] * len(pairs)
        return [0.5] * len(pairs)


class Chain:
    """A retriever with a clock of its own."""

    def __init__(
        self,
        world: World,
        clock: Clock,
        *rerankers: Reranker,
        store: Any | None = None,
        meters: Meters | None = None,
    ) -> None:
        self.clock = clock
        store = store or world.index
        self.retriever = Retriever(
            RetrievalModels(embedder=world.embedder, rerankers=rerankers),
            stores(store),
            QueryDefaults(options=replace(OPTIONS, deadline_ms=DEADLINE_MS)),
            Clocks(now=clock, ns=lambda: clock.ms * 1_000_000),
            meters=meters,
        )

    async def ask(self, **options: Any) -> ContextResult:
        query = ContextQuery(
            query_id=QueryId("q"), tenant=TENANT, text="Wer entscheidet?", asked_at=self.clock(), **options
        )
        ((_, result, _),) = [answer async for answer in self.retriever.answer([(query, "")])]
        return result


def told(result: ContextResult, stage: str = "rerank") -> list[str]:
    return [notice.message for notice in result.notices if notice.stage == stage]


async def test_a_service_that_is_down_is_asked_some_times_and_then_left_alone_until_a_time_that_is_told(
    world: World,
) -> None:
    clock = Clock()
    service = Service(clock)
    service.error = Unavailable("http://10.1.2.3 did not take 'Wer entscheidet?'", gist="connection refused")
    reading = Reading()
    chain = Chain(world, clock, service, Scorer("amt"), meters=reading.meters)

    with structlog.testing.capture_logs() as lines:
        results = [await chain.ask() for _ in range(FAILURES + 2)]

    assert len(service.budgets) == FAILURES
    assert {result.reranker for result in results} == {"local"}
    assert told(results[0]) == ["rerank.remote failed: connection refused"]
    assert told(results[-1]) == ["rerank.remote was skipped: left alone until 13:46:45 UTC: connection refused"]
    assert [line["service"] for line in lines if "10.1.2.3" in line["error"]] == ["rerank.remote"] * FAILURES
    assert ({"service": "rerank.remote"}, 1) in reading.points("freki.breaker.open")
    assert ({"service": "rerank.local"}, 0) in reading.points("freki.breaker.open")
    assert reading.points("freki.breaker.left_out") == [({"service": "rerank.remote"}, 2)]


async def test_after_its_rest_it_is_tried_and_used_again(world: World) -> None:
    clock = Clock()
    service = Service(clock)
    service.error = Unavailable("connection refused")
    reading = Reading()
    chain = Chain(world, clock, service, Scorer("amt"), meters=reading.meters)
    for _ in range(FAILURES):
        await chain.ask()

    service.error = None
    clock.ms += REST_MS

    assert [(await chain.ask()).reranker for _ in range(2)] == ["remote", "remote"]
    assert ({"service": "rerank.remote"}, 0) in reading.points("freki.breaker.open")


async def test_a_service_that_stalls_leaves_time_for_the_next_one_and_no_later_query_waits_for_it(
    world: World,
) -> None:
    clock = Clock()
    service = Service(clock)
    service.stalls = True
    chain = Chain(world, clock, service, Scorer("amt"))

    results = [await chain.ask() for _ in range(FAILURES + 1)]

    assert [result.reranker for result in results] == ["local"] * (FAILURES + 1)
    assert all(budget_s < DEADLINE_MS / 2000 for budget_s in service.budgets)
    assert results[-1].answered_at == results[-1].asked_at


async def test_a_service_that_had_little_time_or_nothing_to_score_is_not_one_that_is_down(world: World) -> None:
    clock = Clock()
    service = Service(clock)
    chain = Chain(world, clock, service)
    service.stalls = True
    hurried = [await chain.ask(deadline_ms=300) for _ in range(FAILURES + 1)]
    asked = len(service.budgets)
    without = [await chain.ask(rerank_candidates=0) for _ in range(FAILURES + 1)]
    service.stalls = False

    assert (await chain.ask()).reranker == "remote"
    assert all("no score came within" in "".join(told(result)) for result in hurried)
    assert asked == len(hurried)
    assert len(service.budgets) == asked + 1, "without candidates it is not asked"
    assert [told(result) for result in without] == [[]] * len(without)


async def test_a_service_that_is_the_last_resort_has_all_the_time(world: World) -> None:
    clock = Clock()
    service = Service(clock)

    await Chain(world, clock, service).ask()

    assert service.budgets[0] > DEADLINE_MS / 2000


async def test_a_service_that_says_when_to_come_again_is_not_asked_before(world: World) -> None:
    clock = Clock()
    service = Service(clock)
    service.error = Busy("too many requests", 60)
    chain = Chain(world, clock, service, Scorer("amt"))
    await chain.ask()
    service.error = None

    clock.ms += 59_999
    assert (await chain.ask()).reranker == "local"
    clock.ms += 1
    assert (await chain.ask()).reranker == "remote"


async def test_requests_that_a_service_refuses_do_not_make_it_one_that_is_down(world: World) -> None:
    clock = Clock()
    service = Service(clock)
    service.error = Rejected("the text is too long")
    chain = Chain(world, clock, service, Scorer("amt"))

    for _ in range(2 * FAILURES):
        await chain.ask()

    assert len(service.budgets) == 2 * FAILURES


async def test_what_a_generation_that_is_closed_found_down_counts_as_down_no_more(world: World) -> None:
    """Nobody calls it for that generation again, and the metric would say so for ever."""
    clock, reading = Clock(), Reading()
    service = Service(clock)
    service.error = Unavailable("connection refused")
    chain = Chain(world, clock, service, meters=reading.meters)
    for _ in range(FAILURES):
        await chain.ask()
    assert ({"service": "rerank.remote"}, 1) in reading.points("freki.breaker.open")

    chain.retriever.close()

    assert ({"service": "rerank.remote"}, 0) in reading.points("freki.breaker.open")


async def test_each_link_is_left_alone_by_itself(world: World) -> None:
    clock = Clock()
    first, second = Service(clock), Service(clock, "vertex")
    first.error = Unavailable("connection refused")
    chain = Chain(world, clock, first, second)

    results = [await chain.ask() for _ in range(2 * FAILURES)]

    assert (len(first.budgets), len(second.budgets)) == (FAILURES, 2 * FAILURES)
    assert {result.reranker for result in results} == {"vertex"}


async def test_a_store_that_is_down_is_not_asked_by_every_query_either(world: World) -> None:
    clock = Clock()
    store = Broken(world.index, "dense", "lexical")
    chain = Chain(world, clock, store=store)

    results = [await chain.ask() for _ in range(FAILURES + 1)]

    assert told(results[0], "search.dense") == ["search.dense failed: it does not answer"]
    assert told(results[-1], "search.dense")[0].startswith("search.dense was skipped: left alone until")
    assert results[-1].status == results[0].status


async def test_a_reranker_that_is_asked_for_and_missing_is_named_with_its_setting(world: World) -> None:
    chain = Chain(world, Clock(), Scorer("amt"))

    results = {choice: await chain.ask(reranker=choice) for choice in (RerankerChoice.VERTEX, RerankerChoice.LLM)}

    assert {result.reranker for result in results.values()} == {"local"}
    assert "FREKI_VERTEX_RERANKER__PROJECT" in told(results[RerankerChoice.VERTEX])[0]
    assert "FREKI_LLM__URL" in told(results[RerankerChoice.LLM])[0]


class Model:
    """A language model that says one thing."""

    model = "m"

    def __init__(self, answer: Completion | NoCompletion) -> None:
        self.answer = answer
        self.asked: list[Prompt] = []

    async def complete(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int,  # noqa: ARG002 - of the port
        budget_s: float | None = None,  # noqa: ARG002
    ) -> list[Completion | NoCompletion]:
        self.asked += prompts
        return [self.answer] * len(prompts)


DAY = "2026-01-01"


class Budget:
    """So many tokens."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    async def take(self, tokens: int) -> str | None:
        if tokens > self.tokens:
            return None
        self.tokens -= tokens
        return DAY

    async def give_back(self, tokens: int, *, day: str) -> None:
        assert day == DAY
        self.tokens += tokens


def says(text: str) -> Completion:
    return Completion(text=text, prompt_tokens=90, cached_tokens=0, completion_tokens=10)


async def test_a_language_model_is_asked_once_for_all_candidates_and_pays_what_it_used() -> None:
    model, budget = Model(says("1: 2\n2: 9")), Budget(1000)

    scores = await LlmReranker(model, budget).score(paired([("a", "b"), ("a", "c"), ("a", "d")]), budget_s=1)

    assert scores == [2.5 / 11, 9.5 / 11, None]
    assert len(model.asked) == 1
    assert budget.tokens == 900


async def test_grades_are_kept_though_unused_tokens_cannot_be_given_back(tmp_path: Path) -> None:
    file = tmp_path / "tokens"

    class Breaking(Model):
        async def complete(self, *args: Any, **options: Any) -> list[Completion | NoCompletion]:
            file.write_text("no day and number")
            return await super().complete(*args, **options)

    reranker = LlmReranker(Breaking(says("1: 2")), TokenLedger(file, most=0))

    assert await reranker.score(paired([("a", "b")]), budget_s=1) == [2.5 / 11]


@pytest.mark.parametrize(
    ("answer", "tokens", "reason"),
    [
        (NoCompletion(reason="http://10.1.2.3: 503", gist="HTTP 503"), 1000, "^HTTP 503$"),
        (says("I cannot judge that."), 1000, "m gave no grades"),
        (says("1: 5"), 10, "FREKI_LLM__MAX_TOKENS_DAY"),
    ],
)
async def test_a_language_model_without_grades_says_why(
    answer: Completion | NoCompletion, tokens: int, reason: str
) -> None:
    with pytest.raises(StepFailed, match=reason):
        await LlmReranker(Model(answer), Budget(tokens)).score(paired([("a", "b")]), budget_s=1)


async def test_without_grades_the_next_reranker_steps_in(world: World) -> None:
    reranker = LlmReranker(Model(NoCompletion(reason="http://10.1.2.3: 503", gist="HTTP 503")), Budget(100_000))

    result = await Chain(world, Clock(), reranker, Scorer("amt")).ask(reranker=RerankerChoice.LLM)

    assert result.reranker == "local"
    assert told(result) == ["rerank.llm failed: HTTP 503"]


async def test_a_language_model_is_asked_only_by_name(world: World) -> None:
    model = Model(says("1: 9"))
    chain = Chain(world, Clock(), LlmReranker(model, Budget(100_000)), Scorer("amt"))

    automatic = await chain.ask()
    chosen = await chain.ask(reranker=RerankerChoice.LLM)

    assert (automatic.reranker, chosen.reranker) == ("local", "llm")
    assert ("rerank", NoticeKind.SKIPPED) in {(notice.stage, notice.kind) for notice in chosen.notices}


async def test_candidates_that_a_language_model_did_not_grade_are_not_put_down_to_the_deadline(world: World) -> None:
    reading = Reading()
    reranker = LlmReranker(Model(says("1: 9")), Budget(100_000))

    result = await Chain(world, Clock(), reranker, meters=reading.meters).ask(reranker=RerankerChoice.LLM)

    assert result.reranker == "llm"
    assert told(result) == [f"the language model gave no grade for {len(TEXTS) - 1} of {len(TEXTS)} candidates"]
    assert reading.points("freki.candidates.skipped") == []
