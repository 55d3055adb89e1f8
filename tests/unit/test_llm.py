"""A client that gives an answer or a reason, whatever the server does."""

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import stamina

from freki.infra.llm.client import ATTEMPTS, FAILURES, LONGEST_ASKED_REST_S, REST_S, LlmClient
from freki.infra.settings import LlmSettings
from freki.schemas import Completion, NoCompletion, Prompt
from freki.schemas.errors import Misconfigured
from tests.llm_server import LlmServer, an_llm_server, asked_of, says
from tests.scripted_server import Reply


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with an_llm_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _no_pauses() -> Iterator[None]:
    """Try again at once; how often is up to the test."""
    with stamina.set_testing(True, attempts=ATTEMPTS):
        yield


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def client(server: LlmServer, clock: Clock | None = None, **changes: Any) -> LlmClient:
    settings = LlmSettings.model_validate({"url": server.url, "model": "gemma", "timeout_s": 30, **changes})
    return LlmClient(settings, clock=clock or Clock())


def prompts(*users: str) -> list[Prompt]:
    return [Prompt(system="Be brief.", user=user) for user in users]


async def reason(llm: LlmClient, **changes: Any) -> str:
    """Ask one question, and give why it was not answered."""
    (answer,) = await llm.complete(prompts("why"), **{"max_tokens": 10, **changes})
    assert isinstance(answer, NoCompletion)
    return answer.reason


async def test_each_prompt_is_answered_in_its_place_with_what_it_took(server: LlmServer) -> None:
    server.script = lambda body: says(
        f"re: {asked_of(body)}", prompt_tokens=50, completion_tokens=7, prompt_tokens_details={"cached_tokens": 40}
    )

    async with client(server) as llm:
        answers = await llm.complete(prompts("a", "b", "c"), max_tokens=70)

    assert answers == [
        Completion(text=f"re: {user}", prompt_tokens=50, cached_tokens=40, completion_tokens=7) for user in "abc"
    ]


async def test_an_answer_that_reached_the_maximum_of_tokens_says_so(server: LlmServer) -> None:
    server.script = lambda _: Reply({"choices": [{"message": {"content": "1: Die"}, "finish_reason": "length"}]})

    async with client(server) as llm:
        (answer,) = await llm.complete(prompts("a"), max_tokens=3)

    assert isinstance(answer, Completion)
    assert answer.truncated


async def test_further_fields_switch_off_thinking_and_replace_none_of_freki_s_own(server: LlmServer) -> None:
    fields = {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False}}

    async with client(server, extra_body=fields) as llm:
        await llm.complete(prompts("a"), max_tokens=3)

    (body,) = server.bodies
    assert {name: body[name] for name in fields} == fields
    with pytest.raises(ValueError, match="Freki sets max_tokens, model itself"):
        LlmSettings.model_validate({"extra_body": {"max_tokens": 1, "model": "x", "top_k": 1}})


async def test_the_request_is_the_one_that_servers_know(server: LlmServer) -> None:
    async with client(server, api_key="secret", url=f"{server.url}/") as llm:
        await llm.complete(prompts("a"), max_tokens=70)

    assert [(path, authorization) for path, authorization, _ in server.requests] == [
        ("/v1/chat/completions", "Bearer secret")
    ]
    assert server.bodies == [
        {
            "model": "gemma",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}],
            "max_tokens": 70,
            "temperature": 0,
        }
    ]


async def test_no_prompts_ask_nothing(server: LlmServer) -> None:
    async with client(server) as llm:
        assert await llm.complete([], max_tokens=1) == []

    assert server.requests == []


async def test_no_more_calls_are_under_way_than_asked_for(server: LlmServer) -> None:
    under_way, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(2, timeout=60)

    def script(_: Mapping[str, Any]) -> Reply:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        together.wait()
        with lock:
            under_way -= 1
        return says("done")

    server.script = script

    async with client(server, at_once=2) as llm:
        await llm.complete(prompts(*"abcdef"), max_tokens=1)

    assert most == 2


async def test_a_server_that_counts_nothing_is_counted_by_its_characters(server: LlmServer) -> None:
    server.script = lambda _: Reply({"choices": [{"message": {"content": "x" * 40}}]})

    async with client(server) as llm:
        (answer,) = await llm.complete([Prompt(system="s" * 100, user="u" * 300)], max_tokens=1)

    assert answer == Completion(text="x" * 40, prompt_tokens=100, cached_tokens=0, completion_tokens=10)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
async def test_what_may_pass_is_tried_again(server: LlmServer, status: int) -> None:
    replies = iter([Reply({"error": "busy"}, status), says("at last")])
    server.script = lambda _: next(replies)

    async with client(server) as llm:
        (answer,) = await llm.complete(prompts("a"), max_tokens=1)

    assert isinstance(answer, Completion)
    assert answer.text == "at last"


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
async def test_what_stays_wrong_is_asked_once_and_told_in_the_words_of_the_server(
    server: LlmServer, status: int
) -> None:
    server.script = lambda _: Reply({"error": {"message": "model gemma not found"}}, status)

    async with client(server) as llm:
        told = await reason(llm)

    assert f"answered {status}" in told
    assert "model gemma not found" in told
    assert ("FREKI_LLM__URL, __MODEL and __API_KEY" in told) == (status in {401, 404})
    assert len(server.requests) == 1


async def test_a_wait_that_the_server_asks_for_is_kept_or_not_begun(server: LlmServer) -> None:
    replies = iter([Reply({}, 429, {"Retry-After": "0"}), says("at last"), Reply({}, 429, {"Retry-After": "3600"})])
    server.script = lambda _: next(replies)

    async with client(server) as llm:
        (answer,) = await llm.complete(prompts("a"), max_tokens=1)
        told = await reason(llm)

    assert isinstance(answer, Completion)
    assert "answered 429" in told
    assert len(server.requests) == 3


async def test_a_server_that_stalls_costs_one_time_limit(server: LlmServer) -> None:
    server.script = server.stalls

    async with client(server, timeout_s=0.2) as llm:
        assert "no answer within 0.2 s; see FREKI_LLM__TIMEOUT_S" in await reason(llm)


async def test_a_call_may_allow_less_time_than_the_setting(server: LlmServer) -> None:
    server.script = server.stalls

    async with client(server) as llm:
        assert "no answer within 0.1 s" in await reason(llm, budget_s=0.1)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>proxy</html>",
        b"",
        b"{",
        {"choices": []},
        {"choices": [{"message": "text"}]},
        {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": -1}},
        ["a"],
    ],
    ids=["a page", "nothing", "half of it", "no choice", "another interface", "tokens below zero", "a list"],
)
async def test_a_reply_that_is_no_chat_is_a_reason_and_asked_once(server: LlmServer, content: Any) -> None:
    server.script = lambda _: Reply(content)

    async with client(server) as llm:
        assert "does not answer as a chat interface" in await reason(llm)

    assert len(server.requests) == 1


async def test_a_server_that_goes_on_and_on_is_cut_off(server: LlmServer) -> None:
    server.script = lambda _: Reply(json.dumps({"choices": [{"message": {"content": "x" * 1_100_000}}]}).encode())

    async with client(server) as llm:
        assert "more than 1000000 bytes" in await reason(llm)


async def test_a_model_that_says_nothing_gives_an_empty_text(server: LlmServer) -> None:
    server.script = lambda _: says(None)

    async with client(server) as llm:
        (answer,) = await llm.complete(prompts("a"), max_tokens=1)

    assert isinstance(answer, Completion)
    assert answer.text == ""


async def test_a_server_that_is_not_there_is_left_alone_after_some_calls_and_tried_again_later(
    server: LlmServer,
) -> None:
    server.script = lambda _: Reply({}, 503)
    clock = Clock()

    async with client(server, clock, at_once=1) as llm:
        for _ in range(FAILURES + 2):
            await reason(llm)
        while_down = len(server.requests)
        clock.now = REST_S + 1
        server.script = lambda _: says("back")
        answers = await llm.complete(prompts("a", "b"), max_tokens=1)

    assert while_down == FAILURES * ATTEMPTS
    assert [type(answer) for answer in answers] == [Completion, Completion]


async def test_the_longer_it_is_down_the_less_it_is_asked(server: LlmServer) -> None:
    server.script = lambda _: Reply({}, 503)
    clock = Clock()

    async with client(server, clock, at_once=1) as llm:
        for _ in range(FAILURES):
            await reason(llm)
        clock.now = REST_S + 1
        await reason(llm)
        after_one_rest = len(server.requests)
        clock.now += REST_S + 1
        await reason(llm)

    assert after_one_rest == (FAILURES + 1) * ATTEMPTS
    assert len(server.requests) == after_one_rest


@pytest.mark.parametrize("asked", ["9" * 12, "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_a_server_whose_clock_is_wrong_is_asked_again_after_a_day(server: LlmServer, asked: str) -> None:
    clock = Clock()
    server.script = lambda _: Reply({}, 429, {"Retry-After": asked})

    async with client(server, clock) as llm:
        for _ in range(FAILURES):
            await reason(llm)
        clock.now += LONGEST_ASKED_REST_S - 1
        assert "left alone" in await reason(llm)
        clock.now += 1
        server.script = lambda _: says("at last")
        (answer,) = await llm.complete(prompts("a"), max_tokens=10)

    assert isinstance(answer, Completion)


async def test_requests_that_are_wrong_themselves_do_not_make_it_rest(server: LlmServer) -> None:
    server.script = lambda _: Reply({"error": "too long"}, 400)

    async with client(server) as llm:
        for _ in range(FAILURES + 3):
            await reason(llm)

    assert len(server.requests) == FAILURES + 3


async def test_connections_are_kept(server: LlmServer) -> None:
    seen: set[int] = set()
    plain = server.server.get_request

    def counted() -> Any:
        accepted = plain()
        seen.add(accepted[1][1])
        return accepted

    server.server.get_request = counted  # type: ignore[method-assign]

    async with client(server, at_once=1) as llm:
        await llm.complete(prompts(*"abc"), max_tokens=1)

    assert len(seen) == 1


@pytest.mark.parametrize("settings", [{}, {"url": "http://localhost:11434/v1"}, {"model": "gemma"}])
def test_server_and_model_must_be_named(settings: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured, match="FREKI_LLM__URL and FREKI_LLM__MODEL"):
        LlmClient(LlmSettings(**settings))
