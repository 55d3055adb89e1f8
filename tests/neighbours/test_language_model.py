"""A real language model, small as it is: what it writes goes through the same gates as what larger ones write."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from freki.infra.llm.stream import LlmStream
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import LlmSettings, Settings
from freki.operators.ask_llm import answer_prompt, question_prompt, read_questions
from freki.schemas import Completion, NoCompletion, OutcomeStatus, Prompt, ResultStatus, Widening
from freki.schemas.answer import AnswerSource, StreamEnd
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import ask, publish, upsert
from tests.neighbours.llama_server import MODEL, WINDOW_TOKENS, running_llama

pytestmark = pytest.mark.timeout(3600)  # the first time it is built

MANUAL = Path("freki/samples/operations-manual.md").read_text(encoding="utf-8")
TENANT = "manual"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_llama(tmp_path_factory.mktemp("llama")) as url:
        yield url


@pytest.fixture
async def llm(url: str) -> AsyncIterator[LlmStream]:
    async with LlmStream(LlmSettings(url=url, model=MODEL)) as llm:
        yield llm


async def test_a_completion_counts_its_tokens_and_says_whether_it_was_cut_off(llm: LlmStream) -> None:
    prompt = Prompt(system="You are a helpful assistant.", user="Name the seven days of the week, one a line.")

    whole, cut = [(await llm.complete([prompt], max_tokens=max_tokens))[0] for max_tokens in (200, 3)]

    assert isinstance(whole, Completion)
    assert isinstance(cut, Completion)
    assert "Monday" in whole.text
    assert (whole.truncated, cut.truncated, cut.completion_tokens) == (False, True, 3)
    assert whole.prompt_tokens == cut.prompt_tokens > 20
    # The server kept the prompt of the first call.
    assert cut.cached_tokens > 20


async def test_a_prompt_beyond_the_window_is_refused_and_the_next_one_answered(llm: LlmStream) -> None:
    endless = Prompt(system="Summarise.", user="a b c d " * WINDOW_TOKENS)

    (refused,) = await llm.complete([endless], max_tokens=10)
    (answer,) = await llm.complete([Prompt(system="Be brief.", user="Say hello.")], max_tokens=10)

    assert isinstance(refused, NoCompletion)
    assert "400" in refused.reason
    assert isinstance(answer, Completion)


async def test_an_answer_that_nobody_waits_for_any_more_blocks_none(llm: LlmStream) -> None:
    story = Prompt(system="Tell stories.", user="Tell a very long story of a lighthouse, with many chapters.")

    (late,) = await llm.complete([story], max_tokens=4000, budget_s=0.5)
    (answer,) = await llm.complete([Prompt(system="Be brief.", user="Say hello.")], max_tokens=10, budget_s=20)

    assert isinstance(late, NoCompletion)
    assert isinstance(answer, Completion)


async def test_other_queries_are_plain_lines(llm: LlmStream) -> None:
    prompt = question_prompt("How long does the battery last?", Widening.PARAPHRASES, language="en")

    (answer,) = await llm.complete([prompt], max_tokens=300)

    assert isinstance(answer, Completion)
    for line in read_questions(answer.text, truncated=answer.truncated):
        assert 5 <= len(line) <= 300
        assert not re.search(r"[<>`*#\n]", line)


async def test_an_answer_comes_as_it_is_written(llm: LlmStream) -> None:
    source = AnswerSource(number=1, title="Battery", language="en", text="The battery lasts for ten hours.")

    events = [event async for event in llm.stream(answer_prompt("How long?", [source], language="en"), max_tokens=100)]

    *pieces, end = events
    assert isinstance(end, StreamEnd)
    assert len(pieces) > 3
    assert end.completion_tokens >= len(pieces) - 1


async def test_a_manual_is_found_whatever_the_model_writes_and_the_receipt_says_how_much_was_usable(
    url: str, tmp_path: Path
) -> None:
    settings = Settings(local=Settings().local.elsewhere(tmp_path / "state"))
    environment = {
        "FREKI_LLM__URL": url,
        "FREKI_LLM__MODEL": MODEL,
        "FREKI_LLM__LEDGER": str(tmp_path / "tokens"),
        # On the cores of the other tests.
        "FREKI_LLM__TIMEOUT_S": "600",
        "FREKI_CONTEXTS__DOCUMENT_CHARS": "1000",
        "FREKI_CONTEXTS__LLM": "true",
        "FREKI_CONTEXTS__SUMMARIES": "true",
    }
    children = Children()
    async with LocalStack(settings, report=children.report, prepare=apply_topics, environment=environment) as stack:
        freki = Freki(settings_for(settings, stack.state), children)
        (outcome,) = await publish(freki, upsert(TENANT, "manual.md", MANUAL))
        overview = await ask(freki, TENANT, "What is this manual about?", levels=(0,))
        passage = await ask(freki, TENANT, "Who is told of an outage?")

    assert outcome.status is OutcomeStatus.INDEXED
    assert outcome.llm is not None
    assert outcome.llm.prompt_tokens > 0
    assert outcome.llm.completion_tokens > 0
    # So small a model writes little that is usable, and nothing on some days.
    assert outcome.llm.written + outcome.llm.missing > 5
    assert bool(outcome.llm.reason) == (outcome.llm.missing > 0)
    assert overview.hits
    assert passage.status is ResultStatus.COMPLETE
    assert passage.hits[0].text in MANUAL
