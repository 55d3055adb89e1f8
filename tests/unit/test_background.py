"""Background tasks: deletions that are purged take the claims of their documents along."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from opentelemetry.trace import get_tracer

from freki.infra.claims import ClaimStore
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import ClaimSettings
from freki.schemas import RootId, Timestamp
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.schemas.index import Root
from freki.streams.ingest.index.commit import Committer
from freki.streams.retrieve.steps.judged import Judgements
from freki.streams.wire import background
from freki.streams.wire.background import embed_judgements, purge_deletions, reclaim_rows, take_over_watermarks
from tests.contract.index_records import GENERATION, root
from tests.memory_index import MemoryIndex

GONE, LIVE = RootId("0" * 32), RootId("1" * 32)


class Turned(Exception):
    """The task begins its second turn."""


async def purged(
    index: MemoryIndex, claims: ClaimStore, monkeypatch: pytest.MonkeyPatch, *, named: bool = True
) -> None:
    """Run one turn of the task; named: whether changes name claims."""
    turns = iter(range(2))

    async def erase() -> None:
        if next(turns):
            raise Turned

    async def are_named() -> bool:
        return named

    monkeypatch.setattr(background, "PURGE_INTERVAL_S", 0.0)
    with pytest.raises(Turned):
        await purge_deletions(cast("MilvusIndex", index), claims, 30, erase, are_named)


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


async def test_a_deletion_whose_claims_may_not_be_removed_is_kept_and_the_others_are_purged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, claims = await filled(tmp_path)
    others = [RootId(digit * 32) for digit in "23"]
    await index.commit([root(each, deleted=True, searchable_at=Timestamp(1)) for each in others], [])
    for each in others:
        await claims.put(b"content", document=each, version=1)
    # What no account may list as a folder.
    folder = tmp_path / GONE
    folder.rename(tmp_path / "aside")
    folder.touch()

    await purged(index, claims, monkeypatch)

    assert set(await index.roots([GONE, LIVE, *others])) == {GONE, LIVE}
    assert await claims.versions_of(others) == {each: {} for each in others}

    folder.unlink()
    (tmp_path / "aside").rename(folder)
    await purged(index, claims, monkeypatch)
    assert await index.roots([GONE]) == {}


async def test_deletions_wait_for_a_disk_of_claims_that_is_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, claims = await filled(tmp_path / "claims")
    (tmp_path / "claims").rename(tmp_path / "unmounted")

    await purged(index, claims, monkeypatch)
    assert set(await index.roots([GONE])) == {GONE}

    (tmp_path / "unmounted").rename(tmp_path / "claims")
    await purged(index, claims, monkeypatch)
    assert await index.roots([GONE]) == {}
    assert sorted((await claims.versions(GONE)).values()) == [3]


async def test_where_no_change_names_a_claim_deletions_are_purged_without_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, claims = await filled(tmp_path / "claims")
    (tmp_path / "claims").rename(tmp_path / "never")

    await purged(index, claims, monkeypatch, named=False)

    assert await index.roots([GONE]) == {}


class Refusing(MemoryIndex):
    """Refuses to be scanned, and then says that it is scanned once more."""

    def __init__(self, error: InfraError) -> None:
        super().__init__(GENERATION)
        self._errors: list[Exception] = [Turned(), error]

    async def all_roots(self, *_: Any, **__: Any) -> AsyncIterator[Root]:
        """Refuse."""
        raise self._errors.pop()
        yield root(LIVE)  # type: ignore[unreachable] # makes it a generator


@pytest.mark.parametrize(
    ("error", "raised"),
    [(Rejected("no"), Turned), (Unavailable("down"), Turned), (Misconfigured("FREKI_X"), Misconfigured)],
)
async def test_orphaned_rows_are_looked_for_again_unless_a_setting_is_wrong(
    error: InfraError, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "RECLAIM_INTERVAL_S", 0.0)
    index = Refusing(error)
    committer = Committer(store=index, now=lambda: Timestamp(1), tracer=get_tracer("test"))

    with pytest.raises(raised):
        await reclaim_rows(cast("MilvusIndex", index), committer)


async def test_an_embedder_that_does_not_answer_for_judgements_is_told_once_in_each_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Judgements that never come to count would be missed by nobody."""
    down, up = Unavailable("no answer"), None
    looks = iter([down, down, up, down, Turned()])

    class Waiting:
        async def embed_some(self) -> bool:
            if (error := next(looks)) is not None:
                raise error
            return False

    monkeypatch.setattr(background, "EMBED_INTERVAL_S", 0.0)
    with structlog.testing.capture_logs() as lines, pytest.raises(Turned):
        await embed_judgements(cast("Judgements", Waiting()))

    assert [line["error"] for line in lines] == ["no answer", "no answer"]


async def test_a_store_that_does_not_answer_ends_no_taking_over_of_watermarks(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([Unavailable("no answer"), Turned()])

    class Failing:
        async def take_over_watermarks(self, _: Timestamp) -> int:
            raise next(failures)

    monkeypatch.setattr(background, "PURGE_INTERVAL_S", 0.0)
    with structlog.testing.capture_logs() as lines, pytest.raises(Turned):
        await take_over_watermarks(cast("MilvusIndex", Failing()))

    assert [line["error"] for line in lines] == ["no answer"]
