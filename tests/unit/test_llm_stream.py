"""A stream of text from a language model ends, with a reason, whatever the server does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from freki.infra.llm import stream as module
from freki.infra.llm.stream import LlmStream
from freki.infra.settings import LlmSettings
from freki.schemas import NoCompletion, Prompt
from freki.schemas.answer import StreamEnd
from tests.llm_server import LlmServer, an_llm_server, says, writes
from tests.scripted_server import Reply

PROMPT = Prompt(system="Be brief.", user="why")


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with an_llm_server() as server:
        yield server


async def stream(server: LlmServer, **changes: Any) -> list[object]:
    settings = LlmSettings.model_validate({"url": server.url, "model": "gemma", "timeout_s": 10, **changes})
    async with LlmStream(settings) as llm:
        return [event async for event in llm.stream(PROMPT, max_tokens=50)]


async def test_text_comes_in_pieces_and_then_its_end(server: LlmServer) -> None:
    server.script = lambda _: writes("Zehn ", "Euro.", prompt_tokens=7, completion_tokens=3)
    assert await stream(server) == [
        "Zehn ",
        "Euro.",
        StreamEnd(truncated=False, prompt_tokens=7, completion_tokens=3),
    ]
    (body,) = server.bodies
    assert body["stream"] is True
    assert body["max_tokens"] == 50


async def test_the_end_says_whether_the_text_was_cut(server: LlmServer) -> None:
    server.script = lambda _: writes("Zehn", finish="length")
    assert (await stream(server))[-1] == StreamEnd(truncated=True, prompt_tokens=3, completion_tokens=1)


async def test_a_server_without_streams_gives_the_whole(server: LlmServer) -> None:
    whole = says("Zehn Euro.")
    whole.content["choices"][0]["finish_reason"] = "stop"
    server.script = lambda _: Reply(whole.content, headers={"Content-Type": "application/json"})
    assert (await stream(server))[0] == "Zehn Euro."


@pytest.mark.parametrize(
    ("reply", "gist"),
    [
        (Reply({"error": "no such model"}, status=404), "a setting is wrong, which the worker's log names"),
        (Reply(b"data: {\n\n", headers={"Content-Type": "text/event-stream"}), "it refused the request"),
        (writes("Zehn", finish=None), "the answer broke off"),
        (
            Reply(b'data: {"error": {"message": "out of memory"}}\n\n', headers={"Content-Type": "text/event-stream"}),
            "it reported an error",
        ),
    ],
)
async def test_what_goes_wrong_is_the_last_event(server: LlmServer, reply: Reply, gist: str) -> None:
    server.script = lambda _: reply
    last = (await stream(server))[-1]
    assert isinstance(last, NoCompletion)
    assert last.gist == gist


async def test_a_silent_server_is_not_waited_for(server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.pieces = [_event("Zehn"), None, _event(" Euro.")]
    async with LlmStream(LlmSettings.model_validate({"url": server.url, "model": "gemma", "timeout_s": 60})) as llm:
        events = llm.stream(PROMPT, max_tokens=50)
        first = await anext(events)
        # Not before: the first text of a busy machine may take longer.
        monkeypatch.setattr(module, "STALL_S", 0.05)
        *text, last = [event async for event in events]
    assert [first, *text] == ["Zehn"]
    assert isinstance(last, NoCompletion)
    assert "was silent" in last.reason


async def test_text_that_was_shown_is_not_asked_for_again(server: LlmServer) -> None:
    server.pieces = [_event("Zehn")]
    assert (await stream(server))[0] == "Zehn"
    assert len(server.requests) == 1


async def test_a_busy_server_is_asked_once_more(server: LlmServer) -> None:
    replies = iter([Reply({}, status=503, headers={"Retry-After": "0"}), writes("ja")])
    server.script = lambda _: next(replies)
    assert (await stream(server))[0] == "ja"


def _event(text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()
