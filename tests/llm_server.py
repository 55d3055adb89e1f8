"""A server with OpenAI's chat interface that answers as a test says."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.scripted_server import Reply, ScriptedServer, serving

CHUNK = re.compile(r"<chunk>\n(?:(\d+)\. )?(.*?)\n</chunk>", re.DOTALL)


def says(text: str | None, **usage: Any) -> Reply:
    """Answer with a text."""
    counted = {"usage": {"prompt_tokens": 100, "completion_tokens": 10, **usage}}
    return Reply({"choices": [{"message": {"role": "assistant", "content": text}}], **counted})


def writes(*pieces: str, finish: str | None = "stop", **usage: int) -> Reply:
    """Answer with a stream of text."""
    events: list[Any] = [{"choices": [{"delta": {"role": "assistant"}, "finish_reason": None}]}]
    events += [{"choices": [{"delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    events += [{"choices": [{"delta": {}, "finish_reason": finish}]}] if finish else []
    events += [{"choices": [], "usage": usage}] if usage else []
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return Reply("".join([*lines, "data: [DONE]\n\n"]).encode(), headers={"Content-Type": "text/event-stream"})


def asked_of(body: Mapping[str, Any]) -> str:
    """Give what the user says in a request."""
    return str(body["messages"][-1]["content"])


def situates(body: Mapping[str, Any]) -> Reply:
    """Write a line for each chunk of a request, which names its last words; a summary where none is numbered."""
    numbered = [(number, text) for number, text in CHUNK.findall(asked_of(body)) if number]
    if not numbered:
        return says("Eine Zusammenfassung, die von der Satzung der Fischereigenossenschaft handelt.")
    return says(
        "\n".join(f"{number}: Diese Stelle der Satzung handelt von {words(text)}." for number, text in numbered)
    )


def words(text: str) -> str:
    """Give the last words of a chunk."""
    return " ".join(text.rstrip(" .").split()[-3:])


class LlmServer(ScriptedServer):
    """A language model."""

    def __init__(self) -> None:
        super().__init__(situates)
        self.url += "/v1"

    def stalls(self, _: Mapping[str, Any]) -> Reply:
        """Let a call wait until the test is over."""
        self.release.wait(60)
        return says("zu spät")


@contextmanager
def an_llm_server() -> Iterator[LlmServer]:
    """Run a language model for one test."""
    with serving(LlmServer()) as server:
        yield server
