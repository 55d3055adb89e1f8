"""Retrievers for other frameworks, each with the framework itself where it is installed: `make frameworks`.

There nothing else of Freki is installed: import what the thin client needs.
"""

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Self

import pytest

from freki.client import Client as AsyncClient
from freki.client import ContextResult
from freki.client.hits import blocking, metadata_of
from freki.schemas import ContextQuery, QueryId, TenantId, Timestamp
from tests.unit import evaluations


def result_with(*texts: str) -> ContextResult:
    query = ContextQuery(query_id=QueryId("q"), tenant=TenantId("hr"), text="?", asked_at=Timestamp(1))
    hits = [
        replace(evaluations.hit(rank, f"{rank}.md", 1 / rank), text=text, end=len(text))
        for rank, text in enumerate(texts, start=1)
    ]
    return evaluations.result(query, hits)


class Client:
    """Answers each question alike, and remembers what it was asked."""

    def __init__(self, result: ContextResult) -> None:
        self.result = result
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def ask(self, question: str, **fields: Any) -> ContextResult:
        self.asked.append((question, fields))
        return self.result


@pytest.fixture
def client() -> Client:
    return Client(result_with("Die Leitung genehmigt Urlaub.", "Der Antrag ist schriftlich."))


def test_langchain(client: Client) -> None:
    pytest.importorskip("langchain_core")
    from freki.client.langchain import FrekiRetriever

    retriever = FrekiRetriever(client=client, fields={"top_k": 5, "principals": ["none"]})
    found = retriever.invoke("Wer genehmigt Urlaub?", principals=["ada"])
    found_async = asyncio.run(retriever.ainvoke("Wer genehmigt Urlaub?"))

    _check(client, [(each.id, each.page_content, each.metadata) for each in found])
    assert found_async == found
    assert client.asked[0] == ("Wer genehmigt Urlaub?", {"top_k": 5, "principals": ["ada"]})
    (batch,) = retriever.batch(["Noch eine?"])
    assert batch == found


def test_llamaindex(client: Client) -> None:
    pytest.importorskip("llama_index.core")
    from freki.client.llamaindex import FrekiRetriever

    retriever = FrekiRetriever(client, principals=["ada"])
    found = retriever.retrieve("Wer genehmigt Urlaub?")
    found_async = asyncio.run(retriever.aretrieve("Wer genehmigt Urlaub?"))

    _check(client, [(each.node.node_id, each.text, each.metadata) for each in found])
    assert [each.score for each in found] == [hit.score for hit in client.result.hits]
    assert [each.node_id for each in found_async] == [each.node_id for each in found]
    assert client.asked[0] == ("Wer genehmigt Urlaub?", {"principals": ["ada"]})


def test_llamaindex_shows_models_where_a_passage_is_from_and_nothing_else_of_its_metadata(client: Client) -> None:
    schema = pytest.importorskip("llama_index.core.schema")
    from freki.client.llamaindex import FrekiRetriever

    hits = (replace(client.result.hits[0], heading_path=("Urlaub", "Antrag")), client.result.hits[1])
    client.result = replace(client.result, hits=hits)

    below, alone = (each.node for each in FrekiRetriever(client).retrieve("Wer genehmigt Urlaub?"))

    llm, embed = schema.MetadataMode.LLM, schema.MetadataMode.EMBED
    heading = "heading_path: ['Urlaub', 'Antrag']"
    assert below.get_content(llm) == f"{heading}\ncitation: {hits[0].citation}\n\n{hits[0].text}"
    assert below.get_content(embed) == f"{heading}\n\n{hits[0].text}"
    assert alone.get_content(llm) == f"citation: {hits[1].citation}\n\n{hits[1].text}"
    assert alone.get_content(embed) == hits[1].text


def test_a_client_for_asyncio_is_refused_with_the_one_to_take() -> None:
    given: Any = AsyncClient()
    with pytest.raises(TypeError, match="give an open BlockingClient; it may be used in coroutines too"):
        blocking(given)
    if find_spec("langchain_core"):
        from freki.client.langchain import FrekiRetriever as OfLangChain

        with pytest.raises(TypeError, match="BlockingClient"):
            OfLangChain(client=given)
    if find_spec("llama_index"):
        from freki.client.llamaindex import FrekiRetriever as OfLlamaIndex

        with pytest.raises(TypeError, match="BlockingClient"):
            OfLlamaIndex(given)


def test_haystack(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    haystack = pytest.importorskip("haystack")
    from haystack.utils import Secret

    from freki.client.haystack import FrekiRetriever

    monkeypatch.setenv("FREKI_TEST_TOKEN", "secret")
    made = FrekiRetriever({"bootstrap": "kafka:9092"}, tenant="hr", token=Secret.from_env_var("FREKI_TEST_TOKEN"))
    pipeline = haystack.Pipeline()
    pipeline.add_component("retriever", made)
    # Haystack loads no component of a module that it was not told to trust.
    loaded = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=["freki.client.haystack"])
    retriever = loaded.get_component("retriever")
    assert "secret" not in pipeline.dumps()
    assert (retriever.tenant, retriever.broker, retriever.token) == (made.tenant, made.broker, made.token)

    retriever._client = client
    found = loaded.run({"retriever": {"query": "Wer genehmigt Urlaub?", "top_k": 2, "fields": {"principals": ["ada"]}}})
    found_async = asyncio.run(retriever.run_async("Wer genehmigt Urlaub?"))

    _check(client, [(each.id, each.content, each.meta) for each in found["retriever"]["documents"]])
    assert found_async["documents"] == found["retriever"]["documents"]
    assert client.asked[0] == ("Wer genehmigt Urlaub?", {"principals": ["ada"], "top_k": 2})


def test_haystack_connects_once_for_queries_that_come_at_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("haystack")
    from freki.client.haystack import FrekiRetriever

    opened: list[object] = []
    second = threading.Barrier(2)

    class Opening(Client):
        def __enter__(self) -> Self:
            opened.append(self)
            # A second one would come here too.
            with suppress(threading.BrokenBarrierError):
                second.wait(timeout=0.2)
            return self

    monkeypatch.setattr("freki.client.haystack.BlockingClient", lambda *_, **__: Opening(client.result))
    retriever = FrekiRetriever({"bootstrap": "kafka:9092"})

    async def ask_twice() -> None:
        await asyncio.gather(retriever.run_async("Wer genehmigt Urlaub?"), retriever.run_async("Und wer nicht?"))

    asyncio.run(ask_twice())

    assert len(opened) == 1


def _check(client: Client, found: list[tuple[Any, Any, Any]]) -> None:
    result = client.result
    assert found == [(hit.chunk_id, hit.text, metadata_of(hit, result)) for hit in result.hits]
    assert len(found) == 2
