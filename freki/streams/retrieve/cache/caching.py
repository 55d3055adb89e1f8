"""Remembers what was worked out for questions that are asked again: vectors, candidates and whole answers.

Every key holds the tenant and the principals: nobody is answered, nor answered sooner, because somebody else asked.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace

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
    may_read,
)
from freki.schemas.arrays import Floats
from freki.schemas.index import Candidate, Root, Scope, Watermark
from freki.schemas.names import record
from freki.streams.ports import Cache, ChunkSearch, Roots
from freki.streams.retrieve.cache.epochs import Epoch, Epochs
from freki.streams.retrieve.query_state import QueryState, timed
from freki.streams.retrieve.retriever import Retriever
from freki.streams.retrieve.steps.query_vectors import asker_of

CANDIDATE_BYTES = 384
"""About what one takes: two ids, a score, and the record around them."""
_TRUE = frozenset({ResultStatus.COMPLETE, ResultStatus.EMPTY})
"""What a step failed in, or the deadline cut, is worth no second look."""


@record
class Answer:
    """An answer that was given."""

    encoded: bytes
    made_at: Timestamp
    epoch: Epoch


@record
class Ranking:
    """What a retriever found."""

    candidates: Sequence[Candidate]
    epoch: Epoch


@record
class Caches:
    """What one process remembers of questions."""

    vectors: Cache[Floats]
    rankings: Cache[Ranking]
    answers: Cache[Answer]
    epochs: Epochs


class CachedSearch:
    """A ChunkSearch that knows what it found for a scope in the same epoch. Whether that is live, others check."""

    def __init__(self, search: ChunkSearch, *, rankings: Cache[Ranking], epochs: Epochs) -> None:
        self._search = search
        self._rankings = rankings
        self._epochs = epochs

    async def dense(
        self, vectors: Floats, scopes: Sequence[Scope], *, limit: int, strong: bool
    ) -> list[list[Candidate]]:
        """Search by cosine similarity; vectors: (queries, dim)."""
        keys = [("dense", vector.tobytes(), _of(scope), limit) for vector, scope in zip(vectors, scopes, strict=True)]
        known, epochs = self._known(keys, scopes)
        unknown = [place for place in range(len(scopes)) if place not in known]
        if unknown:
            found = await self._search.dense(
                vectors[unknown], [scopes[place] for place in unknown], limit=limit, strong=strong
            )
            known |= self._keep(keys, epochs, unknown, found)
        return [known[place] for place in range(len(scopes))]

    async def lexical(
        self, texts: Sequence[str], scopes: Sequence[Scope], *, limit: int, strong: bool
    ) -> list[list[Candidate]]:
        """Search by BM25 over analysed terms."""
        keys = [("lexical", text, _of(scope), limit) for text, scope in zip(texts, scopes, strict=True)]
        known, epochs = self._known(keys, scopes)
        unknown = [place for place in range(len(scopes)) if place not in known]
        if unknown:
            found = await self._search.lexical(
                [texts[place] for place in unknown], [scopes[place] for place in unknown], limit=limit, strong=strong
            )
            known |= self._keep(keys, epochs, unknown, found)
        return [known[place] for place in range(len(scopes))]

    async def visible(
        self, wanted: Sequence[Sequence[ChunkId]], scopes: Sequence[Scope]
    ) -> list[Mapping[ChunkId, RootId]]:
        """Tell which of the wanted chunks a scope may see; nothing of it is remembered."""
        return await self._search.visible(wanted, scopes)

    async def watermarks(self) -> Sequence[Watermark]:
        """Read how far each partition is."""
        marks = await self._search.watermarks()
        self._epochs.seen(marks)
        return marks

    def _known(
        self, keys: Sequence[object], scopes: Sequence[Scope]
    ) -> tuple[dict[int, list[Candidate]], list[Epoch | None]]:
        """Look up rankings; give the epochs as they are before the search for the others begins."""
        epochs = [self._epochs.now(scope.tenant) for scope in scopes]
        known = {}
        for place, (key, epoch) in enumerate(zip(keys, epochs, strict=True)):
            kept = self._rankings.get(key) if epoch is not None else None
            if kept is not None and kept.epoch == epoch:
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
    """Answers as a Retriever does, and again what it answered in the same epoch. Documents that are gone end it."""

    def __init__(  # noqa: PLR0913 - each is one thing from outside
        self,
        retriever: Retriever,
        *,
        caches: Caches,
        search: ChunkSearch,
        roots: Roots,
        encode: Callable[[ContextResult], bytes],
        decode: Callable[[bytes], ContextResult],
        failures: tuple[type[Exception], ...],
        now: Callable[[], Timestamp],
    ) -> None:
        self._retriever = retriever
        self._answers = caches.answers
        self._epochs = caches.epochs
        self._search = search
        self._roots = roots
        self._encode = encode
        self._decode = decode
        self._failures = failures
        self._now = now

    async def answer(
        self, asked: Sequence[tuple[ContextQuery, str]]
    ) -> AsyncGenerator[tuple[int, ContextResult, QueryState], None]:
        """Answer valid queries, given with their trace ids, as the retriever does."""
        states = [self._retriever.begin(query, trace_id) for query, trace_id in asked]
        lasting = [place for place, state in enumerate(states) if state.options.cached and not state.query.at_least]
        epochs: dict[int, Epoch] = {}
        known: dict[int, tuple[Answer, ContextResult]] = {}
        if lasting:
            with timed([states[place] for place in lasting], "remember", lambda _: 1):
                epochs = await self._begun({place: states[place].query for place in lasting})
                known = await self._known(states, epochs)
        for place, (answer, result) in known.items():
            state = states[place]
            yield place, self._again(result, answer, state), state
        rest = [place for place in range(len(asked)) if place not in known]
        if rest:
            async for at, result, state in self._retriever.answer([asked[place] for place in rest]):
                place = rest[at]
                if place in epochs and result.status in _TRUE:
                    encoded = self._encode(result)
                    answer = Answer(encoded=encoded, made_at=result.answered_at, epoch=epochs[place])
                    self._answers.keep(_question(state.query), answer, size=len(encoded))
                yield place, result, state

    async def warm_up(self) -> None:
        """Ask something once."""
        await self._retriever.warm_up()

    def learn_sending(self, seconds: float) -> None:
        """Take into account how long a result took to leave."""
        self._retriever.learn_sending(seconds)

    def refusals(self, queries: Sequence[ContextQuery]) -> list[str | None]:
        """Tell of each query why there is no time left to answer it; None where there is."""
        return self._retriever.refusals(queries)

    def refusal(self, query: ContextQuery, notice: Notice, *, trace_id: str) -> ContextResult:
        """Answer a query that breaks a rule, or that there is no time for."""
        return self._retriever.refusal(query, notice, trace_id=trace_id)

    async def _begun(self, queries: dict[int, ContextQuery]) -> dict[int, Epoch]:
        """Tell in which epochs these queries are answered, where that can be told."""
        try:
            self._epochs.seen(await self._search.watermarks())
        except self._failures:
            # Then nothing is remembered; that the store is down, the answer itself says.
            return {}
        now = {place: self._epochs.now(query.tenant) for place, query in queries.items()}
        return {place: epoch for place, epoch in now.items() if epoch is not None}

    async def _known(
        self, states: Sequence[QueryState], epochs: dict[int, Epoch]
    ) -> dict[int, tuple[Answer, ContextResult]]:
        """Look up answers, and whether every document that they quote is still as it was, and still the asker's."""
        found = {}
        for place, epoch in epochs.items():
            answer = self._answers.get(_question(states[place].query))
            if answer is not None and answer.epoch == epoch:
                found[place] = (answer, self._decode(answer.encoded))
        quoted = {root_id(result.tenant, each) for _, result in found.values() for each in _quoted(result)}
        try:
            roots = await self._roots.roots(sorted(quoted)) if quoted else {}
        except self._failures:
            return {}
        return {
            place: (answer, result)
            for place, (answer, result) in found.items()
            if all(
                _stands(roots.get(root_id(result.tenant, document_id)), version, states[place].query)
                for document_id, version in _quoted(result).items()
            )
        }

    def _again(self, result: ContextResult, answer: Answer, state: QueryState) -> ContextResult:
        now = self._now()
        return replace(
            result,
            query_id=QueryId(state.query.query_id),
            hits=tuple(replace(hit, age_ms=max(0, now - hit.occurred_at)) for hit in result.hits),
            stages=state.times(),
            asked_at=state.query.asked_at,
            answered_at=now,
            trace_id=state.trace_id,
            cached_ms=max(0, now - answer.made_at),
        )


def _of(scope: Scope) -> Scope:
    return replace(scope, principals=tuple(sorted(set(scope.principals))))


def _question(query: ContextQuery) -> ContextQuery:
    """Leave out what makes a question asked twice two queries."""
    return replace(
        query,
        query_id=QueryId(""),
        asked_at=Timestamp(0),
        deadline_ms=None,
        reply_to=None,
        principals=asker_of(query),
    )


def _quoted(result: ContextResult) -> dict[DocumentId, int]:
    """Give the versions of the documents that an answer holds something of, or names; one version of each."""
    hits = {hit.document_id: hit.version for hit in result.hits}
    duplicates = {each.document_id: each.version for hit in result.hits for each in hit.duplicates}
    return hits | duplicates | {each.document_id: each.version for each in result.expansions}


def _stands(root: Root | None, version: int, query: ContextQuery) -> bool:
    return (
        root is not None
        and not root.deleted
        and root.version == version
        and may_read(query.principals, root.principals)
    )
