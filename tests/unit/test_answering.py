"""Answers from the hits of a query: what is asked of the model, what becomes of what it says, what it may cost."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from freki.infra.llm.ledger import TokenLedger
from freki.operators.ask_llm import NO_ANSWER
from freki.schemas import ChunkId, ContextResult, NoCompletion, Prompt
from freki.schemas.answer import (
    AnswerEnd,
    AnswerEnding,
    AnswerEvent,
    AnswerSentence,
    AnswerText,
    Doubt,
    StreamEnd,
    SupportStatus,
)
from freki.schemas.errors import Misconfigured
from freki.streams.answering import Answerer
from freki.streams.ports import TokenBudget
from tests.unit.questions import ask, retriever
from tests.unit.revisions import World, revision

TEXTS = ("Die Frist beträgt drei Monate.", "Die Gebühr beträgt zehn Euro im Jahr.")
QUESTION = "Wie lang ist die Frist und wie hoch die Gebühr?"
END = StreamEnd(truncated=False, prompt_tokens=90, completion_tokens=9)


class Model:
    """Writes what a test says."""

    model = "gemma"

    def __init__(self, *events: str | StreamEnd | NoCompletion) -> None:
        self._events = events
        self.prompts: list[Prompt] = []
        self.closed = False

    async def stream(self, prompt: Prompt, *, max_tokens: int) -> AsyncIterator[str | StreamEnd | NoCompletion]:
        assert max_tokens == 100
        self.prompts.append(prompt)
        try:
            for event in self._events:
                yield event
        finally:
            self.closed = True


DAY = "2026-01-01"


class Budget:
    def __init__(self, left: int = 10_000) -> None:
        self.left = left

    async def take(self, tokens: int) -> str | None:
        if tokens > self.left:
            return None
        self.left -= tokens
        return DAY

    async def give_back(self, tokens: int, *, day: str) -> None:
        assert day == DAY
        self.left += tokens


class BadBudget(Budget):
    """A ledger whose file is broken once so many tokens were taken."""

    async def take(self, tokens: int) -> str | None:
        if not self.left:
            raise Misconfigured("FREKI_LLM__LEDGER=/secret holds no day and number: remove it")
        return await super().take(tokens)


@pytest.fixture
async def result() -> ContextResult:
    world = World()
    for name, text in zip("ab", TEXTS, strict=True):
        await world.feed(revision(name, 1, [text]))
    found = await ask(retriever(world), QUESTION, principals=("everyone",))
    assert len(found.hits) == 2
    return found


async def answer(model: Model, result: ContextResult, budget: TokenBudget | None = None) -> list[AnswerEvent]:
    answerer = Answerer(model, budget or Budget(), max_tokens=100)
    return [event async for event in answerer.answer(QUESTION, result)]


def number_of(result: ContextResult, word: str) -> int:
    (number,) = [hit.rank for hit in result.hits if word in hit.text]
    return number


async def test_a_sentence_is_told_with_its_sources_and_what_speaks_against_it(result: ContextResult) -> None:
    term, fee = number_of(result, "Frist"), number_of(result, "Gebühr")
    model = Model(
        f"Die Frist beträgt drei Monate [QUELLE-{term}]. Die Gebühr ",
        f"beträgt zwölf Euro [QUELLE-{fee}]. Die Frist beträgt drei Monate im Jahr [QUELLE-{fee}]. "
        "Die Gebühr beträgt zehn Euro. Hunde sind anzuleinen [QUELLE-9].",
        END,
    )
    budget = Budget()
    events = await answer(model, result, budget)

    told = [event for event in events if isinstance(event, AnswerSentence)]
    assert [(each.text, each.citations, each.support, each.doubt) for each in told] == [
        ("Die Frist beträgt drei Monate.", (term,), SupportStatus.SUPPORTED, None),
        ("Die Gebühr beträgt zwölf Euro.", (fee,), SupportStatus.UNSUPPORTED, Doubt.FIGURE),
        ("Die Frist beträgt drei Monate im Jahr.", (fee,), SupportStatus.UNSUPPORTED, Doubt.ELSEWHERE),
        ("Die Gebühr beträgt zehn Euro.", (), SupportStatus.SUPPORTED, None),
        ("Hunde sind anzuleinen.", (), SupportStatus.UNSUPPORTED, Doubt.CITATION),
    ]
    assert told[3].found_in == (fee,)
    assert isinstance(events[0], AnswerSentence | AnswerText)
    assert events[-1] == AnswerEnd(ending=AnswerEnding.COMPLETE, message="")
    (prompt,) = model.prompts
    assert all(text in prompt.user for text in TEXTS)
    assert budget.left == 10_000 - 99


@pytest.mark.parametrize(
    ("events", "ending"),
    [
        ((NO_ANSWER, END), AnswerEnding.NO_ANSWER),
        (("Die Frist. " * 9, END), AnswerEnding.RAMBLED),
        (("Die Frist", replace(END, truncated=True)), AnswerEnding.TRUNCATED),
        (("Die Frist", NoCompletion(reason="secret", gist="it is busy")), AnswerEnding.FAILED),
    ],
)
async def test_how_an_answer_ended_is_said_last(
    result: ContextResult, events: tuple[str | StreamEnd | NoCompletion, ...], ending: AnswerEnding
) -> None:
    model = Model(*events)
    *_, last = await answer(model, result)
    assert isinstance(last, AnswerEnd)
    assert last.ending is ending
    assert "secret" not in last.message
    assert model.closed


async def test_without_hits_no_model_is_asked(result: ContextResult) -> None:
    model = Model("Erfunden.", END)
    events = await answer(model, replace(result, hits=(), citations=()))
    assert events == [AnswerEnd(ending=AnswerEnding.NO_SOURCES, message="")]
    assert model.prompts == []


async def test_where_only_further_chunks_had_room_the_hits_are_the_sources(result: ContextResult) -> None:
    further = replace(result.citations[0], chunk_id=ChunkId("f" * 32), number=3, expansion=True)
    model = Model("Die Frist beträgt drei Monate.", END)
    events = await answer(model, replace(result, citations=(further,)))
    assert events[-1] == AnswerEnd(ending=AnswerEnding.COMPLETE, message="")


async def test_without_tokens_no_model_is_asked(result: ContextResult) -> None:
    model = Model("Erfunden.", END)
    (end,) = await answer(model, result, Budget(left=10))
    assert isinstance(end, AnswerEnd)
    assert end.ending is AnswerEnding.NO_BUDGET
    assert model.prompts == []


async def test_a_ledger_that_cannot_count_ends_the_answer_before_it_begins(result: ContextResult) -> None:
    model = Model("Erfunden.", END)
    (end,) = await answer(model, result, BadBudget(left=0))
    assert isinstance(end, AnswerEnd)
    assert end.ending is AnswerEnding.FAILED
    assert end.message == Misconfigured.gist
    assert model.prompts == []


async def test_an_answer_ends_as_it_would_though_unused_tokens_cannot_be_given_back(
    result: ContextResult, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"

    class Breaking(Model):
        async def stream(self, prompt: Prompt, *, max_tokens: int) -> AsyncIterator[str | StreamEnd | NoCompletion]:
            file.write_text("no day and number")
            async for event in super().stream(prompt, max_tokens=max_tokens):
                yield event

    *_, last = await answer(Breaking("Die Frist. ", END), result, TokenLedger(file, most=0))
    assert last == AnswerEnd(ending=AnswerEnding.COMPLETE, message="")


async def test_words_of_another_language_are_not_compared(result: ContextResult) -> None:
    assert result.analysis is not None
    english = replace(result, analysis=replace(result.analysis, language="en"))
    term = number_of(result, "Frist")
    model = Model(f"The term is 3 months [SOURCE-{term}]. It is 12 months [SOURCE-{term}].", END)
    told = [event.support for event in await answer(model, english) if isinstance(event, AnswerSentence)]
    assert {hit.language for hit in result.hits} == {"de"}
    assert told == [SupportStatus.UNCHECKED, SupportStatus.UNSUPPORTED]
