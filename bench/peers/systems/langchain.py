"""LangChain: indexing API over Milvus, its hybrid search, reranking by compression; the ensemble retriever beside it.

Sources: docs.langchain.com on the indexing API, the Milvus integration and the ensemble retriever; milvus.io on hybrid
search with LangChain.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from langchain_classic.indexes import SQLRecordManager, index
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.documents import Document as Chunk
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_milvus import BM25BuiltInFunction, Milvus
from langchain_text_splitters import RecursiveCharacterTextSplitter
from pydantic import ConfigDict

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

COLLECTION = "langchain"
HYBRID, RERANKED, ENSEMBLE, ENSEMBLE_RERANKED = "hybrid", "reranked", "ensemble", "ensemble, reranked"
_RRF_K = 60
_FILLED = 0.77
"""Share of the chunk size that its splitter fills on average, on these sets."""


@contextmanager
def open_system(place: Place) -> Iterator["LangChain"]:
    """Open an empty index whose edits are cleaned up batch by batch."""
    yield LangChain(place, cleanup="incremental")


class E5Embeddings(Embeddings):
    """Freki's embedder for LangChain."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        return self._models.embed_passages(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return self._models.embed_query(text)


class FrekiRerank(BaseDocumentCompressor):
    """Freki's reranker for LangChain: hits arrive without scores, so their order replaces these."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    models: Models
    top_n: int = HITS

    def compress_documents(
        self,
        documents: Sequence[Chunk],
        query: str,
        callbacks: Callbacks | None = None,  # noqa: ARG002 - the interface
    ) -> Sequence[Chunk]:
        """Reorder hits."""
        candidates = [
            Candidate(
                text=chunk.page_content,
                title=chunk.metadata["title"],
                language=chunk.metadata["language"],
                score=1 / (_RRF_K + rank),
            )
            # An ensemble returns the union of its retrievers' hits.
            for rank, chunk in enumerate(documents[:CANDIDATES], start=1)
        ]
        scores = self.models.rerank(query, candidates)
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        return [documents[place] for place in order[: self.top_n]]


class LangChain:
    """Detects changed chunks by hash, kept by a record manager beside the store."""

    ways = (HYBRID, RERANKED, ENSEMBLE, ENSEMBLE_RERANKED)

    def __init__(self, place: Place, *, cleanup: str) -> None:
        self._cleanup = cleanup
        self._models = place.models
        self._connection = {"uri": place.store_uri}
        size, overlap = place.splitting(filled=_FILLED)
        self._splitter = RecursiveCharacterTextSplitter(
            chunk_size=size, chunk_overlap=overlap, length_function=place.models.count_tokens
        )
        self._records = SQLRecordManager(f"milvus/{COLLECTION}", db_url=f"sqlite:///{place.directory}/records.db")
        self._records.create_schema()
        self._store = Milvus(
            embedding_function=E5Embeddings(place.models),
            builtin_function=BM25BuiltInFunction(),
            vector_field=["dense", "sparse"],
            index_params=[DENSE_INDEX, LEXICAL_INDEX],
            collection_name=COLLECTION,
            connection_args=self._connection,
        )
        self._retrievers: dict[str, BaseRetriever] = {}

    @property
    def embedded(self) -> int:
        """Number of document texts embedded so far."""
        return self._models.embedded

    def ingest(self, documents: Sequence[Document]) -> None:
        """Index documents for the first time."""
        self._index(documents, cleanup=self._cleanup)

    def update(self, changed: Sequence[Document], gone: Sequence[str], current: Sequence[Document]) -> None:
        """Index changed documents for edits, all live ones for deletions: only `full` removes documents not given."""
        if changed:
            self._index(changed, cleanup=self._cleanup)
        if gone:
            self._index(current, cleanup="full")

    def search(self, question: str, *, way: str) -> list[Hit]:
        """Return the best hits."""
        if not self._retrievers:
            self._retrievers = self._made()
        found = self._retrievers[way].invoke(question)
        return [Hit(document_id=chunk.metadata["source"], text=chunk.page_content) for chunk in found[:HITS]]

    def within(self, question: str, document_id: str) -> list[str]:
        """Search one document."""
        only = {**_HYBRID, "k": HITS, "expr": f'source == "{document_id}"'}
        return [chunk.page_content for chunk in self._store.similarity_search(question, **only)]

    def leftovers(self, current: Sequence[Document]) -> Leftovers:
        """Compare the store with the live revisions."""
        expected = {(chunk.metadata["source"], chunk.page_content) for chunk in self._split(current)}
        return compared(stored_rows(self._store.client, COLLECTION, source="source", text="text"), expected)

    def _index(self, documents: Sequence[Document], *, cleanup: str) -> None:
        index(
            self._split(documents),
            self._records,
            self._store,
            cleanup=cleanup,
            source_id_key="source",
            key_encoder="sha256",
        )

    def _split(self, documents: Sequence[Document]) -> list[Chunk]:
        return self._splitter.split_documents(
            [
                Chunk(
                    page_content=document.text,
                    metadata={
                        "source": document.document_id,
                        "title": document.title,
                        "language": document.language,
                    },
                )
                for document in documents
            ]
        )

    def _made(self) -> dict[str, BaseRetriever]:
        """Return the retrievers; the ensemble reads all chunks into memory and misses later changes."""
        hybrid = self._store.as_retriever(search_kwargs=_HYBRID)
        rows = stored_rows(self._store.client, COLLECTION, source="source", text="text", others=("title", "language"))
        chunks = [
            Chunk(page_content=text, metadata={"source": source, "title": title, "language": language})
            for source, text, title, language in rows
        ]
        lexical = BM25Retriever.from_documents(chunks, k=CANDIDATES)
        dense = Milvus(
            embedding_function=E5Embeddings(self._models),
            vector_field="dense",
            collection_name=COLLECTION,
            connection_args=self._connection,
        ).as_retriever(search_kwargs={"k": CANDIDATES})
        ensemble = EnsembleRetriever(retrievers=[lexical, dense], weights=[0.5, 0.5])
        compressor = FrekiRerank(models=self._models)
        return {
            HYBRID: hybrid,
            RERANKED: ContextualCompressionRetriever(base_compressor=compressor, base_retriever=hybrid),
            ENSEMBLE: ensemble,
            ENSEMBLE_RERANKED: ContextualCompressionRetriever(base_compressor=compressor, base_retriever=ensemble),
        }


_HYBRID = {
    "k": CANDIDATES,
    "fetch_k": CANDIDATES,
    # Deprecated for a `Function`, which needs Milvus 2.6.
    "ranker_type": "rrf",
    "ranker_params": {"k": _RRF_K},
}
