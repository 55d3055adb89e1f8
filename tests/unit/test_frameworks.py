"""Retrievers for other frameworks, each with the framework itself where it is installed: `make frameworks`."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from freki.cli.show import show_result
from freki.client import ContextResult, Rejected, ResultStatus, Unavailable
from freki.client.hits import hits_of, metadata_of
from freki.schemas import (
    ContextQuery,
    Filter,
    FilterOperator,
    Notice,
    NoticeKind,
    QueryId,
    RequestKind,
    TenantId,
    Timestamp,
)
from freki.streams.tools.reply import reply_of
from tests.unit import evaluations
from tests.unit.questions import TEXTS, Broken, ask, retriever
from tests.unit.revisions import World, revision
from tests.unit.test_request_kinds import named


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


def test_what_was_not_answered_is_no_empty_list() -> None:
    notice = Notice(stage="validate", kind=NoticeKind.REJECTED, message="top_k is 0")
    rejected = replace(result_with(), status=ResultStatus.REJECTED, notices=(notice,))

    with pytest.raises(Rejected, match="top_k is 0"):
        hits_of(rejected)
    with pytest.raises(Unavailable):
        hits_of(replace(rejected, status=ResultStatus.EXPIRED))
    assert hits_of(replace(rejected, status=ResultStatus.EMPTY)) == ()


SEARCH: Mapping[str, Any] = {"text": TEXTS[0]}
READ: Mapping[str, Any] = {"text": "", "kind": RequestKind.CHUNK_READ, "chunk_ids": (named("a", TEXTS[0]),)}


@pytest.mark.parametrize(
    ("asked", "broken"),
    [
        (SEARCH, ("dense", "lexical")),
        *((SEARCH, (call,)) for call in ("roots", "contents", "pages")),
        *((READ, (call,)) for call in ("visible", "roots", "contents", "pages")),
    ],
)
async def test_a_store_that_is_down_is_no_empty_list(asked: Mapping[str, Any], broken: tuple[str, ...]) -> None:
    world = await filled()

    result = await ask(retriever(world, Broken(world.index, *broken)), **asked)

    assert (result.status, result.hits) == (ResultStatus.DEGRADED, ())
    with pytest.raises(Unavailable, match="failed: it does not answer"):
        hits_of(result)
    file = StringIO()
    show_result(Console(file=file, width=200), result, question=TEXTS[0])
    reply = reply_of(result, kind=asked.get("kind", RequestKind.KEYWORD_SEARCH), mark="m").text
    for told in (" ".join(result.advice), file.getvalue(), reply):
        assert not re.search("nothing was found|nichts gefunden", told, re.IGNORECASE)
        assert re.search("Searching failed|Suche ist fehlgeschlagen", told)


async def test_nothing_found_stays_an_empty_list_where_a_step_failed_that_searches_nothing() -> None:
    world = await filled()
    nowhere = (Filter(field="document_id", operator=FilterOperator.EQ, values=("nowhere",)),)

    result = await ask(retriever(world, Broken(world.index, "watermarks")), filters=nowhere)

    assert (result.status, result.hits) == (ResultStatus.DEGRADED, ())
    assert hits_of(result) == ()


async def filled() -> World:
    world = World()
    await world.feed(revision("a", 1, TEXTS))
    return world


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


def _check(client: Client, found: list[tuple[Any, Any, Any]]) -> None:
    result = client.result
    assert found == [(hit.chunk_id, hit.text, metadata_of(hit, result)) for hit in result.hits]
    assert len(found) == 2
