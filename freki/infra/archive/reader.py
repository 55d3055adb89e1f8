"""Reads an archive, volume by volume."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from freki.infra.archive.folder import MANIFEST, UNFINISHED, disk, sha256_of
from freki.infra.archive.tables import read_rows
from freki.infra.extras import require
from freki.infra.milvus.layout import DOCUMENTS, MANIFESTS, PLACEHOLDER, Layout, Row
from freki.infra.milvus.rows import chunk_of, page_of, root_of
from freki.infra.milvus.shards import shards_of
from freki.schemas.archive import ArchiveManifest, ArchiveVolume
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.index import IndexedChunk, ManifestPage, Root

R = TypeVar("R")

_MANIFEST = TypeAdapter(ArchiveManifest)


def read_manifest(folder: Path) -> ArchiveManifest:
    """Return the manifest of an archive. Raises Misconfigured if the folder holds no complete one."""
    require("export")
    path = folder / MANIFEST
    if not path.exists():
        if (folder / UNFINISHED).exists():
            raise Misconfigured(f"{folder} holds an interrupted export: finish it with `freki export {folder}`")
        inside = sorted(each.parent.name for each in folder.glob(f"*/{MANIFEST}"))
        hint = f"; it has archives in {', '.join(inside[-3:])}: name one of them" if inside else ""
        raise Misconfigured(f"{folder} is no archive of `freki export`: {MANIFEST} is missing{hint}")
    with disk(folder):
        content = path.read_bytes()
    try:
        manifest = _MANIFEST.validate_json(content)
    except ValidationError as error:
        raise Misconfigured(f"{path} is damaged, or of another version of Freki: {error.errors()[0]['msg']}") from error
    for name in (file.name for volume in manifest.volumes for file in volume.files):
        if Path(name).name != name:
            raise Misconfigured(f"{path} names the file {name!r}, which no export writes: restore it from a copy")
    return manifest


class ArchiveReader:
    """Satisfies ArchiveSource of `streams.ports`. Reads one file at a time into memory."""

    def __init__(self, folder: Path, manifest: ArchiveManifest) -> None:
        self.manifest = manifest
        self._folder = folder
        self._shards = shards_of(manifest.start.generation)

    async def check(self, volume: ArchiveVolume) -> None:
        """Raise Rejected, naming the file, if a file of a volume is missing or differs from its checksum."""
        await asyncio.to_thread(self._check, volume)

    async def roots(self, volume: ArchiveVolume) -> list[Root]:
        """Return the roots of a volume."""
        return [root async for roots in self._read(volume, DOCUMENTS, root_of) for root in roots]

    async def pages(self, volume: ArchiveVolume) -> AsyncIterator[list[ManifestPage]]:
        """Yield the manifest pages of a volume."""
        async for pages in self._read(volume, MANIFESTS, page_of):
            yield pages

    async def chunks(self, volume: ArchiveVolume) -> AsyncIterator[tuple[list[IndexedChunk], Floats]]:
        """Yield the chunk rows of a volume with their vectors, (rows, width)."""
        for shard in self._shards:
            async for read in self._read(volume, shard.layout, chunk_of, dim=shard.dim):
                yield [chunk for chunk, _ in read], np.stack([shard.widened(vector) for _, vector in read])

    async def _read(
        self, volume: ArchiveVolume, layout: Layout, record_of: Callable[[Row], R], *, dim: int = len(PLACEHOLDER)
    ) -> AsyncIterator[list[R]]:
        for file in volume.files:
            if file.holds == layout.name:
                path, held = self._folder / file.name, 0
                groups = await asyncio.to_thread(read_rows, path, layout, dim)
                for rows in groups:
                    held += len(rows)
                    try:
                        read = [record_of(row) for row in rows]
                    except (LookupError, TypeError, ValueError) as error:
                        # Its checksum is right: whoever changed it wrote a new one.
                        raise Rejected(f"{path} has rows that no export writes: restore it from a copy") from error
                    yield read
                if held != file.rows:
                    raise Rejected(f"{path} has {held} rows, the manifest says {file.rows}: restore it from a copy")

    def _check(self, volume: ArchiveVolume) -> None:
        for file in volume.files:
            path = self._folder / file.name
            with disk(self._folder):
                intact = path.stat().st_size == file.bytes and sha256_of(path) == file.sha256
            if not intact:
                raise Rejected(f"{path} is damaged: its SHA-256 is not that of the manifest; restore it from a copy")
