"""Haystack: indexing and query pipelines over Milvus, with its hybrid retriever or a joiner, and a final ranker.

Sources: docs.haystack.deepset.ai on document splitter, writer, joiner and rankers; the README of milvus-haystack.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from haystack import Document as Chunk
from haystack import Pipeline, component
from haystack.components.joiners import DocumentJoiner
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.writers import DocumentWriter
from haystack.document_stores.types import DuplicatePolicy
from milvus_haystack import (
    MilvusDocumentStore,
    MilvusEmbeddingRetriever,
    MilvusHybridRetriever,
    MilvusSparseEmbeddingRetriever,
)
from milvus_haystack.function import BM25BuiltInFunction

from bench.peers.job import Document
from bench.peers.models import Candidate, Models
from bench.peers.rows import stored_rows
from bench.peers.system import (
    CANDIDATES,
    DENSE_INDEX,
    HITS,
    LEXICAL_INDEX,
    Hit,
    Leftovers,
    Place,
    compared,
)

COLLECTION = "haystack"
HYBRID, RERANKED, JOINED, JOINED_RERANKED = "hybrid", "reranked", "joined", "joined, reranked"
_TOKENS_OF_A_WORD = 1.6
"""Tokens of the embedder per word, on English and German texts: the splitter's token counter needs a download."""
_FILLED = 0.95
"""Share of the chunk size that its splitter fills on average, on these sets."""
_BATCH = 32
"""Batch size of Haystack's own embedders."""


@contextmanager
def open_system(place: Place) -> Iterator["Haystack"]:
    """Open an empty index, from which chunks of former revisions are deleted."""
    yield Haystack(place, delete_first=True)


@component
class PassageEmbedder:
    """Freki's embedder for Haystack; embeds the title too, as Haystack's embedders can with metadata."""

    def __init__(self, models: Models) -> None:
        self._models = models

    @component.output_types(documents=list[Chunk])
    def run(self, documents: list[Chunk]) -> dict[str, list[Chunk]]:
        """Add vectors to chunks."""
        embedded: list[Chunk] = []
        for first in range(0, len(documents), _BATCH):
            batch = documents[first : first + _BATCH]
            vectors = self._models.embed_passages([f"{chunk.meta['title']}\n{chunk.content}" for chunk in batch])
            embedded += (replace(chunk, embedding=vector) for chunk, vector in zip(batch, vectors, strict=True))
        return {"documents": embedded}


@component
class QueryEmbedder:
    """Freki's embedder for questions."""

    def __init__(self, models: Models) -> None:
        self._models = models

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Embed a question."""
        return {"embedding": self._models.embed_query(text)}


@component
class FrekiRanker:
    """Freki's reranker for Haystack."""

    def __init__(self, models: Models, top_k: int = HITS) -> None:
        self._models = models
        self._top_k = top_k

    @component.output_types(documents=list[Chunk])
    def run(self, query: str, documents: list[Chunk]) -> dict[str, list[Chunk]]:
        """Reorder hits."""
        candidates = [
            Candidate(
                text=chunk.content or "",
                title=chunk.meta["title"],
                language=chunk.meta["language"],
                score=chunk.score or 0.0,
            )
            for chunk in documents[:CANDIDATES]
        ]
        scores = self._models.rerank(query, candidates)
        order = sorted(range(len(candidates)), key=lambda place: -scores[place])
        return {"documents": [documents[place] for place in order[: self._top_k]]}


class Haystack:
    """Keeps no record of indexed documents: an update must first delete the chunks of the former revision."""

    ways = (HYBRID, RERANKED, JOINED, JOINED_RERANKED)

    def __init__(self, place: Place, *, delete_first: bool) -> None:
        self._models = place.models
        self._delete_first = delete_first
        self._store = MilvusDocumentStore(
            collection_name=COLLECTION,
            connection_args={"uri": place.store_uri},
            index_params=DENSE_INDEX,
            sparse_vector_field="sparse_vector",
            sparse_index_params=LEXICAL_INDEX,
            builtin_function=[BM25BuiltInFunction(input_field_names="text", output_field_names="sparse_vector")],
        )
        size, overlap = place.splitting(filled=_FILLED)
        self._splitter = DocumentSplitter(
            split_by="word",
            split_length=round(size / _TOKENS_OF_A_WORD),
            split_overlap=round(overlap / _TOKENS_OF_A_WORD),
        )
        self._indexing = Pipeline()
        self._indexing.add_component("splitter", self._splitter)
        self._indexing.add_component("embedder", PassageEmbedder(place.models))
        self._indexing.add_component("writer", DocumentWriter(self._store, policy=DuplicatePolicy.OVERWRITE))
        self._indexing.connect("splitter", "embedder")
        self._indexing.connect("embedder", "writer")
        self._querying = {way: self._pipeline(way) for way in self.ways}
        self._hybrid = MilvusHybridRetriever(self._store, top_k=HITS)

    @property
    def embedded(self) -> int:
        """Number of document texts embedded so far."""
        return self._models.embedded

    def ingest(self, documents: Sequence[Document]) -> None:
        """Index documents for the first time."""
        self._indexing.run({"splitter": {"documents": _sources(documents)}})

    def update(
        self,
        changed: Sequence[Document],
        gone: Sequence[str],
        current: Sequence[Document],  # noqa: ARG002 - it looks only at what changed
    ) -> None:
        """Replace the chunks of changed documents, delete those of deleted ones."""
        replaced = [document.document_id for document in changed] if self._delete_first else []
        for name in [*replaced, *gone]:
            filters = {"field": "meta.source", "operator": "==", "value": name}
            if stale := self._store.filter_documents(filters):
                self._store.delete_documents([chunk.id for chunk in stale])
        if changed:
            self.ingest(changed)

    def search(self, question: str, *, way: str) -> list[Hit]:
        """Return the best hits."""
        inputs: dict[str, dict[str, Any]] = {"embedder": {"text": question}}
        lexical = "lexical" if way in {JOINED, JOINED_RERANKED} else "retriever"
        inputs[lexical] = {"query_text": question}
        if way in {RERANKED, JOINED_RERANKED}:
            inputs["ranker"] = {"query": question}
        (outcome,) = self._querying[way].run(inputs).values()
        return [Hit(document_id=chunk.meta["source"], text=chunk.content) for chunk in outcome["documents"][:HITS]]

    def within(self, question: str, document_id: str) -> list[str]:
        """Search one document."""
        found = self._hybrid.run(
            query_embedding=self._models.embed_query(question),
            query_text=question,
            filters={"field": "meta.source", "operator": "==", "value": document_id},
        )
        return [chunk.content for chunk in found["documents"]]

    def leftovers(self, current: Sequence[Document]) -> Leftovers:
        """Compare the store with the live revisions."""
        chunks = self._splitter.run(_sources(current))["documents"]
        expected = ((chunk.meta["source"], chunk.content) for chunk in chunks)
        return compared(stored_rows(self._store.client, COLLECTION, source="source", text="text"), expected)

    def _pipeline(self, way: str) -> Pipeline:
        pipeline = Pipeline()
        pipeline.add_component("embedder", QueryEmbedder(self._models))
        if way in {JOINED, JOINED_RERANKED}:
            pipeline.add_component("dense", MilvusEmbeddingRetriever(self._store, top_k=CANDIDATES))
            pipeline.add_component("lexical", MilvusSparseEmbeddingRetriever(self._store, top_k=CANDIDATES))
            pipeline.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=CANDIDATES))
            pipeline.connect("embedder.embedding", "dense.query_embedding")
            pipeline.connect("dense", "joiner")
            pipeline.connect("lexical", "joiner")
            last = "joiner"
        else:
            pipeline.add_component("retriever", MilvusHybridRetriever(self._store, top_k=CANDIDATES))
            pipeline.connect("embedder.embedding", "retriever.query_embedding")
            last = "retriever"
        if way in {RERANKED, JOINED_RERANKED}:
            pipeline.add_component("ranker", FrekiRanker(self._models))
            pipeline.connect(f"{last}.documents", "ranker.documents")
        return pipeline


def _sources(documents: Sequence[Document]) -> list[Chunk]:
    return [
        Chunk(
            content=document.text,
            meta={"source": document.document_id, "title": document.title, "language": document.language},
        )
        for document in documents
    ]
