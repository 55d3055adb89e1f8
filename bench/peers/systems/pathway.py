"""Pathway: a stream of documents indexed in Milvus. Updates only.

Its own connector for Milvus needs a licence, so rows are written from `pw.io.subscribe`, as its documentation shows
for other stores: within a time deletions first, then upserts. Sources: pathway.com/developers on Python connectors,
user-defined functions, `pw.io.subscribe` and `pw.io.milvus`.
"""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
import pathway as pw
from langchain_text_splitters import RecursiveCharacterTextSplitter
from pymilvus import DataType, Function, FunctionType, MilvusClient

from bench.peers.job import Document
from bench.peers.rows import stored_rows
from bench.peers.system import (
    DENSE_INDEX,
    LEXICAL_INDEX,
    Hit,
    Leftovers,
    Place,
    compared,
)

COLLECTION = "pathway"
PATIENCE_S = 600.0
_BATCH = 32
_FILLED = 0.77
"""Share of the chunk size that the splitter fills on average, on these sets."""
_REQUEST = 256
"""Number of rows per call to the store."""
_MAX_TEXT = 65_535
_LISTED = 10_000


class _Documents(pw.Schema):
    source: str = pw.column_definition(primary_key=True)
    version: int
    text: str


class _Feed(pw.io.python.ConnectorSubject):
    """Source that commits each given pair of lists; None ends it."""

    def __init__(self, given: "SimpleQueue[tuple[Sequence[Document], Sequence[Document]] | None]") -> None:
        super().__init__(session_type="upsert")
        self._given = given

    def run(self) -> None:
        """Read until None."""
        self._disable_commits()
        while (batch := self._given.get()) is not None:
            changed, gone = batch
            for document in changed:
                self.next(source=document.document_id, version=document.version, text=document.text)
            for document in gone:
                self.delete(source=document.document_id, version=document.version, text=document.text)
            self.commit()


@contextmanager
def open_system(place: Place) -> Iterator["Pathway"]:
    """Run the pipeline on an empty collection."""
    pathway = Pathway(place)
    with pathway.running():
        yield pathway


class Pathway:
    """Pipeline that processes each change as a difference of tables."""

    ways = ()

    def __init__(self, place: Place) -> None:
        self._models = place.models
        self._client = MilvusClient(place.store_uri)
        self._create()
        size, overlap = place.splitting(filled=_FILLED)
        self._splitter = RecursiveCharacterTextSplitter(
            chunk_size=size, chunk_overlap=overlap, length_function=place.models.count_tokens
        )
        self._given: SimpleQueue[tuple[Sequence[Document], Sequence[Document]] | None] = SimpleQueue()
        self._known: dict[str, Document] = {}
        self._changes: list[tuple[bool, dict[str, Any]]] = []
        self._news = threading.Condition()
        self._seen: dict[str, int] = {}
        self._seen_at = 0
        self._closed_at = -1
        self._failure: BaseException | None = None

    @property
    def embedded(self) -> int:
        """Number of document texts embedded so far."""
        return self._models.embedded

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the pipeline in a thread."""
        self._lay_out()
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._given.put(None)
            thread.join(PATIENCE_S)

    def ingest(self, documents: Sequence[Document]) -> None:
        """Feed documents and wait until their rows are written."""
        self.update(documents, (), documents)

    def update(
        self,
        changed: Sequence[Document],
        gone: Sequence[str],
        current: Sequence[Document],  # noqa: ARG002 - it only needs the changes
    ) -> None:
        """Feed upserts and deletions."""
        self._given.put((changed, [self._known.pop(name) for name in gone]))
        self._known |= {document.document_id: document for document in changed}
        wanted = {name: document.version for name, document in self._known.items()}
        with self._news:
            done = self._news.wait_for(lambda: self._failure or self._is_at(wanted), PATIENCE_S)
        if self._failure or not done:
            raise RuntimeError(f"the pipeline did not come to an end: {self._failure}")

    def search(self, question: str, *, way: str) -> list[Hit]:
        """Not measured: search is left to the store."""
        raise NotImplementedError

    def within(self, question: str, document_id: str) -> list[str]:  # noqa: ARG002 - it reads all of the document
        """Return the rows of one document."""
        rows = self._client.query(
            COLLECTION, filter=f'source == "{document_id}"', output_fields=["text"], limit=_LISTED
        )
        return [row["text"] for row in rows]

    def leftovers(self, current: Sequence[Document]) -> Leftovers:
        """Compare the store with the live revisions."""
        expected = {
            (document.document_id, text) for document in current for text in self._splitter.split_text(document.text)
        }
        return compared(stored_rows(self._client, COLLECTION, source="source", text="text"), expected)

    def _lay_out(self) -> None:
        @pw.udf(deterministic=True)
        def split(text: str) -> list[str]:
            return self._splitter.split_text(text)

        # Not declared deterministic, like its own embedders: vectors are then kept for the deletion of their rows.
        @pw.udf(max_batch_size=_BATCH)
        def embed(texts: list[str]) -> list[np.ndarray]:
            return [np.array(vector, np.float32) for vector in self._models.embed_passages(texts)]

        @pw.udf(deterministic=True)
        def identify(source: str, text: str) -> str:
            return hashlib.sha256(f"{source}\n{text}".encode()).hexdigest()

        documents = pw.io.python.read(_Feed(self._given), schema=_Documents, autocommit_duration_ms=None)
        chunks = documents.select(pw.this.source, text=split(pw.this.text)).flatten(pw.this.text)
        # The same text twice in a document is one row.
        distinct = chunks.groupby(pw.this.source, pw.this.text).reduce(pw.this.source, pw.this.text)
        rows = distinct.select(
            pw.this.source,
            pw.this.text,
            chunk_id=identify(pw.this.source, pw.this.text),
            dense=embed(pw.this.text),
        )
        pw.io.subscribe(documents, on_change=self._on_document)
        pw.io.subscribe(rows, on_change=self._on_row, on_time_end=self._on_time_end)

    def _run(self) -> None:
        try:
            pw.run(monitoring_level=pw.MonitoringLevel.NONE)
        except BaseException as error:  # noqa: BLE001 - passed to the waiting thread
            with self._news:
                self._failure = error
                self._news.notify_all()

    def _on_document(self, key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002, FBT001
        with self._news:
            if is_addition:
                self._seen[row["source"]] = row["version"]
            elif self._seen.get(row["source"]) == row["version"]:
                del self._seen[row["source"]]
            self._seen_at = max(self._seen_at, time)

    def _on_row(self, key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG002, FBT001
        self._changes.append((is_addition, row))

    def _on_time_end(self, time: int) -> None:
        removed = [row["chunk_id"] for is_addition, row in self._changes if not is_addition]
        added = [{**row, "dense": row["dense"].tolist()} for is_addition, row in self._changes if is_addition]
        self._changes.clear()
        for first in range(0, len(removed), _REQUEST):
            self._client.delete(COLLECTION, ids=removed[first : first + _REQUEST])
        for first in range(0, len(added), _REQUEST):
            self._client.upsert(COLLECTION, added[first : first + _REQUEST])
        with self._news:
            self._closed_at = time
            self._news.notify_all()

    def _is_at(self, wanted: dict[str, int]) -> bool:
        return self._seen == wanted and self._closed_at >= self._seen_at

    def _create(self) -> None:
        schema = self._client.create_schema(auto_id=False)
        schema.add_field("chunk_id", DataType.VARCHAR, is_primary=True, max_length=64)
        schema.add_field("source", DataType.VARCHAR, max_length=1024)
        schema.add_field("text", DataType.VARCHAR, max_length=_MAX_TEXT, enable_analyzer=True)
        schema.add_field("dense", DataType.FLOAT_VECTOR, dim=self._models.dim)
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            Function(
                name="bm25", function_type=FunctionType.BM25, input_field_names=["text"], output_field_names=["sparse"]
            )
        )
        indexes = self._client.prepare_index_params()
        indexes.add_index("dense", **DENSE_INDEX)
        indexes.add_index("sparse", **LEXICAL_INDEX)
        self._client.create_collection(COLLECTION, schema=schema, index_params=indexes)
