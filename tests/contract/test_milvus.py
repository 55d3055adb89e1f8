"""What only the real store can get wrong: restarts, races, limits of the disk, settings that do not fit."""

import asyncio
import resource
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymilvus import exceptions as theirs

from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import CHUNKS, DOCUMENTS, Row
from freki.infra.settings import MilvusSettings
from freki.schemas import ChunkId, RootId, TenantId
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.index import Candidate, Generation, IndexedChunk, Scope, chunk_of_row
from tests.contract.index_records import (
    GENERATION,
    WITH_KIND_EMBEDDER,
    any_vectors,
    chunk,
    page,
    root,
    row,
    scope,
    vectors,
    watermark,
)
from tests.memory_index import MemoryIndex
from tests.stack import free_port, serving
from tests.unit.test_milvus_filters import rows, scopes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "own.db"


@pytest.fixture
def own(free: int) -> MilvusSettings:
    """Settings for a store that the test starts itself."""
    return MilvusSettings(uri=f"http://127.0.0.1:{free}", timeout_s=10)


@pytest.fixture
def free() -> int:
    return free_port()


async def test_it_goes_on_by_itself_after_the_store_was_killed_and_came_back(
    path: Path, free: int, own: MilvusSettings
) -> None:
    with serving(path, free) as server:
        async with MilvusIndex(own, GENERATION) as index:
            await index.insert([chunk("a")], any_vectors(1))
            await index.write_pages([page("r", 1, 0)])
            await index.commit([root("r")], [watermark(0, 1)])

            server.kill()
            server.wait()
            reading = asyncio.create_task(index.roots([RootId("r")]))
            with serving(path, free):
                assert await reading == {"r": root("r")}
                assert set(await index.fetch([row("a")])) == {row("a")}
                assert await index.pages([page("r", 1, 0).page_id]) == {page("r", 1, 0).page_id: page("r", 1, 0)}
                assert await index.watermarks() == [watermark(0, 1, commits=1)]
                [found] = await index.lexical(["guid"], [scope()], limit=5, strong=True)
                assert [hit.chunk_id for hit in found] == ["a"]
                await index.commit([root("r", version=2)], [])
                assert (await index.roots([RootId("r")]))[RootId("r")].version == 2


async def test_a_root_survives_whenever_the_store_is_killed(path: Path, free: int, own: MilvusSettings) -> None:
    committed = 0
    has_committed = asyncio.Event()

    async def commit_on(index: MilvusIndex) -> None:
        nonlocal committed
        while True:
            await index.commit([root("r", version=committed + 1)], [])
            committed += 1
            has_committed.set()

    for round_ in range(8):
        with serving(path, free) as server:
            async with MilvusIndex(own, GENERATION) as index:
                if round_:
                    found = await index.roots([RootId("r")])
                    assert found[RootId("r")].version in (committed, committed + 1)
                committing = asyncio.create_task(commit_on(index))
                # On a busy machine the first one may take longer than all that follow.
                await has_committed.wait()
                await asyncio.sleep(0.1 + 0.007 * round_)
                server.kill()
                committing.cancel()
                await asyncio.wait({committing})


async def test_a_store_that_is_down_is_unavailable_within_the_time_limit(own: MilvusSettings) -> None:
    index = MilvusIndex(own.model_copy(update={"timeout_s": 0.3}), GENERATION)

    with pytest.raises(Unavailable, match=r"look for freki_g1_\w+: .*for 0.3 s"):
        await index.__aenter__()


async def test_a_store_that_does_not_answer_is_unavailable_within_the_time_limit(
    path: Path, free: int, own: MilvusSettings
) -> None:
    with serving(path, free) as server:
        hurried = MilvusIndex(own.model_copy(update={"timeout_s": 0.5}), GENERATION)
        # Another one for the answer in the end, which a busy machine may give later.
        async with MilvusIndex(own, GENERATION) as index, hurried:
            server.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(Unavailable, match=f"no answer from {own.uri} within 0.5 s"):
                    await hurried.stored([ChunkId("a")])
            finally:
                server.send_signal(signal.SIGCONT)
            assert await index.stored([ChunkId("a")]) == {}


def limit_file_size(process: int, size: int) -> None:
    """Let writes beyond this size fail, as on a full disk."""
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def size(path: Path) -> int:
    return path.stat().st_size


async def test_a_full_disk_is_unavailable_and_leaves_no_row_that_only_memory_holds(
    path: Path, free: int, own: MilvusSettings
) -> None:
    with serving(path, free) as server:
        async with MilvusIndex(own, GENERATION) as index:
            await index.commit([root("r")], [])
            limit_file_size(server.pid, size(path) + 100_000)
            large = [chunk(f"c{number}", text="x" * 60_000) for number in range(20)]
            with pytest.raises(Unavailable, match="disk"):
                await index.insert(large, any_vectors(20))
            with pytest.raises(Unavailable, match="disk"):
                await index.commit([root(name, version=2, attributes={"k": "x" * 60_000}) for name in "rstuv"], [])

            assert await index.stored([row.chunk_id for row in large]) == {}
            assert await index.roots([RootId(name) for name in "rstuv"]) == {"r": root("r")}

            limit_file_size(server.pid, resource.RLIM_INFINITY)
            await index.insert(large, any_vectors(20))
            assert len(await index.stored([row.chunk_id for row in large])) == 20


async def test_processes_may_open_a_new_generation_at_once(path: Path, free: int, own: MilvusSettings) -> None:
    async def open_and_read() -> int:
        async with MilvusIndex(own, GENERATION) as index:
            return (await index.statistics()).chunks

    with serving(path, free):
        assert await asyncio.gather(*(open_and_read() for _ in range(4))) == [0] * 4


async def test_opening_finishes_what_died_half_way(store: MilvusSettings) -> None:
    generation = replace(GENERATION, name="half")
    async with MilvusIndex(store, generation) as index:
        await index._store._client.release_collection(index._store.name(CHUNKS))
        await index._store._client.drop_index(index._store.name(CHUNKS), "sparse")
        await index._store._client.drop_collection(index._store.name(DOCUMENTS))

    async with MilvusIndex(store, generation) as index:
        await index.insert([chunk("a")], any_vectors(1))
        [found] = await index.lexical(["guid"], [scope()], limit=5, strong=True)
        assert [hit.chunk_id for hit in found] == ["a"]


@pytest.mark.parametrize(
    ("other", "advice"),
    [
        (replace(GENERATION, name="mine", embedder="other@2"), "'model@1', not 'other@2': put FREKI_MODELS__EMBEDDER"),
        (replace(GENERATION, name="mine", dim=8), "dim 4, not 8"),
        (replace(GENERATION, name="mine", analyser="plain@1"), "analyser 'snowball@1', not 'plain@1'"),
        (replace(WITH_KIND_EMBEDDER, name="mine"), "{'CODE': ['coder@1', 3]}: put FREKI_MODELS__EMBEDDERS back"),
    ],
)
async def test_an_index_that_was_made_with_something_else_is_not_opened(
    store: MilvusSettings, other: Any, advice: str
) -> None:
    async with MilvusIndex(store, replace(GENERATION, name="mine")):
        pass

    before = asyncio.all_tasks()
    with pytest.raises(Misconfigured, match="FREKI_MILVUS__GENERATION") as caught:
        await MilvusIndex(store, other).__aenter__()
    assert advice in str(caught.value)
    if ending := asyncio.all_tasks() - before:
        # Calls that were cancelled take a moment to notice.
        await asyncio.wait(ending, timeout=60)
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize(
    "other",
    [
        GENERATION,
        replace(
            WITH_KIND_EMBEDDER, kind_embedders=(replace(WITH_KIND_EMBEDDER.kind_embedders[0], embedder="coder@2"),)
        ),
    ],
)
async def test_an_index_with_other_embedders_for_some_kinds_is_not_opened(
    store: MilvusSettings, other: Generation
) -> None:
    async with MilvusIndex(store, replace(WITH_KIND_EMBEDDER, name="kinds")):
        pass

    with pytest.raises(Misconfigured, match="put FREKI_MODELS__EMBEDDERS back, or set FREKI_MILVUS__GENERATION"):
        await MilvusIndex(store, replace(other, name="kinds")).__aenter__()


async def test_an_index_without_further_embedders_has_the_collections_that_it_always_had(store: MilvusSettings) -> None:
    async with MilvusIndex(store, replace(GENERATION, name="plain")) as index:
        made = await index._store._client.list_collections()

    ours = f"{store.collection_prefix}_plain_"
    assert {name.removeprefix(ours) for name in made if name.startswith(ours)} == {"chunks", "documents", "manifests"}


async def test_collections_of_somebody_else_are_not_opened(store: MilvusSettings) -> None:
    async with MilvusIndex(store, replace(GENERATION, name="known")) as index:
        client = index._store._client
        schema = client.create_schema(auto_id=False, description="theirs")
        schema.add_field("id", 5, is_primary=True)
        schema.add_field("vector", 101, dim=2)
        await client.create_collection(f"{store.collection_prefix}_theirs_chunks", schema=schema)

    with pytest.raises(Misconfigured, match="FREKI_MILVUS__COLLECTION_PREFIX"):
        await MilvusIndex(store, replace(GENERATION, name="theirs")).__aenter__()


@pytest.mark.parametrize("uri", ["localhost:19530", "ftp://x", "nonsense"])
async def test_a_uri_that_is_none_is_named(uri: str) -> None:
    with pytest.raises(Misconfigured, match="FREKI_MILVUS__URI"):
        await MilvusIndex(MilvusSettings(uri=uri), GENERATION).__aenter__()


async def test_a_new_index_has_no_term_yet_and_finds_nothing(store: MilvusSettings) -> None:
    """Milvus Lite divides by the mean length of its documents."""
    async with MilvusIndex(store, replace(GENERATION, name="blank")) as index:
        assert await index.lexical(["x y"], [scope()], limit=5, strong=True) == [[]]
        await index.insert([chunk("a", lexical="")], any_vectors(1))
        assert await index.lexical(["x y", "x"], [scope()] * 2, limit=5, strong=True) == [[], []]


async def test_generations_do_not_see_each_other(store: MilvusSettings) -> None:
    one, two = (replace(GENERATION, name=name) for name in ("one", "two"))
    async with MilvusIndex(store, one) as first, MilvusIndex(store, two) as second:
        await first.insert([chunk("a")], any_vectors(1))
        await first.commit([root("r")], [watermark(0, 1)])

        assert await second.stored([ChunkId("a")]) == {}
        assert await second.roots([RootId("r")]) == {}
        assert await second.watermarks() == []


async def test_nothing_to_do_is_no_call() -> None:
    """The index is not even open."""
    index = MilvusIndex(MilvusSettings(), GENERATION)

    nothing: list[Any] = [await index.stored([]), await index.fetch([]), await index.roots([])]
    nothing += [await index.commits([]), await index.rows_of([]), await index.pages([]), await index.page_heads([])]
    nothing += [await index.passages([]), await index.naming([], [])]
    assert not any(nothing)
    await index.insert([], any_vectors(0))
    await index.delete([])
    await index.write_pages([])
    await index.commit([], [])
    await index.mark_checked([])
    await index.discard([])
    assert await index.dense(any_vectors(0), [], limit=5, strong=True) == []
    assert await index.lexical(["", " "], [scope(), scope()], limit=5, strong=True) == [[], []]


class Calls:
    """Counts the calls of a client."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.names.append(name)
        return getattr(self.client, name)


async def test_rows_with_one_key_are_read_once_and_deleted_together(index: MilvusIndex) -> None:
    # A tenant of its own: rows of other tests would have more or less room among the hits.
    key, tenant = RootId("once"), TenantId("once")
    rows = [chunk(f"once-{name}", lexical="once", root_id=key, tenant=tenant) for name in "abc"]
    keys = [each.row_id for each in rows]

    async def state() -> list[object]:
        fetched = await index.fetch(keys)
        return [
            {key: (each, tuple(vector)) for key, (each, vector) in fetched.items()},
            await index.stored([each.chunk_id for each in rows]),
            sorted(head.row_id for head in (await index.rows_of([key]))[key]),
            await index.dense(vectors((1.0,)), [scope(tenant=tenant)], limit=9, strong=True),
            # Their scores count terms of both rows.
            [hit.row_id for hit in (await index.lexical(["once"], [scope(tenant=tenant)], limit=9, strong=True))[0]],
            sorted(row["row_id"] for row in await index._store.lookup(CHUNKS, keys, ["row_id"])),
        ]

    await index.insert(rows, any_vectors(3))
    before = await state()

    await index.insert(rows, any_vectors(3))

    assert await state() == before
    await index.delete(keys)
    assert await index._store.count(CHUNKS, 'lexical == "once"') == 0


class Losing(Calls):
    """Loses the responses of inserts."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)

        async def lost(*args: Any, **options: Any) -> None:
            await method(*args, **options)
            raise theirs.MilvusUnavailableException(message="lost")

        return lost if name == "insert" else method


async def test_rows_are_there_once_if_the_first_response_was_lost(
    index: MilvusIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing = Losing(index._store._client)
    monkeypatch.setattr(index._store, "_client", losing)

    await index.insert([chunk("lost")], any_vectors(1))

    assert [name for name in losing.names if name in {"insert", "upsert"}][-2:] == ["insert", "upsert"]
    assert await index._store.count(CHUNKS, 'chunk_id == "lost"') == 1


async def test_the_local_store_compares_all_vectors(path: Path, free: int, own: MilvusSettings) -> None:
    # Its approximate index is made above some tens of thousands of rows, and finds 7 of the nearest 10 of 100,000.
    with serving(path, free):
        async with MilvusIndex(own, GENERATION) as index:
            made = await index._store._client.describe_index(index._store.name(CHUNKS), "dense")

    assert made["index_type"] == "FLAT"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, index: MilvusIndex) -> Calls:
    counting = Calls(index._store._client)
    monkeypatch.setattr(index._store, "_client", counting)
    return counting


@pytest.fixture(scope="module")
async def index(store: MilvusSettings) -> AsyncIterator[MilvusIndex]:
    async with MilvusIndex(store, replace(GENERATION, name="shared")) as index:
        yield index


async def test_rows_are_read_by_search_as_they_are_by_key(index: MilvusIndex) -> None:
    # Opposite to the vector that is searched for, without any direction, replaced, deleted, and never there.
    names = ["near", "far", "nowhere", "replaced", "deleted", "absent"]
    given = vectors((1.0,), (-1.0,), (0.0,), (0.5, 0.5), (0.1, 0.9))
    await index.insert([chunk(f"by-search-{name}") for name in names[:-1]], given)
    await index.delete([row("by-search-replaced"), row("by-search-deleted")])
    await index.insert([chunk("by-search-replaced", text="new")], vectors((0.0, 1.0)))
    keys = [row(f"by-search-{name}") for name in names]
    wanted = ["row_id", "text", "dense"]

    by_key = await index._store.lookup(CHUNKS, keys, wanted)
    by_search = await index._store.lookup_searched(CHUNKS, keys, wanted, dim=GENERATION.dim, size=2)

    def read(rows: list[Row]) -> list[Row]:
        return sorted(({**each, "dense": list(each["dense"])} for each in rows), key=lambda each: each["row_id"])

    assert read(by_search) == read(by_key)
    assert [each["text"] for each in read(by_search) if "replaced" in each["row_id"]] == ["new"]
    assert len(by_search) == 4


async def test_queries_of_equal_scope_share_one_call(index: MilvusIndex, calls: Calls) -> None:
    same = [scope(principals=("a", "b")), scope(principals=("b", "a", "b"))] * 8
    other = scope(tenant=TenantId("other"))

    await index.dense(vectors(*[(1.0,)] * 17), [*same, other], limit=200, strong=True)
    await index.lexical(["x"] * 16, same, limit=200, strong=False)

    assert calls.names == ["search", "search", "search"]


async def test_roots_and_watermarks_are_written_in_one_call(index: MilvusIndex, calls: Calls) -> None:
    await index.commit([root(f"one{number}") for number in range(50)], [watermark(0, 1), watermark(1, 1)])

    assert calls.names.count("upsert") == 1


async def test_large_rows_are_written_in_messages_that_the_server_takes(index: MilvusIndex, calls: Calls) -> None:
    text = "😀" * 16_000
    await index.insert(
        [chunk(f"large{number}", text=text, context=text, root_id=RootId("large")) for number in range(300)],
        any_vectors(300),
    )

    assert calls.names.count("insert") == 3
    fetched = await index.fetch([row(f"large{number}") for number in range(300)])
    assert len(fetched) == 300
    await index.delete(list(fetched))


@pytest.mark.parametrize("size", [2, 3, 7, 100])
async def test_a_scan_reads_each_row_once_however_many_share_a_value(index: MilvusIndex, size: int) -> None:
    shares = {"share-b": 1, "share-c": 40, "share-d": 5, "share-e": 12, "share-f": 1}
    many = [(f"{name}{number}", name) for name, count in shares.items() for number in range(count)]
    await index.insert([chunk(key, root_id=RootId(name)) for key, name in many], any_vectors(len(many)))

    condition, fields = 'root_id >= "share-" and root_id < "share-~"', ["chunk_id", "root_id"]
    pages = [page async for page in index._store.scan(CHUNKS, condition, fields, by="root_id", size=size)]

    read = [(row["chunk_id"], row["root_id"]) for page in pages for row in page]
    assert sorted(read) == sorted(many)
    for name, count in shares.items():
        assert [sum(row["root_id"] == name for row in page) for page in pages].count(count) == 1


@pytest.mark.parametrize("size", [2, 3, 7, 100])
async def test_a_scan_reads_each_row_once_whatever_the_size_of_its_pages(index: MilvusIndex, size: int) -> None:
    many = {f"scan{number * 37 % 60}" for number in range(60)}
    await index.insert([chunk(key, root_id=RootId("scan")) for key in many], any_vectors(60))

    pages = [
        page async for page in index._store.scan(CHUNKS, 'root_id == "scan"', ["chunk_id"], by="chunk_id", size=size)
    ]

    read = [row["chunk_id"] for page in pages for row in page]
    assert len(read) == 60
    assert set(read) == many
    assert all(len(page) < size for page in pages)


@pytest.fixture(scope="module")
async def alone(store: MilvusSettings) -> AsyncIterator[MilvusIndex]:
    async with MilvusIndex(store, replace(GENERATION, name="alone")) as alone:
        yield alone


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks=st.lists(rows, min_size=1, max_size=6), wheres=st.lists(scopes, min_size=1, max_size=4))
async def test_it_answers_as_the_fake_does(alone: MilvusIndex, chunks: list[IndexedChunk], wheres: list[Scope]) -> None:
    # Some chunks have two rows.
    keys = [row(f"c{number // 2}", f"a{number % 2}") for number in range(6)]
    keyed = [
        replace(each, row_id=key, chunk_id=chunk_of_row(key), lexical="a b")
        for key, each in zip(keys, chunks, strict=False)
    ]
    fake = MemoryIndex(GENERATION)
    await alone.delete(keys)
    queries = vectors(*((1.0, float(number)) for number in range(len(wheres))))
    for each in (alone, fake):
        await each.insert(keyed, any_vectors(len(keyed)))

    dense = await alone.dense(queries, wheres, limit=10, strong=True)
    lexical = await alone.lexical(["b"] * len(wheres), wheres, limit=10, strong=True)

    assert scored(dense) == approximately(scored(await fake.dense(queries, wheres, limit=10, strong=True)))
    expected = await fake.lexical(["b"] * len(wheres), wheres, limit=10, strong=True)
    assert scored(lexical) == approximately(scored(expected))


def scored(rankings: list[list[Candidate]]) -> list[dict[str, float]]:
    for ranking in rankings:
        assert ranking == sorted(ranking, key=lambda hit: (-hit.score, hit.chunk_id))
    return [{hit.chunk_id: hit.score for hit in ranking} for ranking in rankings]


def approximately(rankings: list[dict[str, float]]) -> list[Any]:
    return [pytest.approx(ranking, abs=1e-5) for ranking in rankings]
