"""CocoIndex: a folder of files indexed in a LanceDB table, as it has no connector for Milvus. Updates only.

Sources: cocoindex.io/docs on apps, functions and the LanceDB connector.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import cocoindex as coco
import numpy as np
from cocoindex.connectors import lancedb, localfs
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.chunk import Chunk
from cocoindex.resources.file import FileLike
from cocoindex.resources.id import IdGenerator
from cocoindex.resources.schema import VectorSchema
from lancedb import connect
from numpy.typing import NDArray

from bench.peers.job import Document
from bench.peers.models import Models
from bench.peers.system import Hit, Leftovers, Place, compared

TABLE = "chunks"
_BYTES_OF_A_TOKEN = 3.5
"""Bytes per token of the embedder on English texts with markup: the splitter counts bytes."""
_FILLED = 0.73
"""Share of the chunk size that its splitter fills on average, on these sets."""
_ALL = 1_000_000
_BATCH = 64
"""Batch size of CocoIndex' own embedder."""


class Embedder:
    """Freki's embedder for CocoIndex: single texts are batched, results are memoised."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def __coco_memo_key__(self) -> str:
        """Return the memoisation key of this model."""
        return self._models.embedder.fingerprint

    async def __coco_vector_schema__(self) -> VectorSchema:
        """Return the schema of the vector column."""
        return VectorSchema(dtype=np.dtype(np.float32), size=self._models.dim)

    @coco.fn(memo=True)
    async def embed(self, text: str) -> NDArray[np.float32]:
        """Embed a text."""
        vector: NDArray[np.float32] = await self._embed(text)
        return vector

    @coco.fn.as_async(batching=True, max_batch_size=_BATCH)
    def _embed(self, texts: list[str]) -> list[NDArray[np.float32]]:
        return [np.array(vector, np.float32) for vector in self._models.embed_passages(texts)]


DATABASE = coco.ContextKey[lancedb.LanceAsyncConnection]("database")
EMBEDDER = coco.ContextKey[Embedder]("embedder", detect_change=True)
_SPLITTER = RecursiveSplitter()


@dataclass
class Row:
    """Chunk in the table."""

    id: int
    source: str
    text: str
    embedding: Annotated[NDArray[np.float32], EMBEDDER]


@dataclass(frozen=True)
class Splitting:
    """Splitter of files."""

    size: int
    overlap: int
    """Size and overlap are in bytes."""

    def __call__(self, text: str) -> list[Chunk]:
        """Split a text."""
        return _SPLITTER.split(text, chunk_size=self.size, chunk_overlap=self.overlap, language="markdown")


@coco.fn
async def _store_chunk(chunk: Chunk, source: str, ids: IdGenerator, table: lancedb.TableTarget[Row]) -> None:
    table.declare_row(
        row=Row(
            id=await ids.next_id(chunk.text),
            source=source,
            text=chunk.text,
            embedding=await coco.use_context(EMBEDDER).embed(chunk.text),
        )
    )


@coco.fn(memo=True)
async def _store_file(file: FileLike, split: Splitting, table: lancedb.TableTarget[Row]) -> None:
    chunks = split(await file.read_text())
    await coco.map(_store_chunk, chunks, str(file.file_path.path), IdGenerator(), table)


@coco.fn
async def _keep_true(folder: Path, split: Splitting) -> None:
    schema = await lancedb.TableSchema.from_class(Row, primary_key=["id"])
    table = await lancedb.mount_table_target(DATABASE, TABLE, schema)
    files = localfs.walk_dir(folder, recursive=True)
    await coco.mount_each(_store_file, files.items(), split, table)


@contextmanager
def open_system(place: Place) -> Iterator["CocoIndex"]:
    """Open an empty table over an empty folder."""
    database = place.directory / "lancedb"
    folder = place.directory / "documents"
    folder.mkdir()

    @coco.lifespan
    async def _provide(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
        builder.settings.db_path = place.directory / "cocoindex"
        builder.provide(DATABASE, await lancedb.connect_async(str(database)))
        builder.provide(EMBEDDER, Embedder(place.models))
        yield

    size, overlap = (round(tokens * _BYTES_OF_A_TOKEN) for tokens in place.splitting(filled=_FILLED))
    yield CocoIndex(place.models, Splitting(size, overlap), folder, database)


class CocoIndex:
    """Detects changed files by content; memoised results are stored beside the table."""

    ways = ()

    def __init__(self, models: Models, split: Splitting, folder: Path, database: Path) -> None:
        self._models = models
        self._split = split
        self._folder = folder
        self._app = coco.App("documents", _keep_true, folder=folder, split=split)
        self._database = connect(database, read_consistency_interval=timedelta(0))

    @property
    def embedded(self) -> int:
        """Number of document texts embedded so far."""
        return self._models.embedded

    def ingest(self, documents: Sequence[Document]) -> None:
        """Write files and run the app."""
        self.update(documents, (), documents)

    def update(
        self,
        changed: Sequence[Document],
        gone: Sequence[str],
        current: Sequence[Document],  # noqa: ARG002 - it looks at the folder
    ) -> None:
        """Write and remove files and run the app."""
        for document in changed:
            file = self._folder / document.document_id
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(document.text, encoding="utf-8")
        for name in gone:
            (self._folder / name).unlink()
        self._app.update_blocking()

    def search(self, question: str, *, way: str) -> list[Hit]:
        """Not measured: search is left to the store."""
        raise NotImplementedError

    def within(self, question: str, document_id: str) -> list[str]:  # noqa: ARG002 - it reads all of the document
        """Return the rows of one document."""
        return [text for source, text in self._rows() if source == document_id]

    def leftovers(self, current: Sequence[Document]) -> Leftovers:
        """Compare the table with the live revisions."""
        expected = ((document.document_id, chunk.text) for document in current for chunk in self._split(document.text))
        return compared(self._rows(), expected)

    def _rows(self) -> list[tuple[str, str]]:
        columns = self._database.open_table(TABLE).search().select(["source", "text"]).limit(_ALL).to_arrow()
        sources = (source.removeprefix(f"{self._folder}/") for source in columns["source"].to_pylist())
        return list(zip(sources, columns["text"].to_pylist(), strict=True))
