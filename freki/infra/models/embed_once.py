"""Vectors of texts that never change, kept in a file from one start of a worker to the next."""

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np

from freki.schemas.arrays import Floats
from freki.schemas.embeddings import Embeddings


class QueryEmbedder(Protocol):
    """The part of an embedder that embeds queries."""

    @property
    def fingerprint(self) -> str:
        """Name, version and precision."""

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        """Embed queries."""


async def embed_once(embedder: QueryEmbedder, texts: Sequence[str], directory: Path) -> Floats:
    """Return the vectors of queries, (texts, dim), from a file in the directory; embed them where it has none of them.

    A directory that cannot be written makes no difference but time: the next start embeds them again.
    """
    made_of = json.dumps([embedder.fingerprint, *texts])
    path = directory / f"queries-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.npy"
    kept = await asyncio.to_thread(_read, path, len(texts))
    if kept is not None:
        return kept
    vectors = (await embedder.embed_queries(texts)).vectors
    with suppress(OSError):
        await asyncio.to_thread(_write, path, vectors)
    return vectors


def _read(path: Path, texts: int) -> Floats | None:
    try:
        with path.expanduser().open("rb") as file:
            vectors = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    rows, *columns = vectors.shape or (0,)
    is_whole = rows == texts and len(columns) == 1 and vectors.dtype == np.float32
    return vectors if is_whole and np.isfinite(vectors).all() else None


def _write(path: Path, vectors: Floats) -> None:
    path = path.expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Under another name first: other workers may read it meanwhile.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".queries-")
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.lib.format.write_array(file, vectors, allow_pickle=False)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
