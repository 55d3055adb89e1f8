"""Caches for queries that are asked again: vectors, rankings and whole answers.

Every key holds tenant and principals: no query is answered, or answered sooner, because of others' queries.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from freki.operators.age import age_ms
from freki.operators.identify import root_id
from freki.schemas import (
    ChunkId,
    ContextQuery,
    ContextResult,
    DocumentId,
    Notice,
    QueryId,
    ResultStatus,
    RootId,
    Timestamp,
)
from freki.schemas.arrays import Floats
from freki.schemas.embeddings import QueryEmbedding
from freki.schemas.errors import InfraError
from freki.schemas.index import Candidate, Root, Scope, Watermark
from freki.schemas.names import record, shown_time
from freki.streams.ports import Cache, ChunkSearch, Roots
from freki.streams.retrieve.cache.epochs import Epoch, Epochs
from freki.streams.retrieve.candidates import nothing_found
from freki.streams.retrieve.dependencies import QueryDefaults
from freki.streams.retrieve.parsed_query import EmbeddedQuery, ParsedQuery
from freki.streams.retrieve.query_log import timed
from freki.streams.retrieve.retriever import Answered, OnStep, Retriever
from freki.streams.retrieve.steps.compose import DEGRADING
from freki.streams.retrieve.steps.live import may_send
from freki.streams.retrieve.steps.query_embeddings import principals_of

CANDIDATE_BYTES = 384
"""Approximate size of a cached candidate: three ids, a score, and the record around them."""
SHARE = 0.5
"""Share of the time left that looking up may take: an answer that is not found has to be made."""
_CACHEABLE = frozenset({ResultStatus.COMPLETE, ResultStatus.EMPTY})
"""Status of results that are cached, if no notice says that a step failed or was left out."""


@record
class Answer:
    """A cached answer."""

    encoded: bytes
    made_at: Timestamp
    epoch: Epoch


@record
class Ranking:
    """A cached ranking of one retriever."""

    candidates: Sequence[Candidate]
    epoch: Epoch


@record
class Caches:
    """Caches of one process."""

    embeddings: Cache[QueryEmbedding]
    rankings: Cache[Ranking]
    answers: Cache[Answer]
    epochs: Epochs


class CachedSearch:
    """A ChunkSearch that caches rankings by scope and epoch. Callers check which candidates are live.

    A caller that finds one replaced searches with `bypass_cache`: the epoch may be the former, and so may what is kept
    under it.
    """

    def __init__(self, search: ChunkSearch, *, rankings: Cache[Ranking], epochs: Epochs) -> None:
        self._search = search
        self._rankings = rankings
        self._epochs = epochs

    async def dense(
        self, vectors: Floats, scopes: Sequence[Scope], *, limit: int, strong: bool, bypass_cache: bool = False
    ) -> list[list[Candidate]]:
        """Search by cosine similarity; vectors: (queries, dim)."""
        keys = [("dense", vector.tobytes(), _of(scope), limit) for vector, scope in zip(vectors, scopes, strict=True)]
        known, epochs = self._known(keys, scopes, bypass_cache=bypass_cache)
        unknown = [place for place in range(len(scopes)) if place not in known]
        if unknown:
            found = await self._search.dense(
                vectors[unknown],
                [scopes[place] for place in unknown],
                limit=limit,
                strong=strong,
                bypass_cache=bypass_cache,
            )
            known |= self._keep(keys, epochs, unknown, found)
        return [known[place] for place in range(len(scopes))]

    async def lexical(
        self, texts: Sequence[str], scopes: Sequence[Scope], *, limit: int, strong: bool, bypass_cache: bool = False
    ) -> list[list[Candidate]]:
        """Search by BM25 over analysed terms."""
        keys = [("lexical", text, _of(scope), limit) for text, scope in zip(texts, scopes, strict=True)]
        known, epochs = self._known(keys, scopes, bypass_cache=bypass_cache)
        unknown = [place for place in range(len(scopes)) if place not in known]
        if unknown:
            found = await self._search.lexical(
                [texts[place] for place in unknown],
                [scopes[place] for place in unknown],
                limit=limit,
                strong=strong,
                bypass_cache=bypass_cache,
            )
            known |= self._keep(keys, epochs, unknown, found)
        return [known[place] for place in range(len(scopes))]

    async def visible(
        self, wanted: Sequence[Sequence[ChunkId]], scopes: Sequence[Scope]
    ) -> list[Mapping[ChunkId, RootId]]:
        """Return which of the wanted chunks a scope may see, uncached."""
        return await self._search.visible(wanted, scopes)

    async def watermarks(self) -> Sequence[Watermark]:
        """Return the watermark of each partition."""
        marks = await self._search.watermarks()
        self._epochs.seen(marks)
        return marks

    def _known(
        self, keys: Sequence[object], scopes: Sequence[Scope], *, bypass_cache: bool
    ) -> tuple[dict[int, list[Candidate]], list[Epoch | None]]:
        """Look up rankings, none of them if bypass_cache; return the epochs as of before the search for the others."""
        epochs = [self._epochs.now(scope.tenant) for scope in scopes]
        known = {}
        for place, (key, epoch) in enumerate(zip(keys, epochs, strict=True)):
            kept = None if bypass_cache or epoch is None else self._rankings.get(key, holds=partial(_is_of, epoch))
            if kept is not None:
                known[place] = list(kept.candidates)
        return known, epochs

    def _keep(
        self,
        keys: Sequence[object],
        epochs: Sequence[Epoch | None],
        places: Sequence[int],
        found: Sequence[list[Candidate]],
    ) -> dict[int, list[Candidate]]:
        for place, candidates in zip(places, found, strict=True):
            epoch = epochs[place]
            if epoch is not None:
                ranking = Ranking(candidates=tuple(candidates), epoch=epoch)
                self._rankings.keep(keys[place], ranking, size=CANDIDATE_BYTES * len(candidates))
        return dict(zip(places, found, strict=True))


class CachingRetriever:
    """Answers like a Retriever, from the cache if epoch and documents are unchanged."""

    def __init__(
        self,
        retriever: Retriever,
        *,
        caches: Caches,
        search: ChunkSearch,
        roots: Roots,
        encode: Callable[[ContextResult], bytes],
        decode: Callable[[bytes], ContextResult],
        now: Callable[[], Timestamp],
    ) -> None:
        self._retriever = retriever
        self._answers = caches.answers
        self._epochs = caches.epochs
        self._search = search
        self._roots = roots
        self._encode = encode
        self._decode = decode
        self._now = now

    def take_over(self, defaults: QueryDefaults, answers: Cache[Answer]) -> None:
        """Answer later queries by other defaults; answers: an empty cache, since those before were made by others."""
        self._retriever.take_over(defaults)
        self._answers = answers

    async def answer(
        self, asked: Sequence[tuple[ContextQuery, str]], *, on_step: OnStep | None = None
    ) -> AsyncGenerator[Answered, None]:
        """Answer valid queries, given with their trace ids, as the retriever does."""
        answers = self._answers
        parsed = [self._retriever.parse(query, trace_id) for query, trace_id in asked]
        lasting = [place for place, each in enumerate(parsed) if each.options.cached and not each.query.at_least]
        epochs: dict[int, Epoch] = {}
        known: dict[int, tuple[Answer, ContextResult]] = {}
        began_ns = 0
        if lasting:
            # After a timeout, as after a failure, nothing counts as known.
            with timed([parsed[place].log for place in lasting], "remember", lambda _: 1), suppress(TimeoutError):
                async with asyncio.timeout(SHARE * self._retriever.spare_s(parsed)):
                    epochs = await self._begun({place: parsed[place].query for place in lasting})
                    began_ns = parsed[lasting[0]].log.clock_ns()
                    known = await self._known(answers, parsed, epochs)
        given: set[int] = set()
        for place, (answer, result) in known.items():
            query = parsed[place]
            # The process may have stood still since, or those before may have been sent for long.
            if not may_send(began_ns, now_ns=query.log.clock_ns()):
                break
            given.add(place)
            yield place, self._again(result, answer, query), nothing_found(EmbeddedQuery.of(query, None, {}))
        rest = [place for place in range(len(asked)) if place not in given]
        if rest:
            # As they are, because the time that the look-up took belongs to what is told of them.
            made = self._retriever.answer_parsed([parsed[place] for place in rest], on_step=on_step)
            async for at, result, retrieval in made:
                place = rest[at]
                if place in epochs and _may_be_cached(result):
                    encoded = self._encode(result)
                    answer = Answer(encoded=encoded, made_at=result.answered_at, epoch=epochs[place])
                    answers.keep(_cache_key(retrieval.query.query), answer, size=len(encoded))
                yield place, result, retrieval

    async def warm_up(self) -> None:
        """Warm up the retriever."""
        await self._retriever.warm_up()

    def learn_sending(self, seconds: float) -> None:
        """Learn how long a result took to be sent."""
        self._retriever.learn_sending(seconds)

    def refusals(self, queries: Sequence[ContextQuery]) -> list[str | None]:
        """Return for each query why there is no time to answer it, or None."""
        return self._retriever.refusals(queries)

    def refusal(self, query: ContextQuery, notice: Notice, *, trace_id: str) -> ContextResult:
        """Return the result of a query that breaks a rule, that failed, or that there is no time for."""
        return self._retriever.refusal(query, notice, trace_id=trace_id)

    async def _begun(self, queries: dict[int, ContextQuery]) -> dict[int, Epoch]:
        """Return the epochs in which these queries are answered, as far as they are known."""
        try:
            self._epochs.seen(await self._search.watermarks())
        except InfraError:
            # Nothing is cached then; the answer itself tells that the store is down.
            return {}
        now = {place: self._epochs.now(query.tenant) for place, query in queries.items()}
        return {place: epoch for place, epoch in now.items() if epoch is not None}

    async def _known(
        self, answers: Cache[Answer], queries: Sequence[ParsedQuery], epochs: dict[int, Epoch]
    ) -> dict[int, tuple[Answer, ContextResult]]:
        """Look up answers all of whose documents are unchanged and readable."""
        found = {}
        for place, epoch in epochs.items():
            answer = answers.get(_cache_key(queries[place].query), holds=partial(_is_of, epoch))
            if answer is not None:
                found[place] = (answer, self._decode(answer.encoded))
        quoted = {root_id(result.tenant, each) for _, result in found.values() for each in _quoted(result)}
        try:
            roots = await self._roots.roots(sorted(quoted)) if quoted else {}
        except InfraError:
            return {}
        return {
            place: (answer, result)
            for place, (answer, result) in found.items()
            if all(
                _stands(roots.get(root_id(result.tenant, document_id)), version, queries[place])
                for document_id, version in _quoted(result).items()
            )
        }

    def _again(self, result: ContextResult, answer: Answer, query: ParsedQuery) -> ContextResult:
        now = self._now()
        return replace(
            result,
            query_id=QueryId(query.query.query_id),
            hits=tuple(replace(hit, age_ms=age_ms(hit.occurred_at, now)) for hit in result.hits),
            stages=query.log.times(),
            asked_at=shown_time(query.query.asked_at),
            answered_at=now,
            trace_id=query.trace_id,
            cached_ms=max(0, now - answer.made_at),
        )


def _is_of(epoch: Epoch, kept: Answer | Ranking) -> bool:
    return kept.epoch == epoch


def _may_be_cached(result: ContextResult) -> bool:
    # An EMPTY result may have such notices, and with more time there may be something to find: the deadline is no part
    # of the key. What became of an expected document is told only after a look at whether it may be.
    if result.explanation is not None and result.explanation.expected:
        return False
    return result.status in _CACHEABLE and not any(notice.kind in DEGRADING for notice in result.notices)


def _of(scope: Scope) -> Scope:
    return replace(scope, principals=tuple(sorted(set(scope.principals))))


def _cache_key(query: ContextQuery) -> ContextQuery:
    """Return a query without the fields that differ when it is asked again."""
    return replace(
        query,
        query_id=QueryId(""),
        asked_at=Timestamp(0),
        deadline_ms=None,
        reply_to=None,
        principals=principals_of(query),
    )


def _quoted(result: ContextResult) -> dict[DocumentId, int]:
    """Return the versions of the documents that an answer quotes or names."""
    hits = {hit.document_id: hit.version for hit in result.hits}
    duplicates = {each.document_id: each.version for hit in result.hits for each in hit.duplicates}
    return hits | duplicates | {each.document_id: each.version for each in result.expansions}


def _stands(root: Root | None, version: int, query: ParsedQuery) -> bool:
    return root is not None and not root.deleted and root.version == version and query.may_show(root)
