"""Questions to a retriever on a store in memory, some calls of which may fail."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from freki.infra.caches import BoundedCache
from freki.operators.detect_language import load_languages
from freki.operators.rephrase import Thesaurus, load_synonyms
from freki.schemas import (
    ContextQuery,
    ContextResult,
    NoticeKind,
    QueryId,
    Timestamp,
)
from freki.schemas.errors import Unavailable
from freki.schemas.index import ManifestPage, RerankPair
from freki.schemas.query_options import QueryOptions
from freki.streams.gateway import Gateway
from freki.streams.ports import Embedder, Reranker
from freki.streams.retrieve.cache.caching import CachingRetriever
from freki.streams.retrieve.dependencies import Clocks, Places, QueryDefaults, RetrievalModels, Stores
from freki.streams.retrieve.profiles import ReaderProfile
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.rewrite import Rewriter
from freki.streams.wire.query_parts import KEPT_S, MANIFEST_BYTES
from tests.memory_index import MemoryIndex
from tests.simulated_time import clock_of_quick_machine, time_ns
from tests.unit.revisions import TENANT, World

TEXTS = ["der antrag ist schriftlich zu stellen", "die gebühr beträgt zehn euro", "über den antrag entscheidet das amt"]
OPTIONS = QueryOptions(
    top_k=5,
    hybrid_alpha=0.6,
    widen=(),
    rerank_candidates=20,
    exact_blend=0.0,
    mmr_lambda=1.0,
    context_tokens=500,
    deadline_ms=10_000,
    unrelated_cosine=0.0,
    related_cosine=1.0,
)
"""As a query overrides none; cosines of the toy embedder are similarities."""


class Broken:
    """A store in which some calls fail, or do something before they answer."""

    def __init__(
        self,
        index: MemoryIndex,
        *broken: str,
        before: dict[str, Callable[[], Awaitable[Any]]] | None = None,
        fails_from: Mapping[str, int] | None = None,
    ) -> None:
        self._index = index
        self._broken = broken
        self._before = before or {}
        self._fails_from = fails_from or {}
        self.calls: Counter[str] = Counter()
        self.limits: defaultdict[str, list[int | None]] = defaultdict(list)
        """Most results that each call asked for; None: all."""

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            self.limits[name].append(kwargs.get("limit"))
            if name in self._broken or self.calls[name] >= self._fails_from.get(name, self.calls[name] + 1):
                raise Unavailable(f"{name} is down")
            if name in self._before:
                await self._before.pop(name)()
            return await getattr(self._index, name)(*args, **kwargs)

        return call


def now() -> Timestamp:
    return Timestamp(time_ns() // 1_000_000)


def _load() -> None:
    """Load what workers load when they start: not in the time of a query."""
    load_languages()
    load_synonyms()


def retriever(  # noqa: PLR0913 - what tests exchange
    world: World,
    store: Any | None = None,
    rerankers: Sequence[Reranker] = (),
    *,
    defaults: QueryOptions = OPTIONS,
    embedder: Embedder | None = None,
    profiles: Mapping[str, ReaderProfile] | None = None,
    rewriter: Rewriter | None = None,
    thesaurus: Thesaurus | None = None,
    clock_ns: Callable[[], int] | None = None,
) -> Retriever:
    _load()
    store = store or world.index
    return Retriever(
        RetrievalModels(embedder=embedder or world.embedder, rerankers=rerankers, rewriter=rewriter),
        stores(store),
        QueryDefaults(options=defaults, profiles=profiles or {}, thesaurus=thesaurus or Thesaurus()),
        Clocks(now=now, ns=clock_ns or clock_of_quick_machine()),
    )


class Scorer:
    """A reranker that likes what a word is in, and scores only some."""

    name = "local"

    def __init__(self, word: str, most: int = 100) -> None:
        self._word = word
        self._most = most
        self.seen: list[RerankPair] = []

    async def score(self, pairs: Sequence[RerankPair], *, budget_s: float | None) -> list[float | None]:
        assert budget_s is not None
        self.seen += pairs
        return [float(self._word in pair.text) if place < self._most else None for place, pair in enumerate(pairs)]


def stores(store: Any, search: Any = None) -> Stores:
    places = BoundedCache[Places]("places", most_bytes=MANIFEST_BYTES, seconds=KEPT_S)
    pages = BoundedCache[ManifestPage]("pages", most_bytes=MANIFEST_BYTES, seconds=KEPT_S)
    return Stores(
        search=search or store, rows=store, roots=store, places=places, pages=pages, strong=True, generation="g1"
    )


async def ask(
    asked: Retriever | CachingRetriever, text: str = "Wer entscheidet über den Antrag?", **options: Any
) -> ContextResult:
    _load()
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text=text, asked_at=now(), **options)
    ((_, result, _),) = [answer async for answer in asked.answer([(query, "")])]
    return result


def kinds(result: ContextResult) -> set[tuple[str, NoticeKind]]:
    return {(notice.stage, notice.kind) for notice in result.notices}


def gateway_of(**parts: Any) -> Gateway:
    """Make a gateway of some of its parts."""
    absent = dict.fromkeys(("publisher", "receipts", "asker", "documents", "judgements"))
    return Gateway(**{**absent, "deadline_ms": QueryOptions().deadline_ms, "now": now, **parts})
