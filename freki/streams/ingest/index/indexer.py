"""Indexing of revisions: fence each one, embed its chunks in slices, and commit slice by slice.

Revisions of one document may arrive in several lanes, and at several workers during a rebalance. Versions and the
protocol of `commit.py` make that safe. So batches overlap, in one lane too: a deletion waits for no model, and a small
change for no large one. Only large slices take turns at the model.
"""

import asyncio
import secrets
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import chain

from opentelemetry.trace import Tracer

from freki.client.tasks import cancel_and_wait
from freki.operators.fence import Action, Decision, decide
from freki.operators.fingerprint import fingerprint
from freki.schemas import ChunkId, IndexOutcome, OutcomeStatus, RootId, Timestamp
from freki.schemas.embeddings import PassageEmbedding
from freki.schemas.index import Root, places_in, row_id
from freki.streams.deliver.lanes import Lane
from freki.streams.ingest.index.commit import Committer, Draft, SweepResult
from freki.streams.ingest.index.compare import compare, keeps_rows
from freki.streams.ingest.index.order import DocumentOrder
from freki.streams.ingest.index.partition_progress import PartitionProgress
from freki.streams.ingest.index.pieces import (
    FIRST_SLICE_DIVISOR,
    Piece,
    ReceivedPart,
    Slice,
    by_root,
    in_parts,
    packed,
    pieces_of,
    waves,
)
from freki.streams.ingest.index.records import (
    ENDED,
    Effect,
    Manifest,
    chunk_row,
    dead_root,
    ended_at,
    live_root,
    manifest_pages,
    receipt,
    remark,
    written_status,
)
from freki.streams.ingest.index.repair import Repair
from freki.streams.ingest.index.rules import IndexRules
from freki.streams.ingest.index.vectors import ChunkVectors
from freki.streams.ingest.lane_scheduler import LaneScheduler
from freki.streams.observe import attributes
from freki.streams.observe.tracing import UNTRACED, step
from freki.streams.ports import Embedder, Store, Vectors

Bases = Mapping[RootId, Root]
"""Standing roots at the time of the look-up."""
BeforeCommit = Callable[[Sequence[Root], Mapping[RootId, Root | None]], Awaitable[None]]
"""Called with the roots that a commit is to write, and the standing ones of their documents; what it raises prevents
the commit."""


class Indexer:
    """Writer of revisions to the store; a crash loses no state but counts in receipts."""

    def __init__(  # noqa: PLR0913 - all that it works with
        self,
        rules: IndexRules,
        *,
        store: Store,
        embedder: Embedder,
        vectors: Vectors,
        now: Callable[[], Timestamp],
        tracer: Tracer = UNTRACED,
        entropy: Callable[[], str] = lambda: secrets.token_hex(4),
        before_commit: BeforeCommit | None = None,
    ) -> None:
        self._before_commit = before_commit
        self._rules = rules
        self._store = store
        self._vectors = ChunkVectors(embedder, cache=vectors, rows=store, now=now, tracer=tracer)
        self._committer = Committer(store=store, now=now, tracer=tracer, entropy=entropy)
        self._now = now
        self._tracer = tracer
        self._scheduler = LaneScheduler(small=rules.slice_tokens // FIRST_SLICE_DIVISOR)
        self._order = {lane: DocumentOrder() for lane in Lane}
        self._repair = Repair(
            store=store,
            vectors=self._vectors,
            committer=self._committer,
            analyse_text=rules.analyse_text,
            slice_tokens=rules.slice_tokens,
            turn=self._scheduler.turn,
        )
        self._progress = PartitionProgress()

    async def index(
        self, parts: Sequence[ReceivedPart], *, lane: Lane = Lane.REGULAR
    ) -> AsyncGenerator[list[IndexOutcome], None]:
        """Write parts, in order per document; yield receipts as soon as their changes are visible.

        Calls may overlap: in one lane a document waits for the earlier calls that have parts of it.
        Close the iterator if it is not exhausted: other calls may wait for its documents.
        """
        pieces = list(pieces_of(parts, analyser=self._rules.analyser))
        with self._order[lane].ticket(piece.root_id for piece in pieces) as ticket:
            for wave in waves(pieces):
                pending = dict(by_root(wave))
                while pending:
                    ready = [pending.pop(key) for key in await ticket.first(pending)]
                    async with aclosing(self._index(ready, lane)) as results:
                        async for done, outcomes in results:
                            ticket.done(piece.root_id for piece in done)
                            if outcomes:
                                yield outcomes

    async def _index(
        self, pieces: Sequence[Piece], lane: Lane
    ) -> AsyncGenerator[tuple[Sequence[Piece], list[IndexOutcome]], None]:
        """Index pieces of different documents; yield pieces that are done, with their receipts.

        What needs no model comes first, then what needs least of it.
        """
        bases = await self._committer.look_up([piece.root_id for piece in pieces])
        decisions = _decisions(pieces, bases)
        by_action: defaultdict[Action, list[Piece]] = defaultdict(list)
        for piece in pieces:
            by_action[decisions[piece.root_id].action].append(piece)
        writes, repeats = by_action.pop(Action.WRITE, []), by_action.pop(Action.REPEAT, [])
        if ended := list(chain.from_iterable(by_action.values())):
            yield ended, await self._end([piece for piece in ended if piece.complete], decisions, bases)
        if repeats:
            alike = {piece.root_id for piece in repeats if self._is_made_alike(piece, bases.get(piece.root_id))}
            await self._repair(repeats, bases, lane, alike=alike)
            yield repeats, await self._end([piece for piece in repeats if piece.complete], decisions, bases)
        last = {piece.root_id: piece.parts[-1] for piece in writes}
        slices = deque(await self._sliced(writes, bases))
        embedding = self._embedding(slices, lane)
        try:
            while embedding is not None:
                passages, piece_slice = await embedding, slices.popleft()
                # The model embeds the next slice while the store writes this one and receipts are sent.
                embedding = self._embedding(slices, lane)
                outcomes = await self._commit(piece_slice, passages, bases)
                yield [piece for piece in piece_slice.pieces if piece.parts[-1] is last[piece.root_id]], outcomes
        finally:
            if embedding is not None:
                await cancel_and_wait([embedding])

    def _embedding(
        self, slices: Sequence[Slice], lane: Lane
    ) -> asyncio.Task[Mapping[ChunkId, PassageEmbedding]] | None:
        """Begin to embed the first slice; None if there is none."""
        return asyncio.create_task(self._embed(slices[0], lane)) if slices else None

    async def _embed(self, piece_slice: Slice, lane: Lane) -> Mapping[ChunkId, PassageEmbedding]:
        async with self._scheduler.turn(lane, piece_slice.tokens):
            return await self._vectors.of_slice(piece_slice)

    async def _sliced(self, pieces: Sequence[Piece], bases: Bases) -> list[Slice]:
        """Compare pieces with the store, and divide them into slices at boundaries of parts.

        Documents of high priority come first, then those of which least has to be embedded.
        """
        chunk_ids = [chunk.chunk.chunk_id for piece in pieces for chunk in piece.chunks]
        if not chunk_ids:
            return packed((Slice([part]) for part in chain.from_iterable(in_parts(pieces))), self._rules.slice_tokens)
        with step(self._tracer, "compare", lambda: {attributes.FREKI_ITEMS: len(chunk_ids)}):
            stored = await self._store.stored(chunk_ids)
            live = [base for piece in pieces if (base := bases.get(piece.root_id)) is not None and not base.deleted]
            naming = await self._store.naming([root.root_id for root in live], list(stored)) if live and stored else {}
        named = {chunk_id: place.row_id for root in live for chunk_id, place in places_in(root, naming, stored).items()}
        fits = self._vectors.fits
        documents = []
        for parts in in_parts(pieces):
            chunks = [chunk for part in parts for chunk in part.chunks]
            is_alike = self._is_made_alike(parts[0], bases.get(parts[0].root_id))
            keeps = is_alike and keeps_rows(chunks, stored, named, fits=fits)
            documents.append([compare(part, stored, named, fits=fits, keeps=keeps) for part in parts])
        documents.sort(key=_urgency)
        return packed(chain.from_iterable(documents), self._rules.slice_tokens)

    def _fingerprint(self, piece: Piece) -> str:
        """Return the fingerprint of the rules that a piece is made by."""
        embedder = self._vectors.embedder.fingerprint
        return fingerprint(piece.revision.chunker, analyser=self._rules.analyser, embedder=embedder)

    def _is_made_alike(self, piece: Piece, base: Root | None) -> bool:
        """Return whether a live base was made by the same rules as a piece."""
        return base is not None and not base.deleted and base.fingerprint == self._fingerprint(piece)

    async def _commit(
        self, piece_slice: Slice, passages: Mapping[ChunkId, PassageEmbedding], bases: Bases
    ) -> list[IndexOutcome]:
        """Write and commit a slice; repeat the decision for documents with a concurrent commit of another owner."""
        outcomes: list[IndexOutcome] = []
        while True:
            draft = await self._draft(piece_slice, passages)
            complete = [piece for piece in piece_slice.pieces if piece.complete]
            # Before the check: existing pages stay until a newer revision is committed, which the check would detect.
            found = await self._committer.manifests(complete, draft)
            manifests = {key: manifest for key, manifest in found.items() if manifest is not None}
            same, current = await self._committer.unchanged(
                {piece.root_id: bases.get(piece.root_id) for piece in piece_slice.pieces}
            )
            conflicting = [piece for piece in piece_slice.pieces if piece.root_id not in same]
            open_ = [piece for piece in piece_slice.pieces if piece.root_id in same and not piece.complete]
            await self._committer.mark_checked([page for piece in open_ for page in draft.pages[piece.root_id]])
            ready = [piece for piece in complete if piece.root_id in same and piece.root_id in manifests]
            outcomes += await self._confirm(ready, draft, manifests, bases)
            if conflicting:
                await self._committer.abandon(draft, [piece.root_id for piece in conflicting])
            await self._committer.fail_missing(
                [piece for piece in complete if piece.root_id in same and piece.root_id not in manifests], draft
            )
            if not conflicting:
                return outcomes
            bases, decisions = current, _decisions(conflicting, current)
            ended = [piece for piece in conflicting if decisions[piece.root_id].action is not Action.WRITE]
            outcomes += await self._end([piece for piece in ended if piece.complete], decisions, bases)
            piece_slice = Slice()
            for part in await self._sliced(
                [piece for piece in conflicting if decisions[piece.root_id].action is Action.WRITE], bases
            ):
                piece_slice.take(part)
            if not piece_slice.pieces:
                return outcomes
            passages = await self._vectors.of_slice(piece_slice)

    async def _draft(self, piece_slice: Slice, passages: Mapping[ChunkId, PassageEmbedding]) -> Draft:
        attempt = self._committer.new_attempt()
        written = {**piece_slice.to_embed, **piece_slice.to_copy}
        row_ids = piece_slice.reused | {chunk_id: row_id(chunk_id, attempt) for chunk_id in written}
        rows = [
            chunk_row(
                piece,
                chunk,
                row_id=row_ids[chunk.chunk.chunk_id],
                edition=piece.edition,
                embedder=self._vectors.embedder.of(chunk.chunk.kind).fingerprint,
                match_code=passages[chunk.chunk.chunk_id].match_code,
                analyse_text=self._rules.analyse_text,
            )
            for piece, chunk in written.values()
        ]
        pages = [page for piece in piece_slice.pieces for page in manifest_pages(piece, row_ids, attempt)]
        return await self._committer.write(
            attempt, rows, self._vectors.matrix([passages[chunk_id] for chunk_id in written]), pages
        )

    async def _confirm(
        self, pieces: Sequence[Piece], draft: Draft, manifests: Mapping[RootId, Manifest], bases: Bases
    ) -> list[IndexOutcome]:
        """Commit complete revisions after the check; return their receipts."""
        if not pieces:
            return []
        committed = self._now()
        roots = {
            piece.root_id: live_root(
                piece,
                bases.get(piece.root_id),
                attempt=draft.attempt,
                manifest=manifests[piece.root_id],
                embedder=self._vectors.embedder.fingerprint,
                fingerprint=self._fingerprint(piece),
                searchable_at=committed,
            )
            for piece in pieces
        }
        await self._announce(list(roots.values()), bases)
        await self._committer.commit(list(roots.values()), self._progress.watermarks(pieces, committed))
        searchable_at = self._now()
        swept = await self._committer.sweep(list(roots))
        return [
            self._written(piece, roots[piece.root_id], swept[piece.root_id], bases.get(piece.root_id), searchable_at)
            for piece in pieces
        ]

    async def _announce(self, roots: Sequence[Root], bases: Bases) -> None:
        if self._before_commit is not None:
            await self._before_commit(roots, bases)

    def _written(
        self, piece: Piece, root: Root, swept: SweepResult, base: Root | None, searchable_at: Timestamp
    ) -> IndexOutcome:
        """Return the receipt of a commit: STALE if a newer revision was committed before it."""
        newer = _newer(swept.root, root)
        overtaken = newer is not None
        reason = remark(piece.revision, root.chunks)
        if newer is not None:
            reason = f"version {newer.version} was committed while version {root.version} was written"
        effect = Effect(
            OutcomeStatus.STALE if overtaken else written_status(piece, base),
            chunks=0 if overtaken else root.chunks,
            removed=swept.removed,
            searchable_at=None if overtaken else searchable_at,
            reason=reason,
        )
        return self._receipt(piece, effect)

    async def _end(
        self, pieces: Sequence[Piece], decisions: Mapping[RootId, Decision], bases: Bases
    ) -> list[IndexOutcome]:
        """Finish revisions without chunks to write: deletions, repeats and stale ones; return their receipts."""
        if not pieces:
            return []
        deletions = [piece for piece in pieces if decisions[piece.root_id].action is Action.DELETE]
        roots: list[Root] = []
        committed = self._now()
        if deletions:
            attempt = self._committer.new_attempt()
            roots = [
                dead_root(piece, bases.get(piece.root_id), attempt=attempt, searchable_at=committed)
                for piece in deletions
            ]
            await self._announce(roots, bases)
            await self._committer.commit(roots, self._progress.watermarks(deletions, committed))
        searchable_at = self._now()
        # A crash between commit and sweep leaves orphaned rows; the repeated event sweeps them.
        swept = await self._committer.sweep([piece.root_id for piece in pieces])
        decisions = {**decisions, **_overtaken(roots, swept)}
        return [
            self._ended(
                piece, decisions[piece.root_id], bases.get(piece.root_id), swept[piece.root_id].removed, searchable_at
            )
            for piece in pieces
        ]

    def _ended(
        self, piece: Piece, decision: Decision, base: Root | None, removed: int, searchable_at: Timestamp
    ) -> IndexOutcome:
        effect = Effect(
            ENDED[decision.action],
            chunks=base.chunks if base is not None and decision.action is Action.REPEAT else 0,
            removed=removed,
            searchable_at=ended_at(decision, base, searchable_at),
            reason=decision.reason,
        )
        return self._receipt(piece, effect)

    def _receipt(self, piece: Piece, effect: Effect) -> IndexOutcome:
        return receipt(piece, effect, self._vectors.take_tally(piece), generation=self._rules.generation)


def _decisions(pieces: Sequence[Piece], bases: Bases) -> dict[RootId, Decision]:
    """Return the fence's decision about each piece; the pieces are of different documents."""
    return {
        key: decide(bases.get(key), piece.revision, metadata_hash=piece.metadata_hash, edition=piece.edition)
        for key, piece in by_root(pieces).items()
    }


def _newer(counts: Root | None, root: Root) -> Root | None:
    """Return the standing root if it ranks above a root that was committed."""
    is_newer = counts is not None and (counts.version, counts.deleted) > (root.version, root.deleted)
    return counts if is_newer else None


def _overtaken(deletions: Sequence[Root], swept: Mapping[RootId, SweepResult]) -> dict[RootId, Decision]:
    """Return as stale the deletions whose documents a newer revision keeps; one below another deletion did no less."""
    return {
        root.root_id: Decision(
            Action.STALE, f"version {newer.version} was committed while version {root.version} was deleted"
        )
        for root in deletions
        if (newer := _newer(swept[root.root_id].root, root)) is not None and not newer.deleted
    }


def _urgency(document: Sequence[Slice]) -> tuple[int, int, RootId]:
    """Return the sort key of the parts of a document: priority, then tokens to embed."""
    first = document[0].pieces[0]
    return -first.revision.priority, sum(part.tokens for part in document), first.root_id
