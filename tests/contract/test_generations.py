"""The log of generations, and the generations that a store holds."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from freki.cli.main import app
from freki.cli.other_generation import show_other_generation
from freki.infra.milvus.generations import MilvusGenerations
from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import Layout
from freki.infra.milvus.store import MilvusStore
from freki.infra.settings import MilvusSettings, Settings
from freki.schemas import Timestamp
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.index import GenerationEntry, Statistics, serving
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import settings_named
from freki.streams.wire.serving import entry_of, leave_unreadable, serving_entry
from tests.contract.index_records import GENERATION, WITH_KIND_EMBEDDER, any_vectors, chunk, page, root
from tests.stack import free_port


@pytest.fixture
def own(store: MilvusSettings) -> MilvusSettings:
    """Settings with collections that no other test has."""
    return store.model_copy(update={"collection_prefix": f"t{secrets.token_hex(6)}"})


def entry(generation: str, at: int, *, serves: bool = False) -> GenerationEntry:
    return GenerationEntry(
        entry_id=f"{generation}:{at}",
        generation=generation,
        serves=serves,
        at=Timestamp(at),
        settings={"models": {"embedder": 'a "quoted" name', "embedders": {}}, "lexical": {"analyser": "plain"}},
    )


async def test_entries_come_back_as_they_were_written_and_go_when_they_are_removed(own: MilvusSettings) -> None:
    async with MilvusGenerations(own) as log, MilvusGenerations(own) as other:
        assert await other.entries() == []
        for each in (entry("g1", 1, serves=True), entry("g2", 2), entry("g2", 2)):
            await log.append(each)

        assert sorted(await other.entries(), key=lambda each: each.at) == [entry("g1", 1, serves=True), entry("g2", 2)]

        await other.remove([entry("g2", 2), entry("g3", 3)])
        assert await log.entries() == [entry("g1", 1, serves=True)]


async def test_a_generation_that_is_only_read_is_not_made_beside_others(own: MilvusSettings) -> None:
    """A name that is not set right would make an empty one, which has no document and looks like the index."""
    settings = Settings(milvus=own)
    async with open_index(settings) as index:
        assert await index.statistics() == Statistics(documents=0, deleted=0, chunks=0)

    with pytest.raises(Misconfigured, match=r"no generation g7.* has g1: set FREKI_MILVUS__GENERATION"):
        async with open_index(settings_named(settings, "g7")):
            pass

    async with MilvusGenerations(own) as log:
        assert list(await log.stored()) == ["g1"]


@pytest.mark.parametrize(
    "words",
    [
        ("documents", "list"),
        ("documents", "show", "handbook/leave.md"),
        ("delete", "handbook/leave.md"),
        ("reindex", "--force", "--yes"),
        ("verify",),
        ("export", "backup"),
        ("access", "handbook/leave.md"),
        ("status",),
    ],
)
async def test_commands_that_read_the_index_name_the_setting_where_it_is_not_there(
    own: MilvusSettings, words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("uri", "timeout_s", "collection_prefix"):
        monkeypatch.setenv(f"FREKI_MILVUS__{name.upper()}", str(getattr(own, name)))
    monkeypatch.setenv("FREKI_MILVUS__GENERATION", "g7")
    monkeypatch.setenv("FREKI_KAFKA__BOOTSTRAP", f"127.0.0.1:{free_port()}")
    async with MilvusIndex(own, GENERATION):
        pass

    done = await asyncio.to_thread(CliRunner().invoke, app, words, env={"COLUMNS": "500"})

    assert done.exit_code != 0
    assert f"there is no generation g7; the store has {GENERATION.name}: set FREKI_MILVUS__GENERATION" in done.output
    async with MilvusGenerations(own) as log:
        assert list(await log.stored()) == [GENERATION.name]


async def test_generations_are_told_apart_whatever_they_are_called(own: MilvusSettings) -> None:
    """`a_chunks` and `a` share the beginning of their collections' names, and so do prefixes."""
    longer = own.model_copy(update={"collection_prefix": f"{own.collection_prefix}_a"})
    for settings, name in ((own, "a"), (own, "a_chunks"), (longer, "g1")):
        async with MilvusIndex(settings, replace(GENERATION, name=name)) as index:
            await index.insert([chunk("c")], any_vectors(1))
            await index.commit([root("r"), root("gone", deleted=True)], [])

    async with MilvusGenerations(own) as log:
        assert {name: made_for["name"] for name, made_for in (await log.stored()).items()} == {
            "a": "a",
            "a_chunks": "a_chunks",
        }
        assert await log.sizes("a") == Statistics(documents=1, deleted=1, chunks=1)

        await log.drop("a")
        await log.drop("a")

        assert set(await log.stored()) == {"a_chunks"}
        assert await log.sizes("a_chunks") == Statistics(documents=1, deleted=1, chunks=1)
    async with MilvusGenerations(longer) as log:
        assert set(await log.stored()) == {"g1"}


async def test_a_removal_that_is_interrupted_leaves_no_document_without_its_rows(
    own: MilvusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who fills a generation of that name again would take it for indexed, and nobody would find it."""
    named = page("r", 1, 0)
    made = root("r", version=1, pages=(named.page_id,))
    generation, key = replace(GENERATION, name="g2"), made.root_id
    dropped = MilvusStore.drop
    for dies_at in range(3):
        async with MilvusIndex(own, generation) as index:
            await index.insert([chunk("c0-0", root_id=key)], any_vectors(1))
            await index.write_pages([named])
            await index.commit([made], [])
        left = dies_at

        async def dying(self: MilvusStore, layout: Layout) -> None:
            nonlocal left
            if not left:
                raise Unavailable("the store is gone")
            left -= 1
            await dropped(self, layout)

        async with MilvusGenerations(own) as log:
            with monkeypatch.context() as patched:
                patched.setattr(MilvusStore, "drop", dying)
                with pytest.raises(Unavailable):
                    await log.drop("g2")
            assert list(await log.stored()) == ["g2"], "it can be removed again"
            assert (await log.sizes("g2")).documents == (0 if dies_at else 1)
        async with MilvusIndex(own, generation) as index:
            if await index.roots([key]):
                assert await index.pages([named.page_id])
                assert (await index.rows_of([key]))[key]
        async with MilvusGenerations(own) as log:
            await log.drop("g2")
            assert not await log.stored()


async def test_a_stack_of_its_own_leaves_a_generation_that_it_cannot_read(own: MilvusSettings) -> None:
    settings = Settings(milvus=own.model_copy(update={"generation": "g2"}))
    first = serving_entry(entry_of(settings_named(settings, "g1"), serves=True), None)
    async with MilvusIndex(own, replace(GENERATION, name="g1")), MilvusGenerations(own) as log:
        await log.append(first)

        left = await leave_unreadable(settings)
        again = await leave_unreadable(settings)

        assert "was made with embedder" in str(left)
        assert again is None
        last = serving(await log.entries())
        assert last is not None
        assert last.generation == "g2"


async def test_a_generation_that_can_be_read_goes_on_answering(own: MilvusSettings) -> None:
    settings = Settings(milvus=own.model_copy(update={"generation": "g2"}))
    async with MilvusGenerations(own) as log:
        assert await leave_unreadable(settings) is None, "none has answered yet"
        await log.append(entry_of(settings_named(settings, "g1"), serves=True))

        assert await leave_unreadable(settings) is None
        assert [each.generation for each in await log.entries()] == ["g1"]


async def test_a_generation_goes_with_the_collections_of_all_its_embedders(own: MilvusSettings) -> None:
    async with MilvusIndex(own, replace(WITH_KIND_EMBEDDER, name="kinds")) as index, MilvusGenerations(own) as log:
        client = index._store._client
        there = set(await client.list_collections())
        await log.drop("kinds")
        left = set(await client.list_collections())

    assert {name for name in left if name.startswith(f"{own.collection_prefix}_kinds")} == set()
    assert there > left


async def test_who_waits_for_receipts_of_a_generation_that_does_not_answer_is_told(
    own: MilvusSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(milvus=own)
    async with MilvusGenerations(own) as log:
        await show_other_generation(settings)
        await log.append(entry("g1", 1, serves=True))
        await show_other_generation(settings)
        assert capsys.readouterr().err == "", "none has answered yet, then the own one"

        await log.append(entry("g2", 2, serves=True))
        await show_other_generation(settings)

    assert "receipts come from generation g1 (FREKI_MILVUS__GENERATION), but g2 answers" in " ".join(
        capsys.readouterr().err.split()
    )
