"""Documents with random readers and histories, and what an asker gets where some of them do not exist."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any

from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from freki.infra.models.fake import FakeEmbedder
from freki.operators.identify import chunk_id
from freki.schemas import (
    EVERYONE,
    ChunkId,
    CitationStyle,
    Completion,
    ContextQuery,
    DocumentId,
    Filter,
    FilterOperator,
    Freshness,
    Fusion,
    NoCompletion,
    Prompt,
    QueryId,
    RequestKind,
    RerankerChoice,
    TenantId,
    Timestamp,
    Widening,
    WidenWhen,
)
from freki.schemas.index import Candidate, Exclusions, Generation, IndexedChunk, RerankPair, Scope
from freki.streams.retrieve.dependencies import Clocks, QueryDefaults, RetrievalModels
from freki.streams.retrieve.profiles import ReaderProfile
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.llm_reranker import LlmReranker
from freki.streams.retrieve.steps.rewrite import Rewriter
from freki.streams.retrieve.trace import Models, QueryTrace
from tests.memory_index import MemoryIndex
from tests.unit.questions import OPTIONS, stores
from tests.unit.revisions import ANALYSER, TENANT, Crash, Crashing, World, revision

PRINCIPALS = ("anna", "ben", "board", EVERYONE)
WORDS = ("antrag", "gebühr", "amt", "frist", "wer", "vergleich", "alle", "freibad")
EXPLAINED = "Freibad Amt (FA)"
ASKED = (*WORDS, "wie hoch ist die gebühr?", "antrga", "gebür", "FA", "freibad amt", '"amt frist"')
"""What is asked is misspelt too, short, or quoted."""
NOW = Timestamp(50_000)
MOST_ATTRIBUTES = 1_000

_NO_STREAM = Freshness(indexed_through=None, last_commit_at=None, consistency="STRONG")

NAMES = st.sampled_from("abcdefgh")
words = st.lists(st.sampled_from((*WORDS, EXPLAINED)), min_size=1, max_size=4).map(" ".join)
questions = st.lists(st.sampled_from(ASKED), min_size=1, max_size=4).map(" ".join)
readers = st.sets(st.sampled_from(PRINCIPALS), max_size=2).map(lambda names: tuple(sorted(names)))


@dataclass(frozen=True)
class Version:
    """What a document held, or None where it was deleted, and who could read it."""

    texts: tuple[str, ...] | None
    principals: tuple[str, ...]
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class History:
    """The versions of a document; the writing of the last may have been cut short."""

    versions: tuple[Version, ...]
    dies_at: int | None
    after: bool

    def readable_by(self, principals: Sequence[str]) -> bool:
        """Could the asker ever read it, for all that rows and root say?"""
        return any(not {EVERYONE, *principals}.isdisjoint(each.principals) for each in self.versions)


versions = st.builds(
    Version,
    texts=st.lists(words, min_size=1, max_size=3, unique=True).map(tuple),
    principals=readers,
    attributes=st.sampled_from([{}, {"team": "a"}, {"team": "b"}]),
)
deletions = st.builds(Version, texts=st.none(), principals=st.just(()), attributes=st.just({}))
lives = st.lists(versions | deletions, min_size=1, max_size=3).map(tuple)
written = st.builds(History, versions=lives, dies_at=st.none(), after=st.just(False))  # noqa: FBT003
cut_short = st.builds(History, versions=lives, dies_at=st.integers(1, 6), after=st.booleans())


def options() -> st.SearchStrategy[dict[str, Any]]:
    """What a query may turn."""
    return st.fixed_dictionaries(
        {},
        optional={
            "top_k": st.integers(1, 6),
            "candidates": st.integers(1, 12),
            "fusion": st.sampled_from(Fusion),
            "alpha": st.sampled_from([0.0, 0.3, 1.0]),
            "reranker": st.sampled_from(RerankerChoice),
            "rerank_candidates": st.integers(0, 5),
            "mmr_lambda": st.sampled_from([0.0, 0.5, 1.0]),
            "min_score": st.sampled_from([0.0, 0.4]),
            "parents": st.booleans(),
            "neighbours": st.integers(0, 2),
            "context_tokens": st.integers(50, 60),
            "explain": st.booleans(),
            "expect": st.lists(NAMES, max_size=2).map(tuple),
            "widen": st.lists(st.sampled_from(Widening), max_size=3).map(tuple),
            "widen_when": st.sampled_from(WidenWhen),
            "fold_at": st.sampled_from([0.0, 0.3]),
            "per_document": st.integers(0, 2),
            "rerank_blend": st.sampled_from([0.0, 2.0]),
            "min_similarity": st.sampled_from([0.2, 0.9]),
            "expand_documents": st.integers(0, 3),
            "expand_chunks": st.integers(0, 3),
            "expand_similarity": st.sampled_from([-1.0, 0.3]),
            "target_model": st.sampled_from(["small", "other"]),
            "citations": st.sampled_from(CitationStyle),
            "exact": st.booleans(),
            "filters": st.sampled_from(
                [(), (Filter(field="attributes.team", operator=FilterOperator.NE, values=("a",)),)]
            ),
        },
    )


@st.composite
def queries(draw: st.DrawFn) -> ContextQuery:
    """A question of somebody, or another kind of request."""
    kind = draw(st.sampled_from(RequestKind))
    turned = {option: value for option, value in draw(options()).items() if option not in _NOT_FOR.get(kind, ())}
    if kind is RequestKind.CHUNK_READ:
        turned["document_ids"] = draw(st.lists(NAMES, min_size=1, max_size=4).map(tuple))
        turned["chunk_ids"] = draw(st.lists(st.builds(_chunk_id, NAMES, st.sampled_from(WORDS)), max_size=4).map(tuple))
    return ContextQuery(
        query_id=QueryId("q"),
        tenant=TENANT,
        text=draw(questions),
        asked_at=NOW,
        principals=draw(readers),
        kind=kind,
        **turned,
    )


_NOT_FOR = {
    RequestKind.KEYWORD_SEARCH: ("alpha",),
    RequestKind.SEMANTIC_SEARCH: ("alpha",),
    RequestKind.CHUNK_READ: ("alpha", "widen", "expect"),
}


def _chunk_id(document: str, text: str) -> ChunkId:
    return chunk_id(TENANT, DocumentId(document), level=2, heading_path=(), text=text, occurrence=0)


class Unweighted(MemoryIndex):
    """BM25 weighs a word by how many rows have it, of whomever: here all words weigh the same."""

    async def lexical(
        self,
        texts: Sequence[str],
        scopes: Sequence[Scope],
        *,
        limit: int,
        strong: bool,  # noqa: ARG002
        bypass_cache: bool = False,  # noqa: ARG002
    ) -> list[list[Candidate]]:
        return [
            self._ranking(scope, limit, dict.fromkeys(self._shards, partial(_shared, text)))
            for text, scope in zip(texts, scopes, strict=True)
        ]


def _shared(text: str, chunk: IndexedChunk, _vector: Any) -> float | None:
    terms = chunk.lexical.split()
    shared = set(text.split()).intersection(terms)
    return len(shared) / (1 + len(terms)) if shared else None


class ByLength:
    """A reranker that needs no model."""

    name = "local"

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        assert budget_s is not None
        return [len(pair.text) % 7 / 8 for pair in pairs]


class Model:
    """A language model that answers by what it is shown, and keeps that: lines of words, or grades of texts."""

    model = "scripted"

    def __init__(self) -> None:
        self.shown: list[Prompt] = []

    async def complete(
        self,
        prompts: Sequence[Prompt],
        *,
        max_tokens: int,  # noqa: ARG002 - of the port
        budget_s: float | None = None,  # noqa: ARG002
    ) -> list[Completion | NoCompletion]:
        self.shown += prompts
        return [_completion(prompt) for prompt in prompts]


def _completion(prompt: Prompt) -> Completion:
    chance = random.Random(f"{prompt.system}{prompt.user}")  # noqa: S311 - the same for the same prompt
    graded = "<text>" in prompt.user
    lines = [str(chance.randint(0, 10)) if graded else " ".join(chance.sample(WORDS, k=2)) for _ in range(20)]
    text = "\n".join(f"{number}: {line}" for number, line in enumerate(lines, start=1))
    return Completion(text=text, prompt_tokens=1, cached_tokens=0, completion_tokens=1)


class Unlimited:
    """Tokens without end."""

    async def take(self, tokens: int) -> str:  # noqa: ARG002 - of the port
        return "2026-01-01"

    async def give_back(self, tokens: int, *, day: str) -> None:
        pass


def generation(name: str) -> Generation:
    """Name an index for these documents."""
    return Generation(name=name, embedder="fake", dim=16, analyser=ANALYSER)


def world(index: Any | None = None) -> World:
    """Make a world without any document."""
    return World(index=index or Unweighted(generation("g1")), ticks=repeat(1_000), embedder=FakeEmbedder(dim=16))


async def write(somewhere: World, documents: Mapping[str, History], *, tenant: TenantId = TENANT) -> None:
    """Write documents, one version after the other."""
    for name, history in documents.items():
        *before, last = enumerate(history.versions, start=1)
        for number, version in before:
            await somewhere.feed(_batches(name, number, version, tenant))
        store = Crashing(somewhere.index, history.dies_at or 0, history.after)
        with suppress(Crash):
            await somewhere.feed(_batches(name, *last, tenant), store)


def _batches(name: str, number: int, version: Version, tenant: TenantId) -> list[Any]:
    return revision(
        name,
        number,
        version.texts,
        tenant=tenant,
        principals=version.principals,
        attributes=version.attributes,
        occurred_at=Timestamp(1),
        recorded_at=Timestamp(1),
        received_at=Timestamp(1),
    )


async def hidden(somewhere: World, documents: Mapping[str, History], principals: Sequence[str]) -> set[str]:
    """Name the documents that the asker may not read: those whose root says so, and those that never were theirs."""
    roots = {root.document_id: root async for root in somewhere.index.all_roots()}
    allowed = {EVERYONE, *principals}
    return {
        name
        for name, history in documents.items()
        if not (
            allowed.intersection(root.principals)
            if (root := roots.get(DocumentId(name))) is not None and not root.deleted
            else history.readable_by(principals)
        )
    }


def stopped_clock() -> Callable[[], Timestamp]:
    """Make a clock that stands still."""
    return lambda: NOW


def clock_of_loop() -> Callable[[], Timestamp]:
    """Make a clock that begins now and goes as fast as the event loop's."""
    time_s = asyncio.get_running_loop().time
    began_s = time_s()
    return lambda: Timestamp(NOW + round((time_s() - began_s) * 1000))


async def answers(
    somewhere: World,
    asked: Sequence[ContextQuery],
    model: Model | None = None,
    *,
    left_out: Exclusions | None = None,
    clock: Callable[[], Callable[[], Timestamp]] = stopped_clock,
) -> list[dict[str, Any]]:
    """Give all that an asker, or who reads the asker's traces, gets to see; but for how fresh the stream is.

    clock: makes a clock that begins now.
    """
    model = model or Model()
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, span_limits=SpanLimits(max_span_attributes=MOST_ATTRIBUTES))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = QueryTrace(provider.get_tracer("test"), models=Models(embedder="fake", reranker="length"), content=True)
    store = somewhere.index
    retriever = Retriever(
        RetrievalModels(
            embedder=somewhere.embedder,
            rerankers=[ByLength(), LlmReranker(model, Unlimited())],
            rewriter=Rewriter(model, Unlimited(), limit_s=60.0),
        ),
        stores(store),
        QueryDefaults(
            options=OPTIONS,
            profiles={"small": ReaderProfile(context_tokens=50, top_k=2, min_similarity=0.1)},
            analyse_text=lambda text, language: text.lower(),  # noqa: ARG005
            left_out=lambda _: left_out or Exclusions(),
        ),
        Clocks(now=clock(), ns=lambda: 1),
    )
    seen: dict[int, dict[str, Any]] = {}
    async for place, result, state in retriever.answer([(query, "") for query in asked]):
        exporter.clear()
        traces.report(Context(), state, result)
        told = [
            (
                span.name,
                dict(span.attributes or {}),
                [(event.name, dict(event.attributes or {})) for event in span.events],
            )
            for span in exporter.get_finished_spans()
        ]
        seen[place] = {**asdict(replace(result, freshness=_NO_STREAM)), "told": told}
    return [seen[place] for place in range(len(asked))]
