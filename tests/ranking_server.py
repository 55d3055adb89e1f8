"""A ranking service that answers as a test says, by one of three interfaces."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.scripted_server import Reply, Script, ScriptedServer, serving


def lengths(texts: list[str]) -> list[tuple[int, float]]:
    """Score texts by how long they are, best first, as services do."""
    return sorted(((index, len(text) / 100) for index, text in enumerate(texts)), key=lambda each: -each[1])


def tei(body: dict[str, Any]) -> Reply:
    """Answer as text-embeddings-inference does."""
    return Reply([{"index": index, "score": score} for index, score in lengths(body["texts"])])


def cohere(body: dict[str, Any]) -> Reply:
    """Answer as Cohere does."""
    results = [{"index": index, "relevance_score": score} for index, score in lengths(body["documents"])]
    return Reply({"id": "1", "results": results, "meta": {"api_version": {"version": "2"}}})


def vertex(body: dict[str, Any]) -> Reply:
    """Answer as Vertex AI does."""
    texts = [record["content"] for record in body["records"]]
    return Reply({"records": [{"id": body["records"][index]["id"], "score": score} for index, score in lengths(texts)]})


class RankingServer(ScriptedServer):
    """A ranking service."""

    def hang_on(self, query: str) -> None:
        """Let calls with this query wait until the test is over."""
        usual = self.script

        def script(body: dict[str, Any]) -> Reply:
            if body["query"] == query:
                self.release.wait(60)
            return usual(body)

        self.script = script


@contextmanager
def a_ranking_server(script: Script) -> Iterator[RankingServer]:
    """Run a ranking service for one test."""
    with serving(RankingServer(script)) as server:
        yield server
