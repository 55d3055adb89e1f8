"""The commit protocol: a revision becomes visible at once, or not at all.

Chunk rows, then manifest pages, then the root (the commit point), then what the new manifest no longer names is
deleted. A crash anywhere leaves the old or the new revision; the event comes again and lands in the same state.

Revisions of one document may come in several lanes, so that an older one may be written between two parts of a newer
one. Three rules keep that harmless. All lanes of a partition belong to one process, in which one lane at a time has its
turn: what it looked up stays true until its turn ends. A revision that a newer one overtook is STALE from then on,
whatever of it was written. And what pages of a newer revision name is neither deleted nor rewritten for an older one.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from opentelemetry.trace import Tracer

from freki.operators.facets import facets
from freki.operators.fence import Action, Decision, decide
from freki.operators.identify import root_id
from freki.operators.situate import situated
from freki.schemas import (
    ChunkId,
    ContextualChunk,
    ContextualChunkBatch,
    IndexOutcome,
    OutcomeStatus,
    Revision,
    RevisionOperation,
    RootId,
    Timestamp,
)
from freki.schemas.index import IndexedChunk, KnownChunk, ManifestEntry, ManifestPage, Root, Watermark
from freki.schemas.outline import PAGES_WITHOUT_TEXT
from freki.streams import attributes
from freki.streams.lanes import Lane
from freki.streams.late import Embeddable, embed_each
from freki.streams.ports import AnalyseText, ChunkRows, Embedder, Floats, Made, Roots, Vectors
from freki.streams.tracing import UNTRACED, Attributes, describe, step
from freki.streams.turns import Turns


class Part(NamedTuple):
    """One batch of chunks as it stood in the stream."""

    batch: ContextualChunkBatch
    partition: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive parts of one revision that arrived together, with what is to be done with them."""

    root_id: RootId
    revision: Revision
    parts: tuple[ContextualChunkBatch, ...]
    partition: int
    facets: str

    @property
    def complete(self) -> bool:
        """Does it end the revision?"""
        last = self.parts[-1]
        return last.part == last.parts - 1

    @property
    def chunks(self) -> Iterator[ContextualChunk]:
        """All chunks, in reading order."""
        return (chunk for part in self.parts for chunk in part.chunks)

    def embeddable(self, contextual: ContextualChunk) -> Embeddable:
        """Say what the vector of one of its chunks is made of."""
        chunk, text = contextual.chunk, _embeddable(contextual)
        if chunk.window < 0:
            return Embeddable(text)
        part = next(part for part in self.parts if part.chunks and chunk.ordinal <= part.chunks[-1].chunk.ordinal)
        return Embeddable(
            text, part.windows[chunk.window], chunk.window_start, chunk.window_start + chunk.end - chunk.start
        )


@dataclass(slots=True)
class Tally:
    """What was done for a revision so far, over all of its parts."""

    embedded: int = 0
    tokens: int = 0
    embedded_at: Timestamp | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Pieces that are embedded in one call and committed in one write."""

    pieces: list[Piece] = field(default_factory=list)
    fresh: dict[ChunkId, tuple[Piece, ContextualChunk]] = field(default_factory=dict)
    """Chunks that have no vector yet."""
    moved: dict[ChunkId, tuple[Piece, ContextualChunk]] = field(default_factory=dict)
    """Chunks whose vector is kept while their row changes."""

    @property
    def tokens(self) -> int:
        """Tokens to embed."""
        return sum(chunk.chunk.tokens for _, chunk in self.fresh.values())

    def take(self, other: "Slice") -> None:
        """Add what another holds, which may continue the last piece."""
        self.pieces[:] = _joined([*self.pieces, *other.pieces])
        self.fresh.update(other.fresh)
        self.moved.update(other.moved)


class Indexer:
    """Writes revisions to the store; holds no state that a crash could lose, but for counts in receipts."""

    def __init__(  # noqa: PLR0913 - each is one thing from outside
        self,
        *,
        rows: ChunkRows,
        roots: Roots,
        embedder: Embedder,
        vectors: Vectors,
        analyse_text: AnalyseText,
        analyser: str,
        generation: str,
        slice_tokens: int,
        now: Callable[[], Timestamp],
        tracer: Tracer = UNTRACED,
    ) -> None:
        self._rows = rows
        self._roots = roots
        self._embedder = embedder
        self._vectors = vectors
        self._analyse_text = analyse_text
        self._analyser = analyser
        self._generation = generation
        self._slice_tokens = slice_tokens
        self._now = now
        self._tracer = tracer
        self._turns = Turns()
        self._tallies: dict[tuple[RootId, int], Tally] = {}
        self._seen: dict[int, Timestamp] = {}

    async def index(
        self, parts: Sequence[Part], *, lane: Lane = Lane.REGULAR
    ) -> AsyncGenerator[list[IndexOutcome], None]:
        """Write parts in the order of each document; give receipts as soon as their changes are visible.

        One call a lane at a time. Close the iterator where it is left before its end: it may have the turn.
        """
        for wave in _waves(self._pieces(parts)):
            rest = wave
            while rest:
                async with self._turns.taken(lane), aclosing(self._index_turn(rest, lane)) as turn:
                    async for outcomes, left in turn:
                        rest = left
                        if outcomes:
                            yield outcomes

    def _pieces(self, parts: Sequence[Part]) -> Iterator[Piece]:
        """Join consecutive parts of one revision."""
        open_pieces: dict[RootId, Piece] = {}
        for batch, partition in parts:
            key = root_id(batch.revision.tenant, batch.revision.document_id)
            piece = open_pieces.get(key)
            if piece is not None and piece.revision == batch.revision and piece.parts[-1].part + 1 == batch.part:
                open_pieces[key] = replace(piece, parts=(*piece.parts, batch))
                continue
            if piece is not None:
                yield piece
            fingerprint = facets(batch.revision, analyser=self._analyser)
            open_pieces[key] = Piece(key, batch.revision, (batch,), partition, fingerprint)
        yield from open_pieces.values()

    async def _index_turn(
        self, pieces: Sequence[Piece], lane: Lane
    ) -> AsyncGenerator[tuple[list[IndexOutcome], list[Piece]], None]:
        """Index pieces of different documents, until all are done or the turn is over; each time tell what is left."""
        with step(self._tracer, "look up", lambda: {attributes.FREKI_ITEMS: len(pieces)}):
            roots = await self._roots.roots([piece.root_id for piece in pieces])
        decisions = {
            piece.root_id: decide(roots.get(piece.root_id), piece.revision, facets=piece.facets) for piece in pieces
        }
        versions = {piece.root_id: _fence(decisions[piece.root_id], piece.revision) for piece in pieces}
        promised = await self._roots.promised(versions)
        repeats = [piece for piece in pieces if decisions[piece.root_id].action is Action.REPEAT]
        if not await self._resituate(repeats, promised, lane):
            yield [], list(pieces)
            return
        writes = [piece for piece in pieces if decisions[piece.root_id].action is Action.WRITE]
        ended = [piece for piece in pieces if decisions[piece.root_id].action is not Action.WRITE and piece.complete]
        yield (await self._end(ended, decisions, roots, promised) if ended else []), writes
        committing: asyncio.Task[list[IndexOutcome]] | None = None
        slices = await self._sliced(writes, promised)
        try:
            while slices:
                # The store writes one slice while the model embeds the next.
                piece_slice = slices.pop(0)
                vectors = await self._embedded(piece_slice)
                if committing is not None:
                    yield await committing, _left([piece_slice, *slices])
                committing = asyncio.create_task(self._write(piece_slice, vectors, roots, promised))
                if slices and self._turns.over(lane):
                    break
            if committing is not None:
                yield await committing, _left(slices)
        finally:
            if committing is not None:
                # Not cancelled: its effect would be open, and others have their turn next.
                await asyncio.gather(committing, return_exceptions=True)

    async def _sliced(self, pieces: Sequence[Piece], promised: Mapping[RootId, set[ChunkId]]) -> list[Slice]:
        """Share pieces out over slices: important ones first, then small ones, so that none waits for a large one.

        A large piece is cut between its parts.
        """
        chunk_ids = [chunk.chunk.chunk_id for piece in pieces for chunk in piece.chunks]
        with step(self._tracer, "compare", lambda: {attributes.FREKI_ITEMS: len(chunk_ids)}):
            known = await self._rows.known(chunk_ids)
        documents = [
            [self._compared(replace(piece, parts=(part,)), known, promised[piece.root_id]) for part in piece.parts]
            for piece in pieces
        ]
        documents.sort(
            key=lambda parts: (
                -parts[0].pieces[0].revision.priority,
                sum(part.tokens for part in parts),
                parts[0].pieces[0].root_id,
            )
        )
        return _packed((part for parts in documents for part in parts), self._slice_tokens)

    def _compared(self, piece: Piece, known: Mapping[ChunkId, KnownChunk], promised: Collection[ChunkId]) -> Slice:
        """Tell what of a piece has to be embedded, and what has to be rewritten."""
        found = Slice([piece])
        for chunk in piece.chunks:
            chunk_id = chunk.chunk.chunk_id
            row = known.get(chunk_id)
            if row is not None and chunk_id in promised:
                continue
            if row is None or not self._is_embedded(row, chunk):
                found.fresh[chunk_id] = (piece, chunk)
            elif (row.facets, row.kind) != (piece.facets, chunk.chunk.kind):
                found.moved[chunk_id] = (piece, chunk)
        return found

    def _is_embedded(self, row: KnownChunk, chunk: ContextualChunk) -> bool:
        """Tell whether a row has the vector that its chunk has now."""
        embedder = self._embedder.of(chunk.chunk.kind)
        return row.embedder == embedder.fingerprint and row.context_key == chunk.context_key

    async def _resituate(self, repeats: Sequence[Piece], promised: Mapping[RootId, set[ChunkId]], lane: Lane) -> bool:
        """Embed chunks of revisions that are live already, where a better context has come; nothing else changes.

        Tells whether all of that is done; it is not where the turn is over before.
        """
        chunks = {
            chunk.chunk.chunk_id: (piece, chunk)
            for piece in repeats
            for chunk in piece.chunks
            if chunk.context_key and chunk.chunk.chunk_id not in promised[piece.root_id]
        }
        known = await self._rows.known(list(chunks)) if chunks else {}
        outdated = {key: chunks[key] for key, row in known.items() if not self._is_embedded(row, chunks[key][1])}
        slices = _packed((Slice(fresh={key: chunk}) for key, chunk in outdated.items()), self._slice_tokens)
        for number, better in enumerate(slices, start=1):
            await self._upsert(better, await self._embedded(better))
            if number < len(slices) and self._turns.over(lane):
                return False
        return True

    async def _upsert(self, piece_slice: Slice, vectors: Floats) -> None:
        rows = [self._row(piece, chunk) for piece, chunk in piece_slice.fresh.values()]
        with step(self._tracer, "write", lambda: {attributes.FREKI_ITEMS: len(rows)}):
            await self._rows.upsert(rows, vectors)

    async def _embedded(self, piece_slice: Slice) -> Floats:
        """Give the vectors of a slice's fresh chunks, (chunks, dim): remembered ones, or the model's."""
        wanted = [self._made(piece, chunk) for piece, chunk in piece_slice.fresh.values()]
        vectors = dict(self._vectors.among(wanted))
        unknown: dict[Made, tuple[Piece, ContextualChunk]] = {}
        for made, fresh in zip(wanted, piece_slice.fresh.values(), strict=True):
            if made not in vectors:
                unknown.setdefault(made, fresh)
        for embedder, ours in self._by_embedder(unknown):
            new = dict(zip(ours, await self._embed(embedder, list(ours.values())), strict=True))
            self._vectors.keep(new)
            vectors.update(new)
        embedded_at = self._now()
        for piece, chunk in unknown.values():
            tally = self._tally(piece)
            tally.embedded += 1
            tally.tokens += chunk.chunk.tokens
            tally.embedded_at = embedded_at
        return np.array([vectors[made] for made in wanted], np.float32).reshape(-1, self._embedder.dim)

    def _by_embedder(
        self, chunks: Mapping[Made, tuple[Piece, ContextualChunk]]
    ) -> Iterator[tuple[Embedder, dict[Made, tuple[Piece, ContextualChunk]]]]:
        """Share chunks out over the embedders of their kinds."""
        shares: defaultdict[str, dict[Made, tuple[Piece, ContextualChunk]]] = defaultdict(dict)
        embedders: dict[str, Embedder] = {}
        for made, (piece, chunk) in chunks.items():
            embedder = self._embedder.of(chunk.chunk.kind)
            embedders[embedder.fingerprint] = embedder
            shares[embedder.fingerprint][made] = (piece, chunk)
        return ((embedders[fingerprint], share) for fingerprint, share in shares.items())

    async def _embed(self, embedder: Embedder, chunks: Sequence[tuple[Piece, ContextualChunk]]) -> Floats:
        tokens = sum(chunk.chunk.tokens for _, chunk in chunks)

        def described() -> Attributes:
            return {
                attributes.FREKI_ITEMS: len(chunks),
                attributes.EMBEDDING_MODEL_NAME: embedder.fingerprint,
                attributes.LLM_TOKEN_COUNT_PROMPT: tokens,
                attributes.GEN_AI_OPERATION_NAME: "embeddings",
                attributes.GEN_AI_REQUEST_MODEL: embedder.fingerprint,
                attributes.GEN_AI_USAGE_INPUT_TOKENS: tokens,
                attributes.GEN_AI_EMBEDDINGS_DIMENSION_COUNT: embedder.dim,
            }

        with step(self._tracer, "embed", described, kind=attributes.EMBEDDING):
            return await embed_each(embedder, [piece.embeddable(chunk) for piece, chunk in chunks])

    async def _write(
        self,
        piece_slice: Slice,
        vectors: Floats,
        roots: Mapping[RootId, Root],
        promised: Mapping[RootId, set[ChunkId]],
    ) -> list[IndexOutcome]:
        rows = [self._row(piece, chunk) for piece, chunk in piece_slice.fresh.values()]
        if piece_slice.moved:
            kept = await self._rows.fetch(list(piece_slice.moved))
            gone = [chunk_id for chunk_id in piece_slice.moved if chunk_id not in kept]
            if gone:
                # Only this partition's one process deletes rows, and while we have the turn none of its other lanes.
                raise RuntimeError(f"{len(gone)} chunk rows vanished while their document was written")
            rows += [self._row(piece, chunk) for piece, chunk in piece_slice.moved.values()]
            vectors = np.vstack([vectors, *(kept[chunk_id][1][None] for chunk_id in piece_slice.moved)])
        with step(self._tracer, "write", lambda: {attributes.FREKI_ITEMS: len(rows)}):
            await self._rows.upsert(rows, vectors)
            await self._roots.write_pages([page for piece in piece_slice.pieces for page in _pages(piece)])
        complete = [piece for piece in piece_slice.pieces if piece.complete]
        if not complete:
            return []
        manifests = await self._manifests(complete)
        committed = self._now()
        fingerprint = self._embedder.fingerprint
        new_roots = [_live_root(piece, fingerprint, len(manifests[piece.root_id]), committed) for piece in complete]
        await self._commit(new_roots, self._watermarks(complete, committed))
        searchable_at = self._now()
        removed = await self._sweep(
            manifests, promised, live={piece.root_id: piece.revision.version for piece in complete}, dead={}
        )
        return [
            self._receipt(
                piece,
                _written_status(piece, roots.get(piece.root_id)),
                chunks=len(manifests[piece.root_id]),
                removed=removed[piece.root_id],
                searchable_at=searchable_at,
                reason=_remark(piece.revision, len(manifests[piece.root_id])),
            )
            for piece in complete
        ]

    async def _commit(self, roots: Sequence[Root], watermarks: Sequence[Watermark]) -> None:
        with step(self._tracer, "commit", lambda: {attributes.FREKI_ITEMS: len(roots)}):
            await self._roots.commit(roots, watermarks)

    async def _manifests(self, complete: Sequence[Piece]) -> dict[RootId, set[ChunkId]]:
        """Collect the chunk ids of whole revisions, also of parts that arrived earlier."""
        split = {piece.root_id: piece.revision.version for piece in complete if piece.parts[0].part > 0}
        stored = await self._roots.pages(split) if split else {}
        manifests: dict[RootId, set[ChunkId]] = {}
        for piece in complete:
            entries = {chunk.chunk.chunk_id for chunk in piece.chunks}
            if piece.root_id in split:
                pages = [page for page in stored.get(piece.root_id, []) if page.part < piece.parts[-1].parts]
                if len(pages) < piece.parts[-1].parts:
                    # Redelivery starts at the last commit, so earlier parts come again: see the caller's acks.
                    raise MissingPartsError(
                        f"{piece.revision.document_id!r} version {piece.revision.version}: only {len(pages)} of "
                        f"{piece.parts[-1].parts} parts are in the store; publish the document again"
                    )
                entries.update(entry.chunk_id for page in pages for entry in page.entries)
            manifests[piece.root_id] = entries
        return manifests

    async def _end(
        self,
        pieces: Sequence[Piece],
        decisions: Mapping[RootId, Decision],
        roots: Mapping[RootId, Root],
        promised: Mapping[RootId, set[ChunkId]],
    ) -> list[IndexOutcome]:
        """Finish revisions that need no chunk written: deletions, repeats and stale ones."""
        deletions = [piece for piece in pieces if decisions[piece.root_id].action is Action.DELETE]
        committed = self._now()
        if deletions:
            dead_roots = [_dead_root(piece, roots.get(piece.root_id), committed) for piece in deletions]
            await self._commit(dead_roots, self._watermarks(deletions, committed))
        searchable_at = self._now()
        # A crash between commit and sweep leaves rows behind; the repeated event sweeps them.
        repeats = {
            piece.root_id: roots[piece.root_id].version
            for piece in pieces
            if decisions[piece.root_id].action is Action.REPEAT
        }
        stored = await self._roots.pages(repeats) if repeats else {}
        manifests = {key: {entry.chunk_id for page in stored.get(key, []) for entry in page.entries} for key in repeats}
        # Of what is stale because its document is gone, parts may have been written before that.
        dead = {
            piece.root_id: _fence(decisions[piece.root_id], piece.revision)
            for piece in pieces
            if decisions[piece.root_id].action in {Action.DELETE, Action.ALREADY_DELETED}
            or (decisions[piece.root_id].action is Action.STALE and roots[piece.root_id].deleted)
        }
        removed = await self._sweep(manifests, promised, live=repeats, dead=dead)
        return [
            self._receipt(
                piece,
                _ENDED[decisions[piece.root_id].action],
                reason=decisions[piece.root_id].reason,
                chunks=len(manifests.get(piece.root_id, ())),
                removed=removed.get(piece.root_id, 0),
                searchable_at=_searchable_at(decisions[piece.root_id], roots.get(piece.root_id), searchable_at),
            )
            for piece in pieces
        ]

    async def _sweep(
        self,
        manifests: Mapping[RootId, set[ChunkId]],
        promised: Mapping[RootId, set[ChunkId]],
        *,
        live: Mapping[RootId, int],
        dead: Mapping[RootId, int],
    ) -> dict[RootId, int]:
        """Delete the chunk rows and pages that these versions left behind; count rows.

        Only what these or older versions wrote is touched: a worker that was thought dead and comes back late
        cannot delete what its successor wrote since.
        """
        versions = {**live, **dead}
        if not versions:
            return {}
        with step(self._tracer, "sweep") as span:
            stored = await self._rows.ids_of({key: version + 1 for key, version in versions.items()})
            left = {key: stored.get(key, set()) - manifests.get(key, set()) - promised[key] for key in versions}
            await self._rows.delete(sorted(chunk_id for chunk_ids in left.values() for chunk_id in chunk_ids))
            await self._roots.sweep_pages({**live, **{key: version + 1 for key, version in dead.items()}})
            describe(span, lambda: {attributes.FREKI_ITEMS: sum(map(len, left.values()))})
        return {key: len(chunk_ids) for key, chunk_ids in left.items()}

    def _watermarks(self, pieces: Sequence[Piece], committed_at: Timestamp) -> list[Watermark]:
        """Move each partition's watermark forward, never back."""
        for piece in pieces:
            seen = self._seen.get(piece.partition, Timestamp(0))
            self._seen[piece.partition] = max(seen, piece.revision.occurred_at)
        return [
            Watermark(partition=partition, occurred_at=self._seen[partition], committed_at=committed_at)
            for partition in sorted({piece.partition for piece in pieces})
        ]

    def _row(self, piece: Piece, contextual: ContextualChunk) -> IndexedChunk:
        chunk, revision = contextual.chunk, piece.revision
        return IndexedChunk(
            chunk_id=chunk.chunk_id,
            root_id=piece.root_id,
            tenant=revision.tenant,
            document_id=revision.document_id,
            level=chunk.level,
            kind=chunk.kind,
            language=revision.language,
            heading_path=chunk.heading_path,
            text=chunk.text,
            context=contextual.context,
            context_key=contextual.context_key,
            lexical=self._analyse_text(_embeddable(contextual), language=revision.language),
            tokens=chunk.tokens,
            name=revision.name,
            media_type=revision.media_type,
            principals=revision.principals,
            attributes=revision.attributes,
            version=revision.version,
            embedder=self._embedder.of(chunk.kind).fingerprint,
            facets=piece.facets,
        )

    def _made(self, piece: Piece, chunk: ContextualChunk) -> Made:
        embeddable, embedder = piece.embeddable(chunk), self._embedder.of(chunk.chunk.kind).fingerprint
        if embeddable.window is None:
            return piece.revision.tenant, embedder, embeddable.text
        return piece.revision.tenant, embedder, embeddable.window, str(embeddable.start), str(embeddable.end)

    def _tally(self, piece: Piece) -> Tally:
        return self._tallies.setdefault((piece.root_id, piece.revision.version), Tally())

    def _receipt(  # noqa: PLR0913 - the fields of a receipt that differ
        self,
        piece: Piece,
        status: OutcomeStatus,
        *,
        chunks: int,
        removed: int,
        searchable_at: Timestamp | None,
        reason: str = "",
    ) -> IndexOutcome:
        tally = self._tallies.pop((piece.root_id, piece.revision.version), Tally())
        return IndexOutcome(
            tenant=piece.revision.tenant,
            document_id=piece.revision.document_id,
            version=piece.revision.version,
            status=status,
            reason=reason,
            generation=self._generation,
            chunks=chunks,
            embedded=tally.embedded,
            removed=removed,
            tokens=tally.tokens,
            occurred_at=piece.revision.occurred_at,
            recorded_at=piece.revision.recorded_at,
            received_at=piece.revision.received_at,
            embedded_at=tally.embedded_at,
            searchable_at=searchable_at,
            llm=piece.parts[-1].llm,
        )


def _remark(revision: Revision, chunks: int) -> str:
    """Say what of an indexed document cannot be found."""
    if not chunks:
        return "the document holds no text: nothing of it can be found"
    unread = revision.attributes.get(PAGES_WITHOUT_TEXT)
    return f"no text was found on pages {unread}: run OCR over the document, such as ocrmypdf" if unread else ""


class MissingPartsError(Exception):
    """The end of a revision arrived without its beginning."""


_ENDED = {
    Action.DELETE: OutcomeStatus.DELETED,
    Action.ALREADY_DELETED: OutcomeStatus.DELETED,
    Action.REPEAT: OutcomeStatus.UNCHANGED,
    Action.STALE: OutcomeStatus.STALE,
}


def _waves(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Put the n-th piece of each document into wave n."""
    queues: defaultdict[RootId, list[Piece]] = defaultdict(list)
    for piece in pieces:
        queues[piece.root_id].append(piece)
    longest = max((len(queue) for queue in queues.values()), default=0)
    return [[queue[turn] for queue in queues.values() if turn < len(queue)] for turn in range(longest)]


def _fence(decision: Decision, revision: Revision) -> int:
    """Give the version up to which a revision may delete rows."""
    return max(decision.version, revision.version)


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Put neighbours of the same revision together again."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].root_id == piece.root_id:
            joined[-1] = replace(joined[-1], parts=(*joined[-1].parts, *piece.parts))
        else:
            joined.append(piece)
    return joined


def _packed(parts: Iterable[Slice], most_tokens: int) -> list[Slice]:
    """Join parts in their order to slices of at most so many tokens; one that is larger is a slice by itself."""
    slices: list[Slice] = []
    for part in parts:
        if not slices or slices[-1].tokens + part.tokens > most_tokens:
            slices.append(Slice())
        slices[-1].take(part)
    return slices


def _left(slices: Iterable[Slice]) -> list[Piece]:
    return _joined(piece for piece_slice in slices for piece in piece_slice.pieces)


def _embeddable(chunk: ContextualChunk) -> str:
    return situated(chunk.context, chunk.chunk.text)


def _pages(piece: Piece) -> Iterator[ManifestPage]:
    for part in piece.parts:
        entries = tuple(
            ManifestEntry(
                chunk_id=chunk.chunk_id,
                path=chunk.path,
                ordinal=chunk.ordinal,
                start=chunk.start,
                end=chunk.end,
                overlap=chunk.overlap,
                first_page=chunk.first_page,
                last_page=chunk.last_page,
            )
            for chunk in (contextual.chunk for contextual in part.chunks)
        )
        yield ManifestPage(root_id=piece.root_id, version=piece.revision.version, part=part.part, entries=entries)


def _live_root(piece: Piece, embedder: str, chunks: int, searchable_at: Timestamp) -> Root:
    revision = piece.revision
    return Root(
        root_id=piece.root_id,
        tenant=revision.tenant,
        document_id=revision.document_id,
        version=revision.version,
        deleted=False,
        parts=piece.parts[-1].parts,
        chunks=chunks,
        content_hash=revision.content_hash,
        facets=piece.facets,
        chunker=revision.chunker,
        embedder=embedder,
        name=revision.name,
        media_type=revision.media_type,
        language=revision.language,
        source_uri=revision.source_uri,
        principals=revision.principals,
        attributes=revision.attributes,
        characters=revision.characters,
        occurred_at=revision.occurred_at,
        recorded_at=revision.recorded_at,
        received_at=revision.received_at,
        searchable_at=searchable_at,
    )


def _dead_root(piece: Piece, root: Root | None, searchable_at: Timestamp) -> Root:
    """Keep of a deleted document what fences late events and who may know of it, and nothing of its content."""
    revision = piece.revision
    return Root(
        root_id=piece.root_id,
        tenant=revision.tenant,
        document_id=revision.document_id,
        # A bare tombstone knows no version: it deletes the one that it finds.
        version=max(revision.version, root.version if root else 0),
        deleted=True,
        parts=0,
        chunks=0,
        content_hash="",
        facets="",
        chunker="",
        embedder="",
        name="",
        media_type="",
        language="und",
        source_uri=None,
        principals=root.principals if root else (),
        attributes={},
        characters=0,
        occurred_at=revision.occurred_at,
        recorded_at=revision.recorded_at,
        received_at=revision.received_at,
        searchable_at=searchable_at,
        tombstoned_at=_tombstoned_at(revision, root),
    )


def _tombstoned_at(revision: Revision, root: Root | None) -> Timestamp:
    before = root.tombstoned_at if root is not None else Timestamp(0)
    return max(before, revision.recorded_at) if revision.operation is RevisionOperation.TOMBSTONE else before


def _written_status(piece: Piece, root: Root | None) -> OutcomeStatus:
    same = root is not None and not root.deleted and root.content_hash == piece.revision.content_hash
    return OutcomeStatus.UNCHANGED if same else OutcomeStatus.INDEXED


def _searchable_at(decision: Decision, root: Root | None, now: Timestamp) -> Timestamp | None:
    if decision.action is Action.STALE:
        return None
    return now if decision.action is Action.DELETE or root is None else root.searchable_at
