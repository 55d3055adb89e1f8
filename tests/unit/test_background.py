"""Background tasks: deletions that are purged take the claims of their documents along."""

from pathlib import Path
from typing import cast

import pytest

from freki.infra.claims import ClaimStore
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import ClaimSettings
from freki.schemas import RootId, Timestamp
from freki.schemas.errors import Unavailable
from freki.streams.wire import background
from freki.streams.wire.background import purge_deletions
from tests.contract.index_records import GENERATION, root
from tests.memory_index import MemoryIndex

GONE, LIVE = RootId("0" * 32), RootId("1" * 32)


class Turned(Exception):
    """The task begins its second turn."""


async def purged(index: MemoryIndex, claims: ClaimStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one turn of the task."""
    turns = iter(range(2))

    async def erase() -> None:
        if next(turns):
            raise Turned

    monkeypatch.setattr(background, "PURGE_INTERVAL_S", 0.0)
    with pytest.raises(Turned):
        await purge_deletions(cast("MilvusIndex", index), claims, 30, erase)


async def filled(directory: Path) -> tuple[MemoryIndex, ClaimStore]:
    index, claims = MemoryIndex(GENERATION), ClaimStore(ClaimSettings(directory=str(directory)))
    await index.commit([root(GONE, version=2, deleted=True, searchable_at=Timestamp(1)), root(LIVE, version=2)], [])
    for document in (GONE, LIVE):
        for version in (1, 2, 3):
            await claims.put(b"content", document=document, version=version)
    return index, claims


async def test_claims_go_with_an_old_deletion_up_to_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, claims = await filled(tmp_path)

    await purged(index, claims, monkeypatch)

    assert set(await index.roots([GONE, LIVE])) == {LIVE}
    assert sorted((await claims.versions(GONE)).values()) == [3]
    assert sorted((await claims.versions(LIVE)).values()) == [1, 2, 3]


async def test_a_deletion_whose_claims_cannot_be_removed_is_kept_for_another_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, claims = await filled(tmp_path)

    async def fail(document: RootId, *, until: int) -> int:
        raise Unavailable(f"{document} {until}")

    with monkeypatch.context() as patched:
        patched.setattr(claims, "remove_versions", fail)
        await purged(index, claims, monkeypatch)
    assert set(await index.roots([GONE])) == {GONE}

    await purged(index, claims, monkeypatch)
    assert await index.roots([GONE]) == {}
