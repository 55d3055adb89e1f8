"""LlamaIndex: ingestion pipeline with document store over Milvus, its hybrid search, reranking as a postprocessor.

Sources: developers.llamaindex.ai on document management in the ingestion pipeline, Milvus with hybrid search, and node
postprocessors.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llama_index.core import Document as Source
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters
from llama_index.vector_stores.milvus import MilvusVectorStore
from llama_index.vector_stores.milvus.utils import BM25BuiltInFunction
from pydantic import ConfigDict, PrivateAttr

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

COLLECTION = "llamaindex"
HYBRID, RERANKED = "hybrid", "reranked"
_FILLED = 0.82
"""Share of the chunk size that its splitter fills on average, on these sets."""


@contextmanager
def open_system(place: Place) -> Iterator["LlamaIndex"]:
    """Open an empty index."""
    yield LlamaIndex(place)


class E5Embedding(BaseEmbedding):
    """Freki's embedder for LlamaIndex, with LlamaIndex' default batch size."""

    _models: Models = PrivateAttr()

    def __init__(self, models: Models) -> None:
        super().__init__(model_name="multilingual-e5-small")
        self._models = models

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._models.embed_query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._models.embed_query(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._models.embed_passages([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._models.embed_passages(texts)


class FrekiRerank(BaseNodePostprocessor):
    """Freki's reranker for LlamaIndex."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    models: Models
    top_n: int = HITS

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            return nodes
        candidates = [
            Candidate(
                text=each.node.get_content(metadata_mode=MetadataMode.NONE),
                title=each.node.metadata["title"],
                language=each.node.metadata["language"],
                score=each.score or 0.0,
            )
            for each in nodes
        ]
        for each, score in zip(nodes, self.models.rerank(query_bundle.query_str, candidates), strict=True):
            each.score = score
        return sorted(nodes, key=lambda each: -(each.score or 0.0))[: self.top_n]


class LlamaIndex:
    """Detects changed documents by hash, kept in a document store."""

    ways = (HYBRID, RERANKED)

    def __init__(self, place: Place) -> None:
        self._models = place.models
        embedding = E5Embedding(place.models)
        self._store = MilvusVectorStore(
            uri=place.store_uri,
            collection_name=COLLECTION,
            dim=place.models.dim,
            similarity_metric="COSINE",
            index_config=DENSE_INDEX,
            enable_sparse=True,
            sparse_embedding_function=BM25BuiltInFunction(),
            sparse_index_config=LEXICAL_INDEX,
            hybrid_ranker="RRFRanker",
            hybrid_ranker_params={"k": 60},
            # Its asynchronous client needs a running loop, and none is used here.
            use_async_client=False,
        )
        size, overlap = place.splitting(filled=_FILLED)
        self._splitter = SentenceSplitter(chunk_size=size, chunk_overlap=overlap, tokenizer=place.models.tokens)
        self._pipeline = IngestionPipeline(
            transformations=[self._splitter, embedding],
            vector_store=self._store,
            docstore=SimpleDocumentStore(),
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
        )
        self._index = VectorStoreIndex.from_vector_store(self._store, embed_model=embedding)
        self._retriever = self._index.as_retriever(vector_store_query_mode="hybrid", similarity_top_k=CANDIDATES)
        self._reranker = FrekiRerank(models=place.models)

    @property
    def embedded(self) -> int:
        """Number of document texts embedded so far."""
        return self._models.embedded

    def ingest(self, documents: Sequence[Document]) -> None:
        """Index documents for the first time."""
        self._pipeline.run(documents=_sources(documents))

    def update(
        self,
        changed: Sequence[Document],  # noqa: ARG002 - it detects changes itself
        gone: Sequence[str],  # noqa: ARG002
        current: Sequence[Document],
    ) -> None:
        """Index all live documents: missing ones are deleted, those with another hash replaced."""
        self._pipeline.run(documents=_sources(current))

    def search(self, question: str, *, way: str) -> list[Hit]:
        """Return the best hits."""
        nodes = self._retriever.retrieve(question)
        if way == RERANKED:
            nodes = self._reranker.postprocess_nodes(nodes, query_str=question)
        return [Hit(document_id=each.node.ref_doc_id or "", text=each.node.get_content()) for each in nodes[:HITS]]

    def within(self, question: str, document_id: str) -> list[str]:
        """Search one document."""
        retriever = self._index.as_retriever(
            vector_store_query_mode="hybrid",
            similarity_top_k=HITS,
            filters=MetadataFilters(filters=[MetadataFilter(key="source", value=document_id)]),
        )
        return [each.node.get_content() for each in retriever.retrieve(question)]

    def leftovers(self, current: Sequence[Document]) -> Leftovers:
        """Compare the store with the live revisions."""
        nodes = self._splitter.get_nodes_from_documents(_sources(current))
        expected = ((node.ref_doc_id or "", node.get_content()) for node in nodes)
        return compared(stored_rows(self._store.client, COLLECTION, source="doc_id", text="text"), expected)


def _sources(documents: Sequence[Document]) -> list[Source]:
    return [
        Source(
            id_=document.document_id,
            text=document.text,
            metadata={"source": document.document_id, "title": document.title, "language": document.language},
            excluded_embed_metadata_keys=["source", "language"],
            excluded_llm_metadata_keys=["source", "language"],
        )
        for document in documents
    ]
