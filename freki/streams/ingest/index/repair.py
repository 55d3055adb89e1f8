"""Repair of live revisions: renew chunks with another context, and restore lost rows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from freki.schemas import ChunkId, ContextualChunk, RootId
from freki.schemas.embeddings import PassageEmbedding
from freki.schemas.index import Attempt, IndexedChunk, ManifestPage, PageId, Root, RowId, places_in, row_id
from freki.streams.deliver.lanes import Lane
from freki.streams.ingest.index.commit import Committer
from freki.streams.ingest.index.pieces import Chunks, Piece, Slice, packed
from freki.streams.ingest.index.records import chunk_row
from freki.streams.ingest.index.vectors import ChunkVectors
from freki.streams.ports import AnalyseText, Store

Turn = Callable[[Lane, int], AbstractAsyncContextManager[None]]
"""Turn of a lane to embed so many tokens."""


class Repair:
    """Writer of further editions of a version, in which some rows are new and the others are kept."""

    def __init__(
        self,
        *,
        store: Store,
        vectors: ChunkVectors,
        committer: Committer,
        analyse_text: AnalyseText,
        slice_tokens: int,
        turn: Turn,
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._committer = committer
        self._analyse_text = analyse_text
        self._slice_tokens = slice_tokens
        self._turn = turn

    async def __call__(
        self, pieces: Sequence[Piece], bases: Mapping[RootId, Root], lane: Lane, *, alike: Collection[RootId]
    ) -> None:
        """Rewrite outdated and lost rows of live revisions.

        alike: documents whose base was made by the same rules; only they get other contexts.
        """
        outdated = await self._outdated(pieces, bases, alike)
        slices = packed((Slice(to_embed={key: chunk}) for key, chunk in outdated.items()), self._slice_tokens)
        for outdated_slice in slices:
            async with self._turn(lane, outdated_slice.tokens):
                passages = await self._vectors.of_chunks(outdated_slice.to_embed)
            await self._write(outdated_slice.to_embed, passages)

    async def _outdated(
        self, pieces: Sequence[Piece], bases: Mapping[RootId, Root], alike: Collection[RootId]
    ) -> Chunks:
        """Return the chunks of the live manifest whose row is lost or has another context.

        Chunks outside the manifest, of a repeated revision that was split differently, are ignored.
        """
        chunks = {chunk.chunk.chunk_id: (piece, chunk) for piece in pieces for chunk in piece.chunks}
        if not chunks:
            return {}
        roots = [bases[piece.root_id] for piece in pieces]
        naming = await self._store.naming([root.root_id for root in roots], list(chunks))
        named = {key: place.row_id for root in roots for key, place in places_in(root, naming, chunks).items()}
        stored = await self._store.stored(list(named))
        rows = {row.row_id: row for of_chunk in stored.values() for row in of_chunk}
        return {
            chunk_id: chunks[chunk_id]
            for chunk_id, live in named.items()
            if live not in rows
            or (
                chunks[chunk_id][0].root_id in alike
                and chunks[chunk_id][1].context_key
                and not self._vectors.fits(rows[live], chunks[chunk_id][1])
            )
        }

    async def _write(self, chunks: Chunks, passages: Mapping[ChunkId, PassageEmbedding]) -> None:
        """Commit an edition with new rows for these chunks, unless a newer root is committed meanwhile."""
        attempt = self._committer.new_attempt()
        bases = await self._committer.look_up({piece.root_id for piece, _ in chunks.values()})
        versions = {piece.root_id: piece.revision.version for piece, _ in chunks.values()}
        live = {key: base for key, base in bases.items() if not base.deleted and base.version == versions[key]}
        naming = await self._store.naming(list(live), list(chunks))
        # All pages: a concurrent edition's sweep would delete pages shared by both editions.
        read = await self._store.pages([page_id for base in live.values() for page_id in base.pages])
        new_rows = {
            chunk_id: row_id(chunk_id, attempt)
            for root in live.values()
            for chunk_id in places_in(root, naming, chunks)
        }
        pages = {
            old: replace(
                page,
                edition=live[page.root_id].edition + 1,
                attempt=attempt,
                entries=tuple(
                    replace(entry, row_id=new_rows.get(entry.chunk_id, entry.row_id)) for entry in page.entries
                ),
            )
            for old, page in read.items()
        }
        rows = [
            self._row(*chunks[chunk_id], new=new, match_code=passages[chunk_id].match_code, live=live)
            for chunk_id, new in new_rows.items()
        ]
        draft = await self._committer.write(
            attempt, rows, self._vectors.matrix([passages[row.chunk_id] for row in rows]), list(pages.values())
        )
        same, _ = await self._committer.unchanged(dict(live))
        await self._committer.abandon(draft, live.keys() - same)
        if same:
            await self._committer.commit([_edition(live[key], pages, attempt) for key in sorted(same)])
            await self._committer.sweep(sorted(same))

    def _row(
        self, piece: Piece, chunk: ContextualChunk, *, new: RowId, match_code: str, live: Mapping[RootId, Root]
    ) -> IndexedChunk:
        return chunk_row(
            piece,
            chunk,
            row_id=new,
            edition=live[piece.root_id].edition + 1,
            embedder=self._vectors.embedder.of(chunk.chunk.kind).fingerprint,
            match_code=match_code,
            analyse_text=self._analyse_text,
        )


def _edition(base: Root, replacements: Mapping[PageId, ManifestPage], attempt: Attempt) -> Root:
    """Return the root of the next edition, with pages replaced; lost pages stay listed, because none replaces them."""
    pages = tuple(replacements[page_id].page_id if page_id in replacements else page_id for page_id in base.pages)
    return replace(base, edition=base.edition + 1, attempt=attempt, pages=pages)
