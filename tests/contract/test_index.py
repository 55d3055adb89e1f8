import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import fields, replace
from itertools import count, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freki.infra.keys import make_keys
from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import DOCUMENTS, LAYOUTS
from freki.infra.milvus.watermarks import IDLE_MS, WatermarkWriter
from freki.infra.settings import EncryptionSettings, MilvusSettings
from freki.operators.validate_query import parse_condition
from freki.schemas import ChunkId, ChunkKind, DocumentId, Filter, FilterOperator, RootId, TenantId, Timestamp
from freki.schemas.arrays import Floats
from freki.schemas.conditions import Condition
from freki.schemas.errors import Rejected
from freki.schemas.index import (
    Attempt,
    Candidate,
    ChunkContent,
    CommitId,
    Exclusions,
    IndexedChunk,
    ManifestPage,
    PageHead,
    PageId,
    Passage,
    Place,
    Root,
    RowId,
    Scope,
    Statistics,
    StoredRow,
    Watermark,
    deleted,
    page_id,
    places_in,
    standing,
)
from freki.streams.ports import ChunkRows, ChunkSearch, Roots
from tests.conditions import KEYS, TEXTS, VALUES, conditions
from tests.contract.index_records import (
    DIM,
    GENERATION,
    NASTY,
    any_vectors,
    chunk,
    head,
    page,
    page_head,
    root,
    row,
    scope,
    vectors,
    watermark,
)
from tests.filter_model import holds
from tests.memory_index import MemoryIndex
from tests.strategies import records

Index = MilvusIndex | MemoryIndex

# The index is one for all examples, and each subclass runs the test: both are meant.
FEW = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


# Keys are never used twice, nor are rows, pages and roots ever changed: each example has its own.
NUMBERS = count()


A_DAY_LATER = Timestamp(IDLE_MS + 1_000)
"""When a process that committed in the first second has been idle for a day."""


def lately(partition: int) -> Watermark:
    """Return the watermark of a process that goes on to commit, when others have been idle for a day."""
    return replace(watermark(partition, 40), committed_at=A_DAY_LATER)


async def write(index: Index, *rows: IndexedChunk) -> None:
    await index.insert(rows, any_vectors(len(rows)))


def ids(ranking: Sequence[Candidate]) -> list[str]:
    return [candidate.chunk_id for candidate in ranking]


def by_id(heads: Iterable[PageHead]) -> dict[PageId, PageHead]:
    return {head.page_id: head for head in heads}


async def found(index: Index, where: Scope) -> set[str]:
    """Search by both retrievers for all that the scope may see."""
    [dense] = await index.dense(vectors((1.0,)), [where], limit=500, strong=True)
    [lexical] = await index.lexical(["guid"], [where], limit=500, strong=True)
    assert set(ids(dense)) == set(ids(lexical))
    return set(ids(dense))


def content(chunk: IndexedChunk) -> ChunkContent:
    return ChunkContent(**{each.name: getattr(chunk, each.name) for each in fields(ChunkContent)})


def of_all_kinds() -> list[IndexedChunk]:
    """Make rows with all fields and attributes that conditions compare, in many combinations."""
    every = len(VALUES)
    return [
        chunk(
            f"c{place}",
            name=TEXTS[place % len(TEXTS)],
            document_id=TEXTS[place % 5],
            language=TEXTS[place % 3],
            kind=list(ChunkKind)[place % len(ChunkKind)],
            attributes={
                key: VALUES[place * step % every] for step, key in enumerate(KEYS, start=1) if (place + step) % 3
            },
        )
        for place in range(2 * every)
    ]


class IndexContract:
    """A subclass supplies `index`, empty; the fake and Milvus answer to the same tests."""

    def test_it_satisfies_the_ports_of_the_stages(self, index: Index) -> None:
        ports: tuple[ChunkRows, Roots, ChunkSearch] = (index, index, index)

        assert all(ports)

    # Chunk rows

    async def test_a_row_is_read_back_as_it_was_written(self, index: Index) -> None:
        rows = [
            chunk(f"c{number}", name=text, text=text, context=f"a\n{text}", heading_path=(text, "b"))
            for number, text in enumerate(NASTY)
        ]
        matrix = any_vectors(len(rows))

        await index.insert(rows, matrix)

        fetched = await index.fetch([each.row_id for each in rows])
        assert {key: each for key, (each, _) in fetched.items()} == {each.row_id: each for each in rows}
        contents = await index.contents([each.row_id for each in rows])
        assert {key: each for key, (each, _) in contents.items()} == {each.row_id: content(each) for each in rows}
        assert await index.passages([each.row_id for each in rows]) == {
            each.row_id: Passage(
                text=each.text, heading_path=each.heading_path, context=each.context, context_key=each.context_key
            )
            for each in rows
        }
        for each, vector in zip(rows, matrix, strict=True):
            np.testing.assert_array_equal(fetched[each.row_id][1], vector)
            np.testing.assert_array_equal(contents[each.row_id][1], vector)

    @FEW
    @given(written=records(IndexedChunk))
    async def test_any_row_is_read_back_as_it_was_written(self, index: Index, written: IndexedChunk) -> None:
        key = f"any{next(NUMBERS)}"
        written = replace(written, row_id=row(key), chunk_id=ChunkId(key), root_id=RootId("r"))

        await write(index, written)

        assert (await index.fetch([written.row_id]))[written.row_id][0] == written

    async def test_what_is_absent_is_absent(self, index: Index) -> None:
        await write(index, chunk("a"))

        assert set(await index.stored([ChunkId("a"), ChunkId("nowhere"), ChunkId("a")])) == {"a"}
        assert set(await index.fetch([row("a"), row("nowhere"), row("a")])) == {row("a")}
        assert set(await index.contents([row("nowhere"), row("a")])) == {row("a")}
        assert set(await index.passages([row("nowhere"), row("a")])) == {row("a")}
        assert await index.rows_of([RootId("nowhere")]) == {"nowhere": []}

    async def test_the_rows_of_a_chunk_are_stored_by_whomever_they_were_written(self, index: Index) -> None:
        await write(
            index,
            chunk("a", kind=ChunkKind.TABLE, embedder="e1", metadata_hash="f7", context_key="k9"),
            chunk("a", row_id=row("a", "a2"), embedder="e2", version=2),
            chunk("b"),
        )

        stored = await index.stored([ChunkId("a")])

        assert sorted(stored[ChunkId("a")], key=lambda each: each.row_id) == [
            StoredRow(
                row_id=row("a", "a1"),
                chunk_id=ChunkId("a"),
                kind=ChunkKind.TABLE,
                embedder="e1",
                metadata_hash="f7",
                context_key="k9",
            ),
            StoredRow(
                row_id=row("a", "a2"),
                chunk_id=ChunkId("a"),
                kind=ChunkKind.PROSE,
                embedder="e2",
                metadata_hash="f1",
                context_key=chunk("a").context_key,
            ),
        ]

    async def test_a_new_row_of_a_chunk_stands_beside_the_old_one_until_that_is_deleted(self, index: Index) -> None:
        old, new = chunk("a", lexical="old"), chunk("a", row_id=row("a", "a2"), lexical="new", principals=("staff",))
        staff = [scope(principals=("staff",))] * 2
        await index.insert([old], vectors((1.0,)))
        await index.insert([new], vectors((0.0, 1.0)))
        both = await index.lexical(["old", "new"], staff, limit=9, strong=True)

        await index.delete([old.row_id])

        one = await index.lexical(["old", "new"], staff, limit=9, strong=True)
        assert [ids(ranking) for ranking in both] == [["a"], ["a"]]
        assert [ids(ranking) for ranking in one] == [[], ["a"]]
        fetched = await index.fetch([old.row_id, new.row_id])
        assert {key: each for key, (each, _) in fetched.items()} == {new.row_id: new}
        np.testing.assert_array_equal(fetched[new.row_id][1], vectors((0.0, 1.0))[0])
        assert [each.row_id for each in (await index.stored([ChunkId("a")]))[ChunkId("a")]] == [new.row_id]

    async def test_all_rows_of_documents_are_listed_with_who_wrote_them(self, index: Index) -> None:
        rows = [
            *(chunk(f"v{version}", version=version, edition=version % 2) for version in (1, 2, 3)),
            chunk("v1", row_id=row("v1", "a2")),
            chunk("other", root_id=RootId("r1")),
            chunk("third", root_id=RootId("r2")),
        ]
        await write(index, *rows)

        listed = await index.rows_of([RootId("r0"), RootId("r1"), RootId("nowhere")])

        assert {key: set(heads) for key, heads in listed.items()} == {
            "r0": {head(each) for each in rows[:4]},
            "r1": {head(rows[4])},
            "nowhere": set(),
        }

    async def test_every_row_of_the_index_is_listed_once(self, index: Index) -> None:
        rows = [chunk(f"c{number}", root_id=RootId(f"r{number % 3}"), version=number) for number in range(30)]
        await write(index, *rows, chunk("c0", row_id=row("c0", "a2")))

        listed = [each async for some in index.all_rows() for each in some]

        expected = {(each.root_id, head(each)) for each in [*rows, chunk("c0", row_id=row("c0", "a2"))]}
        assert len(listed) == 31
        assert set(listed) == expected

    async def test_a_document_may_have_more_rows_than_one_answer_takes(self, index: Index) -> None:
        many = 16_384 + 300
        names = [f"m{number:05d}" for number in range(many)]
        await write(index, *(chunk(names[number * 7919 % many], text="", lexical="x") for number in range(many)))

        listed = (await index.rows_of([RootId("r0")]))[RootId("r0")]

        row_ids = sorted(each.row_id for each in listed)
        assert row_ids == [row(name) for name in names]
        assert len([each async for some in index.all_rows() for each in some]) == many
        assert len(await index.stored([ChunkId(name) for name in names])) == many
        await index.delete(row_ids)
        assert (await index.statistics()).chunks == 0

    async def test_deleted_rows_are_gone_and_absent_ones_are_no_error(self, index: Index) -> None:
        await write(index, chunk("a"), chunk("b"))

        await index.delete([row("a"), row("nowhere"), row("a")])
        await index.delete([row("a")])

        assert set(await index.stored([ChunkId("a"), ChunkId("b")])) == {"b"}
        assert await found(index, scope()) == {"b"}

    @pytest.mark.parametrize(
        "changes",
        [
            {"text": "x" * 65_536},
            {"context": "😀" * 16_384},
            {"context_key": "x" * 129},
            {"lexical": "x " * 32_768},
            {"attributes": {"key": "x" * 65_536}},
            {"principals": tuple(f"p{number}" for number in range(4_097))},
            {"text": "\ud800"},
            {"row_id": RowId("x" * 129)},
            {"chunk_id": ChunkId("x" * 65)},
            {"root_id": RootId("x" * 65)},
            {"root_id": RootId('"')},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    async def test_a_row_that_the_store_cannot_take_is_refused_and_nothing_is_written(
        self, index: Index, changes: dict[str, Any]
    ) -> None:
        with pytest.raises(Rejected, match=next(iter(changes)).removesuffix("_id")):
            await write(index, chunk("good"), replace(chunk("bad"), **changes))

        assert await index.stored([ChunkId("good"), ChunkId("bad")]) == {}

    async def test_a_row_at_the_limits_of_the_store_is_taken(self, index: Index) -> None:
        largest = chunk(
            "a" * 64,
            row_id=row("a" * 64, "x" * 63),
            root_id=RootId("r" * 64),
            text="😀" * 16_383 + "abc",
            context="x" * 65_535,
            context_key="k" * 128,
            # Beside the value stands its type.
            attributes={"key": "x" * 65_509},
        )

        await write(index, largest)

        assert (await index.fetch([largest.row_id]))[largest.row_id][0] == largest
        assert set(await index.stored([largest.chunk_id])) == {largest.chunk_id}

    @pytest.mark.parametrize("matrix", [np.ones((1, DIM + 1)), np.ones((2, DIM)), np.full((1, DIM), np.nan)])
    async def test_vectors_of_another_shape_or_without_a_value_are_refused(self, index: Index, matrix: Floats) -> None:
        with pytest.raises(Rejected, match="vector"):
            await index.insert([chunk("a")], matrix.astype(np.float32))
        with pytest.raises(Rejected, match="vector"):
            await index.dense(matrix.astype(np.float32), [scope()], limit=1, strong=True)

        assert await index.stored([ChunkId("a")]) == {}

    @pytest.mark.parametrize("wrong", ["", "a b", '"] or chunk_id != ["', "x" * 65, "a:b", "a\n"])
    async def test_what_cannot_be_an_id_is_refused(self, index: Index, wrong: str) -> None:
        for refused in (
            index.stored([ChunkId(wrong)]),
            index.visible([[ChunkId(wrong)]], [scope()]),
            index.rows_of([RootId(wrong)]),
            index.roots([RootId(wrong)]),
            index.commits([RootId(wrong)]),
            index.page_heads([RootId(wrong)]),
            index.write_pages([page(wrong, 1, 0)]),
            index.commit([root(wrong)], []),
        ):
            with pytest.raises(Rejected, match=r"is not the (id|key)"):
                await refused

    @pytest.mark.parametrize("wrong", ["", "a b", '"] or row_id != ["', "x" * 129, "a\n", "ä"])
    async def test_what_cannot_be_a_key_is_refused(self, index: Index, wrong: str) -> None:
        for refused in (
            index.fetch([RowId(wrong)]),
            index.passages([RowId(wrong)]),
            index.delete([RowId(wrong)]),
            index.pages([PageId(wrong)]),
            index.discard([PageId(wrong)]),
            index.discard([], [CommitId(wrong)]),
        ):
            with pytest.raises(Rejected, match="is not the key"):
                await refused

    @pytest.mark.parametrize(
        "bad",
        [
            # The store's key of the mark is eight bytes longer than that of its page.
            page("r", 1, 0, attempt="a" * 116),
            page("r", 1, 0, attempt="a b"),
            replace(page("r", 1, 0), cut="x" * 129),
            page("r", 1, 0, chunk_id=ChunkId("x" * 129)),
            page("r", 1, 0, row_id=RowId("x" * 129)),
            page("r", 1, 0, overlap="x" * 65_536),
            page("r", 1, 0, entries=4_097),
        ],
        ids=["key", "characters", "cut", "chunk_id", "row_id", "overlap", "entries"],
    )
    async def test_a_page_that_the_store_cannot_take_is_refused_and_nothing_is_written(
        self, index: Index, bad: ManifestPage
    ) -> None:
        with pytest.raises(Rejected):
            await index.write_pages([page("r", 1, 1), bad])

        assert await index.page_heads([RootId("r")]) == {"r": []}

    async def test_a_page_at_the_limits_of_the_store_is_taken(self, index: Index) -> None:
        largest = replace(
            page("r" * 64, 1, 0, entries=4_096, attempt="a" * 51, row_id=RowId("x" * 128), overlap=""), cut="c" * 128
        )

        await index.write_pages([largest])
        await index.mark_checked([largest])

        assert await index.pages([largest.page_id]) == {largest.page_id: largest}
        assert await index.page_heads([largest.root_id]) == {largest.root_id: [page_head(largest, checked=True)]}

    @pytest.mark.parametrize(
        "bad",
        [
            root("r", attempt=Attempt("a" * 123)),
            root("r", attempt=Attempt("a b")),
            root("r", attributes={"key": "x" * 65_536}),
            root("r", pages=tuple(page_id(RootId("r"), 1, part, Attempt(f"{part:040d}")) for part in range(2000))),
        ],
        ids=["key", "characters", "attributes", "pages"],
    )
    async def test_a_root_that_the_store_cannot_take_is_refused_and_nothing_is_written(
        self, index: Index, bad: Root
    ) -> None:
        with pytest.raises(Rejected):
            await index.commit([root("good"), bad], [watermark(0, 1)])

        assert await index.roots([RootId("good"), RootId("r")]) == {}
        assert await index.watermarks() == []

    # Roots

    async def test_a_root_is_read_back_as_it_was_committed(self, index: Index) -> None:
        roots = [
            root(f"r{number}", name=text, source_uri=text, principals=(text,), attributes={f"k{text}": text})
            for number, text in enumerate(NASTY)
        ]
        more = [
            root("none"),
            root("dead", deleted=True, tombstoned_at=Timestamp(7)),
            root("paged", pages=(PageId("paged:1:0:a1"), PageId("paged:1:1:a0")), edition=3),
        ]

        await index.commit([*roots, *more], [])

        names = [*(item.root_id for item in roots), *(RootId(name) for name in ("none", "dead", "paged", "nowhere"))]
        assert await index.roots(names) == {item.root_id: item for item in [*roots, *more]}
        assert await index.commits(names) == {"nowhere": []} | {item.root_id: [item] for item in [*roots, *more]}

    @FEW
    @given(item=records(Root), attempts=st.lists(st.sampled_from(["a1", "b2"]), max_size=5))
    async def test_any_root_is_read_back_as_it_was_committed(
        self, index: Index, item: Root, attempts: list[str]
    ) -> None:
        key = RootId(f"any{next(NUMBERS)}")
        pages = tuple(page_id(key, item.version, part, Attempt(each)) for part, each in enumerate(attempts))
        item = replace(item, root_id=key, attempt=Attempt("a1"), pages=pages)

        await index.commit([item], [])

        assert await index.commits([item.root_id]) == {item.root_id: [item]}
        assert await index.roots([item.root_id]) == {item.root_id: standing([item])}

    async def test_of_several_roots_the_one_of_the_highest_rank_counts_in_whatever_order_they_come(
        self, index: Index
    ) -> None:
        ranks = [(1, 9, "a9", False), (5, 0, "a2", False), (5, 0, "a1", False), (5, 2, "a0", False)]
        orders = {RootId(f"r{number}"): order for number, order in enumerate(permutations(ranks))}

        def of(key: RootId, rank: tuple[int, int, str, bool]) -> Root:
            version, edition, attempt, deleted = rank
            return root(key, version=version, edition=edition, attempt=Attempt(attempt), deleted=deleted)

        for turn in range(len(ranks)):
            await index.commit([of(key, order[turn]) for key, order in orders.items()], [])
            assert await index.roots(list(orders)) == {
                key: max((of(key, rank) for rank in order[: turn + 1]), key=lambda each: each.rank)
                for key, order in orders.items()
            }

        commits = await index.commits(list(orders))
        assert all(len(each) == len(ranks) for each in commits.values())
        assert {key: {each.commit_id: each for each in roots} for key, roots in commits.items()} == {
            key: {of(key, rank).commit_id: of(key, rank) for rank in order} for key, order in orders.items()
        }
        assert {each.root_id: each async for each in index.all_roots()} == {
            key: of(key, (5, 2, "a0", False)) for key in orders
        }

    async def test_a_deletion_wins_over_its_own_version_and_not_over_a_later_one(self, index: Index) -> None:
        deletion = root("r", version=4, deleted=True, attempt=Attempt("a1"))
        await index.commit([deletion], [])
        await index.commit([root("r", version=4, edition=7, attempt=Attempt("a9"))], [])
        assert await index.roots([RootId("r")]) == {"r": deletion}

        later = root("r", version=5, attempt=Attempt("a0"))
        await index.commit([later], [])

        assert await index.roots([RootId("r")]) == {"r": later}

    async def test_a_tombstone_deletes_what_was_recorded_before_it_whatever_its_version(self, index: Index) -> None:
        before = root("r", version=5, recorded_at=Timestamp(99))
        after = root("s", version=5, recorded_at=Timestamp(100))
        tombstones = [
            root(name, version=1, deleted=True, attempt=Attempt("a0"), tombstoned_at=Timestamp(100)) for name in "rs"
        ]
        await index.commit([before, after], [])

        await index.commit(tombstones, [])

        roots = await index.roots([RootId("r"), RootId("s")])
        assert roots == {
            "r": deleted(before, tombstoned_at=Timestamp(100)),
            "s": replace(after, tombstoned_at=Timestamp(100)),
        }
        assert {each.root_id: each async for each in index.all_roots()} == roots

    async def test_committing_the_same_root_twice_changes_nothing(self, index: Index) -> None:
        for _ in range(3):
            await index.commit([root("r", version=2), root("r", version=2), root("r", version=1)], [])

        commits = (await index.commits([RootId("r")]))[RootId("r")]
        assert sorted(commits, key=lambda each: each.rank) == [root("r", version=1), root("r", version=2)]
        assert (await index.statistics()).documents == 2

    async def test_a_root_is_never_missing_while_newer_ones_are_committed(self, index: Index) -> None:
        await index.commit([root("r", version=0)], [watermark(0, 0)])
        done = asyncio.Event()

        async def read() -> tuple[list[int], list[tuple[Timestamp, int]]]:
            versions, marks = [], []
            while not done.is_set():
                versions.append((await index.roots([RootId("r")]))[RootId("r")].version)
                [mark] = await index.watermarks()
                marks.append((mark.occurred_at, mark.commits))
                await asyncio.sleep(0)
            return versions, marks

        readers = [asyncio.create_task(read()) for _ in range(3)]
        for version in range(1, 25):
            await index.commit([root("r", version=version)], [watermark(0, version)])
        done.set()

        for versions, marks in await asyncio.gather(*readers):
            assert versions == sorted(versions)
            assert marks == sorted(marks)

    async def test_many_roots_are_committed_together(self, index: Index) -> None:
        many = [root(f"r{number}", version=number) for number in range(3_000)]

        await index.commit(many, [])

        assert await index.roots([item.root_id for item in many]) == {item.root_id: item for item in many}

    async def test_a_document_may_have_more_roots_than_one_answer_takes(self, index: Index) -> None:
        """As where one is edited again and again and nothing sweeps."""
        many = [root("r", version=version, deleted=version % 2 == 0) for version in range(900)]
        await index.commit([root("q"), *many, root("s")], [])

        assert len((await index.commits([RootId("r")]))[RootId("r")]) == 900
        assert await index.roots([RootId("r")]) == {"r": many[-1]}
        counting = [each async for each in index.all_roots()]
        assert sorted(counting, key=lambda each: each.root_id) == [root("q"), many[-1], root("s")]
        assert await index.purge_deleted(Timestamp(10**6)) == 0

    # Manifests

    async def test_pages_are_read_by_their_ids(self, index: Index) -> None:
        pages = [
            *(page("r", 7, part, entries=3) for part in (10, 2, 0, 1)),
            *(page("r", 7, 0, attempt="a2"), page("r", 8, 0), page("s", 7, 0), page("r", 77, 0)),
        ]
        await index.write_pages(pages)

        absent = [PageId("r:7:3:a1"), PageId("r:7:0:a3"), PageId("t:1:0:a1")]
        read = await index.pages([*(each.page_id for each in pages), *absent, pages[0].page_id])

        assert read == {each.page_id: each for each in pages}

    @FEW
    @given(item=records(ManifestPage))
    async def test_any_page_is_read_back_as_it_was_written(self, index: Index, item: ManifestPage) -> None:
        item = replace(item, root_id=RootId(f"any{next(NUMBERS)}"), attempt=Attempt("a1"))

        await index.write_pages([item])

        assert await index.pages([item.page_id]) == {item.page_id: item}
        assert await index.page_heads([item.root_id]) == {item.root_id: [page_head(item)]}

    async def test_a_full_page_of_the_widest_characters_is_taken(self, index: Index) -> None:
        largest = page("r", 1, 0, entries=512, overlap="😀" * 2_000, path="0/" * 100)

        await index.write_pages([largest])

        assert await index.pages([largest.page_id]) == {largest.page_id: largest}

    async def test_chunks_are_found_on_a_page_of_any_size(self, index: Index) -> None:
        small = page("r", 1, 1, chunk_id=ChunkId("small"))
        last = replace(small.entries[0], chunk_id=ChunkId("last"), row_id=RowId("y" * 128))
        large = page("r", 1, 0, entries=4_095, row_id=RowId("x" * 128), overlap="")
        large = replace(large, entries=(*large.entries, last))
        await index.write_pages([large, small])

        found = await index.naming([RootId("r")], [last.chunk_id, ChunkId("small"), ChunkId("none")])

        assert found[small.page_id] == {ChunkId("small"): Place(small.page_id, small.entries[0].row_id, 0, 1)}
        assert found[large.page_id] == {
            entry.chunk_id: Place(large.page_id, entry.row_id, place, 4_096)
            for place, entry in enumerate(large.entries)
        }
        assert set(found) == {large.page_id, small.page_id}

    async def test_a_manifest_may_have_more_pages_than_one_call_takes(self, index: Index) -> None:
        many = [page("r", 1, part, entries=100) for part in range(250)]

        await index.write_pages(many)

        assert await index.pages([each.page_id for each in many]) == {each.page_id: each for each in many}

    async def test_writing_the_same_pages_twice_changes_nothing(self, index: Index) -> None:
        pages = [page("r", 1, part) for part in (0, 1)]
        await index.write_pages(pages)
        await index.mark_checked(pages[:1])

        await index.write_pages(pages)
        await index.mark_checked(pages[:1])

        assert await index.pages([each.page_id for each in pages]) == {each.page_id: each for each in pages}
        assert by_id((await index.page_heads([RootId("r")]))[RootId("r")]) == by_id(
            [page_head(pages[0], checked=True), page_head(pages[1])]
        )

    async def test_a_chunk_is_placed_on_the_page_that_the_root_names(self, index: Index) -> None:
        pages = [page("r", 7, part, entries=3) for part in range(3)]
        others = [
            *(page("r", 7, part, entries=3, attempt="a2") for part in range(3)),
            *(page("r", 7, 0, entries=3, edition=1, attempt="a3"), page("r", 8, 0), page("s", 7, 0)),
        ]
        await index.write_pages([*others[:3], *pages, *others[3:]])
        await index.mark_checked([*pages, *others])
        named = [entry.chunk_id for each in pages for entry in each.entries]
        live = root("r", version=7, pages=tuple(each.page_id for each in pages))
        roots = [live, root("nowhere"), root("gone", deleted=True), root("s", version=7, pages=(others[-1].page_id,))]

        naming = await index.naming([each.root_id for each in roots], [*named[2:5], ChunkId("unknown")])

        expected = {
            entry.chunk_id: Place(each.page_id, row(entry.chunk_id, "a1"), position=place, entries=3)
            for each in pages
            for place, entry in enumerate(each.entries)
        }
        assert set(naming) >= {each.page_id for each in pages[:2]}
        assert pages[2].page_id not in naming
        assert places_in(live, naming, named) == {chunk_id: expected[chunk_id] for chunk_id in named[:6]}
        assert list(places_in(live, naming, named[2:5])) == named[2:5]
        assert not any(places_in(each, naming, named) for each in roots[1:])
        assert await index.naming([live.root_id], []) == {}
        assert await index.naming([], named) == {}

    async def test_an_edition_places_chunks_on_new_pages_and_on_those_that_stayed(self, index: Index) -> None:
        stayed, old = page("r", 7, 0), page("r", 7, 1)
        new = page("r", 7, 1, edition=1, attempt="a2")
        await index.write_pages([stayed, old, new])
        [first], [second] = stayed.entries, old.entries
        better = root("r", version=7, edition=1, attempt=Attempt("a2"), pages=(stayed.page_id, new.page_id))

        naming = await index.naming([better.root_id], [first.chunk_id, second.chunk_id])

        assert places_in(better, naming, [first.chunk_id, second.chunk_id]) == {
            first.chunk_id: Place(stayed.page_id, row(first.chunk_id, "a1")),
            second.chunk_id: Place(new.page_id, row(second.chunk_id, "a2")),
        }

    async def test_all_pages_of_documents_are_listed_with_whether_they_are_checked(self, index: Index) -> None:
        pages = [page("r", version, part, entries=2) for version in (1, 2) for part in (0, 1)]
        rival, other = page("r", 2, 0, attempt="a2", edition=1), page("s", 1, 0)
        await index.write_pages([*pages, rival, other])
        await index.commit([root("r", pages=(pages[0].page_id,))], [])

        await index.mark_checked([pages[1], rival])

        heads = await index.page_heads([RootId("r"), RootId("s"), RootId("nowhere")])
        assert {key: by_id(each) for key, each in heads.items()} == {
            "r": by_id([page_head(each, checked=each in (pages[1], rival)) for each in [*pages, rival]]),
            "s": by_id([page_head(other)]),
            "nowhere": {},
        }
        assert await index.pages([pages[1].page_id]) == {pages[1].page_id: pages[1]}

    async def test_a_mark_that_came_after_its_page_went_is_listed_as_an_unchecked_page_without_rows(
        self, index: Index
    ) -> None:
        stayed, gone = page("r", 1, 0), page("r", 2, 1, entries=2, edition=1, attempt="a2")
        await index.write_pages([stayed, gone])
        await index.discard([gone.page_id])

        await index.mark_checked([stayed, gone])

        lone = replace(page_head(gone), row_ids=())
        heads = (await index.page_heads([RootId("r")]))[RootId("r")]
        assert by_id(heads) == by_id([page_head(stayed, checked=True), lone])
        assert len(heads) == 2
        assert await index.pages([gone.page_id]) == {}
        assert await index.naming([RootId("r")], [gone.entries[0].chunk_id]) == {}

        await index.discard([lone.page_id])
        assert await index.page_heads([RootId("r")]) == {"r": [page_head(stayed, checked=True)]}

    async def test_a_document_may_have_more_pages_than_one_answer_takes(self, index: Index) -> None:
        many = [page("r", 1, part) for part in range(1_200)]
        await index.write_pages(many)
        await index.mark_checked(many[::2])

        heads = (await index.page_heads([RootId("r")]))[RootId("r")]

        assert len(heads) == 1_200
        assert {each.part for each in heads if each.checked} == set(range(0, 1_200, 2))

    async def test_discarded_pages_and_roots_are_gone_with_their_marks(self, index: Index) -> None:
        pages = [page("r", 1, part) for part in (0, 1)]
        roots = [root("r", version=version) for version in (1, 2, 3)]
        await index.write_pages(pages)
        await index.mark_checked(pages)
        await index.commit(roots, [watermark(0, 1)])

        for _ in range(2):
            await index.discard([pages[0].page_id, PageId("r:9:9:a1")], [roots[2].commit_id, CommitId("s:1:0:a1")])

        assert await index.page_heads([RootId("r")]) == {"r": [page_head(pages[1], checked=True)]}
        assert await index.pages([each.page_id for each in pages]) == {pages[1].page_id: pages[1]}
        assert await index.roots([RootId("r")]) == {"r": roots[1]}
        assert await index.watermarks() == [watermark(0, 1, commits=1)]

        await index.write_pages(pages[:1])
        heads = (await index.page_heads([RootId("r")]))[RootId("r")]
        assert by_id(heads) == by_id([page_head(pages[0]), page_head(pages[1], checked=True)])

        await index.discard([], [each.commit_id for each in roots])
        assert await index.roots([RootId("r")]) == {}
        assert await index.commits([RootId("r")]) == {"r": []}

    # Watermarks

    async def test_watermarks_are_the_last_of_each_partition_in_order(self, index: Index) -> None:
        await index.commit([], [watermark(10, 1), watermark(2, 5)])
        await index.commit([root("r")], [watermark(10, 9), watermark(0, 3)])

        assert await index.watermarks() == [
            watermark(0, 3, commits=1),
            watermark(2, 5, commits=1),
            watermark(10, 9, commits=2),
        ]

    async def test_a_watermark_never_falls_back_and_counts_every_commit(self, index: Index) -> None:
        await index.commit([], [watermark(0, 9)])
        await index.commit([], [watermark(0, 4), watermark(1, 4)])
        await index.commit([root("r")], [])

        assert await index.watermarks() == [watermark(0, 9, commits=2), watermark(1, 4, commits=1)]

    async def test_watermarks_of_two_writers_are_merged(self, index: Index, second: Index) -> None:
        counts: list[int] = []
        for writer, occurred_at in ((index, 5), (second, 9), (index, 7), (second, 3), (second, 4), (index, 2)):
            await writer.commit([], [watermark(0, occurred_at)])
            marks, seen = await index.watermarks(), await second.watermarks()
            assert marks == seen
            assert [mark.occurred_at for mark in marks] == [5 if not counts else 9]
            counts += [mark.commits for mark in marks]

        assert counts == [1, 2, 3, 4, 5, 6]
        assert await index.watermarks() == [watermark(0, 9, commits=6)]

    async def test_watermarks_of_an_old_writer_are_taken_over_and_nothing_falls_back(
        self, index: Index, second: Index
    ) -> None:
        for occurred_at in (50, 60):
            await index.commit([], [watermark(0, occurred_at), watermark(1, 10)])
        await second.commit([], [lately(0)])
        counts = [3]
        for _ in range(3):
            await second.take_over_watermarks(A_DAY_LATER)
            [mark, other] = await index.watermarks()
            assert (mark.occurred_at, mark.committed_at) == (60, lately(0).committed_at)
            # It commits nothing there: whoever does takes it over.
            assert other == watermark(1, 10, commits=2)
            counts.append(mark.commits)
        assert counts == sorted(counts)
        # What is taken over already is not counted again and again.
        assert counts[1] == counts[-1]

        # Nor is it where the writer was not dead, only idle: each of its commits counts once.
        del counts[:-1]
        for writer in (second, index, index, second):
            await writer.commit([], [lately(0)])
            [mark, _] = await index.watermarks()
            assert mark.occurred_at == 60
            counts.append(mark.commits)
        assert counts == list(range(counts[0], counts[0] + 5))

    async def test_commits_are_never_counted_twice_while_they_are_taken_over(self, index: Index, second: Index) -> None:
        """A reader who once saw a higher count would take the next commits for older ones."""
        for _ in range(5):
            await index.commit([], [watermark(0, 1)])
        await second.commit([], [lately(0)])
        done = asyncio.Event()

        async def read() -> int:
            most = 0
            while not done.is_set():
                most = max([most, *(mark.commits for mark in await index.watermarks())])
                await asyncio.sleep(0)
            return most

        readers = [asyncio.create_task(read()) for _ in range(3)]
        await second.take_over_watermarks(A_DAY_LATER)
        done.set()

        [after] = await index.watermarks()
        assert max(await asyncio.gather(*readers)) <= after.commits

    # Search

    async def test_dense_search_ranks_by_cosine(self, index: Index) -> None:
        rows = vectors((1.0,), (1.0, 1.0), (0.0, 1.0), (-1.0, 0.0))
        await index.insert([chunk(name) for name in "abcd"], rows)

        [one, two] = await index.dense(vectors((1.0,), (0.0, 2.0)), [scope(), scope()], limit=9, strong=True)

        assert ids(one) == ["a", "b", "c", "d"]
        assert [hit.score for hit in one] == pytest.approx([1, math.sqrt(0.5), 0, -1], abs=1e-6)
        assert ids(two)[:2] == ["c", "b"]

    async def test_hits_of_equal_score_are_ordered_by_id(self, index: Index) -> None:
        names = [f"c{number * 37 % 100:02d}" for number in range(100)]
        await index.insert([chunk(name) for name in names], vectors(*[(1.0,)] * 100))

        [dense] = await index.dense(vectors((1.0, 1.0)), [scope()], limit=100, strong=True)
        [lexical] = await index.lexical(["guid"], [scope()], limit=100, strong=True)

        assert ids(dense) == ids(lexical) == sorted(names)

    async def test_a_ranking_lists_a_chunk_once_by_its_best_row(self, index: Index) -> None:
        """While a document changes, several rows may hold a chunk."""
        rows = [
            chunk("a", lexical="fox dog hen"),
            chunk("a", row_id=row("a", "a2"), lexical="fox"),
            chunk("b", lexical="fox dog"),
        ]
        await index.insert(rows, vectors((0.0, 1.0), (1.0,), (1.0, 1.0)))

        [dense] = await index.dense(vectors((1.0,)), [scope()], limit=9, strong=True)
        [lexical] = await index.lexical(["fox"], [scope()], limit=9, strong=True)

        assert ids(dense) == ids(lexical) == ["a", "b"]
        assert [hit.score for hit in dense] == pytest.approx([1, math.sqrt(0.5)], abs=1e-6)
        assert lexical[0].score > lexical[1].score

    async def test_what_is_found_comes_with_its_row_whose_match_code_is_read_by_it(self, index: Index) -> None:
        printable = "".join(map(chr, range(ord("*"), ord("z") + 1))) + "~|"
        await index.insert(
            [chunk("a", match_code=printable, lexical="fox"), chunk("b", lexical="fox")], vectors((1.0,), (0.9, 0.1))
        )

        [dense] = await index.dense(vectors((1.0,)), [scope()], limit=9, strong=True)
        [lexical] = await index.lexical(["fox"], [scope()], limit=9, strong=True)

        rows = [hit.row_id for hit in dense]
        assert set(rows) == {hit.row_id for hit in lexical} == {row("a"), row("b")}
        assert await index.match_codes([*rows, row("c")]) == {row("a"): printable, row("b"): ""}

    async def test_a_ranking_is_no_longer_than_asked_for(self, index: Index) -> None:
        await index.insert([chunk(name) for name in "abc"], vectors((1.0,), (1.0, 0.1), (1.0, 0.9)))

        [ranking] = await index.dense(vectors((1.0,)), [scope()], limit=2, strong=False)

        assert ids(ranking) == ["a", "b"]

    async def test_a_term_that_is_asked_for_twice_weighs_twice(self, index: Index) -> None:
        await write(index, chunk("a", lexical="fox"), chunk("b", lexical="dog"))

        [once], [twice] = [await index.lexical([text], [scope()], limit=9, strong=True) for text in ("fox", "fox fox")]

        assert twice[0].score == pytest.approx(2 * once[0].score, rel=1e-3)

    async def test_lexical_search_scores_as_in_the_paper(self, index: Index) -> None:
        """Robertson and Zaragoza (2009), eq. 3.15, k1 = 1.2, b = 0.75, mean length 2.75."""
        texts = {"a": "fox fox dog", "b": "fox", "c": "dog cat bird fish cow", "d": "hen hen"}
        await write(index, *(chunk(name, lexical=text) for name, text in texts.items()))

        def term(documents: int, times: int, length: int) -> float:
            rarity = math.log(1 + (4 - documents + 0.5) / (documents + 0.5))
            return rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / 2.75))

        [ranking] = await index.lexical(["fox dog"], [scope()], limit=9, strong=True)

        assert {hit.chunk_id: hit.score for hit in ranking} == pytest.approx(
            {"a": term(2, 2, 3) + term(2, 1, 3), "b": term(2, 1, 1), "c": term(2, 1, 5)}, rel=1e-5
        )
        assert ids(ranking) == ["a", "b", "c"]

    async def test_terms_are_what_spaces_separate_and_nothing_is_folded(self, index: Index) -> None:
        terms = ["Straße", "strasse", "§", "din-4102", "a,b", "ä", "😀", "x" * 300, "the", "12.5", "C++", "漢字"]
        await write(index, *(chunk(f"t{number}", lexical=f"{term} filler") for number, term in enumerate(terms)))

        rankings = await index.lexical(terms, [scope()] * len(terms), limit=9, strong=True)

        assert [ids(ranking) for ranking in rankings] == [[f"t{number}"] for number in range(len(terms))]

    async def test_a_text_without_a_known_term_finds_nothing(self, index: Index) -> None:
        await write(index, chunk("a"), chunk("empty", lexical=""))

        assert await index.lexical(["", "   ", "unknown"], [scope()] * 3, limit=9, strong=True) == [[], [], []]

    async def test_each_query_is_answered_in_its_own_scope(self, index: Index) -> None:
        await write(index, chunk("a", tenant=TenantId("one")), chunk("b", tenant=TenantId("two")))
        scopes = [scope(tenant=TenantId(name)) for name in ("one", "two", "one", "none")]

        dense = await index.dense(any_vectors(4), scopes, limit=9, strong=True)
        lexical = await index.lexical(["guid", "guid", "", "guid"], scopes, limit=9, strong=True)

        assert [ids(ranking) for ranking in dense] == [["a"], ["b"], ["a"], []]
        assert [ids(ranking) for ranking in lexical] == [["a"], ["b"], [], []]

    async def test_chunks_are_visible_to_each_scope_as_they_are_found_by_it(self, index: Index) -> None:
        await write(
            index,
            chunk("mine", principals=("ann",)),
            chunk("theirs", principals=("bob",)),
            chunk("elsewhere", tenant=TenantId("other"), principals=("ann",)),
            chunk("filtered", principals=("ann",), language="en"),
        )
        german = Filter(field="language", operator=FilterOperator.EQ, values=("de",))
        wanted = [ChunkId(name) for name in ("theirs", "mine", "none", "elsewhere", "filtered", "mine")]

        seen = await index.visible(
            [wanted, wanted, []],
            [scope(german, principals=("ann",)), scope(principals=("bob",)), scope(principals=("ann",))],
        )

        assert [set(each) for each in seen] == [{"mine"}, {"theirs"}, set()]
        assert seen[0][ChunkId("mine")] == chunk("mine").root_id

    async def test_a_chunk_is_visible_to_whoever_may_see_one_of_its_rows(self, index: Index) -> None:
        await write(index, chunk("a", principals=("staff",)), chunk("a", row_id=row("a", "a2"), principals=("board",)))

        seen = await index.visible(
            [[ChunkId("a")]] * 3, [scope(principals=(name,)) for name in ("staff", "board", "other")]
        )

        assert seen == [{"a": "r0"}, {"a": "r0"}, {}]

    async def test_an_empty_index_holds_nothing(self, index: Index) -> None:
        assert await found(index, scope()) == set()
        assert await index.watermarks() == []
        assert [item async for item in index.all_roots()] == []
        assert [each async for some in index.all_rows() for each in some] == []
        assert await index.statistics() == Statistics(documents=0, deleted=0, chunks=0)

    async def test_no_query_finds_nothing(self, index: Index) -> None:
        assert await index.dense(np.zeros((0, DIM), dtype=np.float32), [], limit=9, strong=True) == []
        assert await index.lexical([], [], limit=9, strong=True) == []

    # Scopes

    async def test_a_row_is_seen_by_its_principals_and_by_nobody_where_it_has_none(self, index: Index) -> None:
        await write(
            index,
            chunk("everyone"),
            chunk("staff", principals=("staff",)),
            chunk("two", principals=("legal", "it")),
            chunk("nobody", principals=()),
        )

        assert await found(index, scope()) == {"everyone"}
        assert await found(index, scope(principals=("staff", "it"))) == {"everyone", "staff", "two"}
        assert await found(index, scope(principals=("Staff", "sta", "staff "))) == {"everyone"}

    async def test_only_the_levels_asked_for_are_seen_and_without_one_nothing(self, index: Index) -> None:
        await write(index, *(chunk(f"l{level}", level=level) for level in (0, 1, 2)))

        assert await found(index, scope(levels=(2, 0))) == {"l0", "l2"}
        assert await found(index, scope(levels=())) == set()

    @pytest.mark.parametrize("field", ["tenant", "principals", "document_id", "name", "media_type", "language"])
    async def test_a_nasty_value_is_found_by_itself_and_only_it(self, index: Index, field: str) -> None:
        values = {f"c{number}": text for number, text in enumerate(NASTY)}
        await write(
            index,
            *(chunk(key, **{field: (text,) if field == "principals" else text}) for key, text in values.items()),
        )

        for key, text in values.items():
            match field:
                case "tenant":
                    where = scope(tenant=TenantId(text))
                case "principals":
                    where = scope(principals=(text,))
                case _:
                    where = scope(Filter(field=field, operator=FilterOperator.EQ, values=(text,)))
            assert await found(index, where) == {key}

    async def test_a_nasty_attribute_is_found_by_itself_and_only_it(self, index: Index) -> None:
        keys = [text for text in NASTY if text]
        await write(index, *(chunk(f"k{number}", attributes={key: key}) for number, key in enumerate(keys)))

        for number, key in enumerate(keys):
            where = scope(Filter(field=f"attributes.{key}", operator=FilterOperator.EQ, values=(key,)))
            assert await found(index, where) == {f"k{number}"}

    @pytest.mark.parametrize(
        ("operator", "values", "expected"),
        [
            (FilterOperator.EQ, ["docs"], {"docs"}),
            (FilterOperator.NE, ["docs"], {"dev", "do_s", "none"}),
            (FilterOperator.IN, ["docs", "dev", "?"], {"docs", "dev"}),
            (FilterOperator.NOT_IN, ["docs", "dev"], {"do_s", "none"}),
            (FilterOperator.PREFIX, ["do"], {"docs", "do_s"}),
            (FilterOperator.PREFIX, ["do_"], {"do_s"}),
            (FilterOperator.PREFIX, [""], {"docs", "dev", "do_s"}),
        ],
    )
    async def test_attributes_are_compared_and_a_missing_one_differs_from_every_value(
        self, index: Index, operator: FilterOperator, values: list[str], expected: set[str]
    ) -> None:
        await write(
            index,
            *(chunk(team, attributes={"team": team}) for team in ("docs", "dev", "do_s")),
            chunk("none", attributes={}),
        )

        where = scope(Filter(field="attributes.team", operator=operator, values=tuple(values)))

        assert await found(index, where) == expected

    @pytest.mark.parametrize(
        ("left_out", "expected"),
        [
            (Exclusions(), {"a", "b", "c", "none"}),
            (Exclusions(roots=(RootId("ra"),)), {"b", "c", "none"}),
            (Exclusions(roots=(RootId("ra"), RootId("rb"))), {"c", "none"}),
            (Exclusions(attributes=((("team", "x"),),)), {"b", "none"}),
            (Exclusions(attributes=((("city", "y"), ("team", "x")),)), {"a", "b", "none"}),
            (Exclusions(attributes=((("city", "y"), ("team", "x")), (("team", "z"),))), {"a", "none"}),
            (Exclusions(everything=True), set()),
        ],
    )
    async def test_what_is_left_out_is_not_found_and_what_lacks_an_attribute_is(
        self, index: Index, left_out: Exclusions, expected: set[str]
    ) -> None:
        await write(
            index,
            chunk("a", root_id=RootId("ra"), attributes={"team": "x"}),
            chunk("b", root_id=RootId("rb"), attributes={"team": "z", "city": "y"}),
            chunk("c", root_id=RootId("rc"), attributes={"team": "x", "city": "y"}),
            chunk("none", root_id=RootId("rd"), attributes={}),
        )

        assert await found(index, scope(left_out=left_out)) == expected

    async def test_any_number_of_people_may_be_left_out(self, index: Index) -> None:
        people = [f"p{number}" for number in range(300)]
        await write(
            index,
            chunk("one", attributes={"subject": people[0]}),
            chunk("last", attributes={"subject": people[-1], "team": "x"}),
            chunk("other", attributes={"subject": "nobody", "team": "x"}),
            chunk("none", attributes={}),
        )
        alone = tuple((("subject", person),) for person in people)
        in_teams = tuple((("subject", person), ("team", "x")) for person in people)

        assert await found(index, scope(left_out=Exclusions(attributes=alone))) == {"other", "none"}
        assert await found(index, scope(left_out=Exclusions(attributes=in_teams))) == {"one", "other", "none"}

    async def test_all_filters_must_hold(self, index: Index) -> None:
        await write(
            index,
            chunk("a", kind=ChunkKind.CODE, language="de"),
            chunk("b", kind=ChunkKind.CODE, language="en"),
            chunk("c", kind=ChunkKind.PROSE, language="de"),
        )
        code = Filter(field="kind", operator=FilterOperator.EQ, values=("CODE",))
        german = Filter(field="language", operator=FilterOperator.NE, values=("en",))

        assert await found(index, scope(code, german)) == {"a"}

    @pytest.mark.parametrize(
        ("field", "operator", "values"),
        [
            ("text", FilterOperator.EQ, ("x",)),
            ("tenant", FilterOperator.EQ, ("x",)),
            ("attributes", FilterOperator.EQ, ("x",)),
            ("attributes.", FilterOperator.EQ, ("x",)),
            ("", FilterOperator.EQ, ("x",)),
            ("name", FilterOperator.EQ, ()),
            ("name", FilterOperator.EQ, ("a", "b")),
            ("name", FilterOperator.PREFIX, ("a", "b")),
            ("name", FilterOperator.IN, ()),
        ],
    )
    async def test_a_filter_that_breaks_its_contract_is_refused(
        self, index: Index, field: str, operator: FilterOperator, values: tuple[str, ...]
    ) -> None:
        await write(index, chunk("a"))

        with pytest.raises(Rejected):
            await found(index, scope(Filter(field=field, operator=operator, values=values)))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("attribute.year = 2024", "b"),
            ("attribute.year = '2024'", "b"),
            ("attribute.year >= 2024", "bc"),
            ("attribute.year < 2024", "a"),
            ("NOT attribute.year < 2024", "bcdef"),
            ("attribute.year != 2024", "acdef"),
            ("attribute.year > -1 AND NOT attribute.year IN (1999, 2024)", "c"),
            ("attribute.day = 2026-01-31", "ef"),
            ("attribute.day <= 2026-01-31", "ef"),
            ("attribute.day < 31.01.2026 OR attribute.year BETWEEN 2000 AND 2024", "b"),
            ("attribute.day > 2026-01-31T09:00", "f"),
            ("NOT attribute.day > 2026-01-31T09:00", "abcde"),
            ("attribute.year EXISTS", "abcd"),
            ("NOT attribute.year EXISTS", "ef"),
            ("attribute.year STARTS WITH 20", "bc"),
            ("attribute.year NOT STARTS WITH 20", "adef"),
            (
                "document_id NOT IN (x, 'a') AND (name = 'b' OR attribute.year STARTS WITH '2024.' OR language = fr)",
                "bc",
            ),
            (
                "NOT (name = 'b' OR NOT (media_type STARTS WITH 'text/' AND kind = PROSE))",
                "acdef",
            ),
        ],
    )
    async def test_a_condition_selects_what_it_says(self, index: Index, text: str, expected: str) -> None:
        of = {
            "a": {"year": "1999"},
            "b": {"year": "2024"},
            "c": {"year": "2024.5"},
            "d": {"year": "soon"},
            "e": {"day": "2026-01-31"},
            "f": {"day": "2026-01-31T10:30+01:00"},
        }
        await write(index, *(chunk(key, name=key, attributes=attributes) for key, attributes in of.items()))

        assert await found(index, scope(where=parse_condition(text))) == set(expected)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (" OR ".join(f"attribute.k{at} = 'v{at}'" for at in range(200)), "ab"),
            (" AND ".join(f"attribute.k{at} = 'v{at}'" for at in range(200)), "a"),
            (" AND ".join(f"attribute.n{at} >= {at}" for at in range(200)), "a"),
            ("NOT (" + " AND ".join(f"attribute.n{at} = {at}" for at in range(200)) + ")", "bc"),
            ("(attribute.k1 = 'v1' AND attribute.n1 = 1 OR " * 16 + "attribute.k0 = 'v0'" + ")" * 16, "ab"),
            (
                "(attribute.k1 != 'v1' AND attribute.n1 != 1 AND attribute.k2 NOT STARTS WITH 'v' AND " * 16
                + "name = 'c'"
                + ")" * 16,
                "c",
            ),
        ],
        ids=["or", "and", "numbers", "negated", "nested", "nested-negations"],
    )
    async def test_a_condition_may_have_as_many_comparisons_and_levels_as_the_language_allows(
        self, index: Index, text: str, expected: str
    ) -> None:
        many = {f"{kind}{at}": f"{prefix}{at}" for at in range(200) for kind, prefix in (("k", "v"), ("n", ""))}
        of = {"a": many, "b": {"k0": "v0"}, "c": {}}
        await write(index, *(chunk(key, name=key, attributes=attributes) for key, attributes in of.items()))

        assert await found(index, scope(where=parse_condition(text))) == set(expected)

    async def test_as_many_filters_as_a_query_may_have_hold_beside_a_nested_condition(self, index: Index) -> None:
        attributes = {f"k{at}": f"v{at}" for at in range(32)}
        await write(index, chunk("a", attributes=attributes), chunk("b", attributes={**attributes, "k31": "x"}))
        each = [
            Filter(field=f"attributes.{key}", operator=FilterOperator.EQ, values=(value,))
            for key, value in attributes.items()
        ]
        nested = parse_condition("(attribute.k1 = 'v1' AND attribute.k2 = 'x' OR " * 16 + "name != 'x'" + ")" * 16)

        assert await found(index, scope(*each, where=nested)) == {"a"}

    @FEW
    @given(condition=conditions)
    async def test_a_random_condition_selects_what_a_model_of_it_does(self, index: Index, condition: Condition) -> None:
        rows = of_all_kinds()
        if not await index.fetch([rows[0].row_id]):
            await write(index, *rows)

        [ranking] = await index.dense(vectors((1.0,)), [scope(where=condition)], limit=500, strong=True)

        assert set(ids(ranking)) == {row.chunk_id for row in rows if holds(condition, row)}

    # The whole index

    async def test_all_roots_are_read_once_each(self, index: Index) -> None:
        many = [root(f"r{number}", version=number, deleted=number % 3 == 0) for number in range(900)]
        await index.commit(many, [watermark(0, 1)])
        await index.commit([replace(many[5], version=6)], [])

        read = [item async for item in index.all_roots()]

        expected = {item.root_id: item for item in [*many, replace(many[5], version=6)]}
        assert len(read) == 900
        assert {item.root_id: item for item in read} == expected

    async def test_roots_are_selected_by_tenant_and_by_the_beginning_of_the_id(self, index: Index) -> None:
        tenants = [TenantId("acme"), TenantId("o'brien %")]
        names = ["handbook/a.md", 'handbook/ä "b".md', "handboo", "handbook", "notes/1"]
        every = [(tenant, DocumentId(name)) for tenant in tenants for name in names]
        await index.commit(
            [root(f"r{at}", tenant=tenant, document_id=name) for at, (tenant, name) in enumerate(every)],
            [watermark(0, 1)],
        )

        async def selected(**which: Any) -> list[tuple[str, str]]:
            return sorted([(item.tenant, item.document_id) async for item in index.all_roots(**which)])

        assert await selected() == sorted(every)
        assert await selected(tenant=tenants[1], prefix="handbook/ä") == [(tenants[1], names[1])]
        assert await selected(tenant=tenants[0], prefix="handbook") == [
            ("acme", name) for name in sorted(names[:2] + names[3:4])
        ]
        assert await selected(tenant=TenantId("nobody")) == []

    async def test_documents_made_otherwise_are_live_ones_with_another_fingerprint(self, index: Index) -> None:
        await index.commit(
            [root("a"), root("b", fingerprint="f2"), root("c", fingerprint="f3"), root("d", deleted=True)],
            [watermark(0, 1)],
        )

        assert await index.count_made_otherwise({"f1", "f2"}) == 1
        assert await index.count_made_otherwise({"f3"}) == 2

    async def test_documents_are_found_by_their_sources(self, index: Index) -> None:
        sources = [f"file:///h%C3%A4/a~b_{number}.md" for number in range(1200)]
        many = [root(f"r{number}", source_uri=source) for number, source in enumerate(sources)]
        await index.commit([*many, root("none"), root("web", source_uri="https://example.org/?q=1")], [])
        await index.commit([replace(many[0], version=2, source_uri="file:///elsewhere")], [])
        await index.commit([replace(many[1], version=2, deleted=True, source_uri=None)], [])
        await index.commit([root("again", tenant=TenantId("other"), source_uri=sources[2])], [])

        found = await index.roots_from([*sources, "file:///nowhere"])

        assert [item.root_id for item in found] == sorted([*(item.root_id for item in many[2:]), RootId("again")])
        assert [item.root_id for item in await index.roots_from(["file:///elsewhere"])] == ["r0"]
        assert await index.roots_from([]) == []

    @pytest.mark.parametrize("wrong", ["", 'file:///"', "file:///a b", "file:///ä", "https://example.org/?q=1"])
    async def test_what_is_no_address_of_a_file_is_refused(self, index: Index, wrong: str) -> None:
        with pytest.raises(Rejected):
            await index.roots_from([wrong])

    async def test_all_roots_are_read_in_the_order_of_their_ids_also_from_one_of_them_on(self, index: Index) -> None:
        names = sorted(f"r{number * 37 % 900}" for number in range(900))
        await index.commit([root(name) for name in names], [watermark(0, 1)])
        # More roots of one document than are read at a time.
        await index.commit([root("r500", version=number) for number in range(2, 450)], [])

        read = [item.root_id async for item in index.all_roots()]
        rest = [item.root_id async for item in index.all_roots(RootId(names[333]))]

        assert read == names
        assert rest == names[334:]

    async def test_statistics_count_live_and_deleted_documents_and_chunks(self, index: Index) -> None:
        await index.commit([root("a"), root("b"), root("c", deleted=True)], [watermark(0, 1)])
        await write(index, chunk("x"), chunk("y"), chunk("y", row_id=row("y", "a2")))

        assert await index.statistics() == Statistics(documents=2, deleted=1, chunks=3)

    async def test_only_old_deletions_are_forgotten(self, index: Index) -> None:
        await index.commit(
            [
                root("old", deleted=True, searchable_at=Timestamp(99)),
                root("new", deleted=True, searchable_at=Timestamp(100)),
                root("live", searchable_at=Timestamp(1)),
            ],
            [watermark(0, 1)],
        )

        first: list[Root] = []

        async def see(purged: Root) -> bool:
            assert await index.roots([purged.root_id]), "it is still there"
            first.append(purged)
            return True

        assert await index.purge_deleted(Timestamp(100), first=see) == 1

        assert [each.root_id for each in first] == ["old"]
        assert set(await index.roots([RootId(name) for name in ("old", "new", "live")])) == {"new", "live"}
        assert await index.purge_deleted(Timestamp(100)) == 0
        assert await index.watermarks() == [watermark(0, 1, commits=1)]

    async def test_a_deletion_is_forgotten_only_where_nothing_else_of_its_document_is_left(self, index: Index) -> None:
        names = ("alone", "twice", "young", "raised", "late", "row", "page", "marked", "mark")
        old = [root(name, version=5, deleted=True, searchable_at=Timestamp(1)) for name in names]
        more = [
            root("twice", version=4, deleted=True, searchable_at=Timestamp(2)),
            root("young", version=4, deleted=True, searchable_at=Timestamp(200)),
            root("raised", version=6, searchable_at=Timestamp(2)),
            # It would count as soon as the deletion were gone.
            root("late", version=4, searchable_at=Timestamp(2)),
        ]
        marked, mark = page("marked", 4, 0), page("mark", 4, 0)
        await index.commit([*old, *more], [])
        await write(index, chunk("c", root_id=RootId("row")))
        await index.write_pages([page("page", 4, 0), marked])
        await index.mark_checked([marked, mark])

        assert await index.purge_deleted(Timestamp(100)) == 2

        assert set(await index.roots([RootId(name) for name in names])) == {*names} - {"alone", "twice"}
        assert len((await index.commits([RootId("late")]))[RootId("late")]) == 2

        await index.delete([row("c")])
        await index.discard([page("page", 4, 0).page_id, marked.page_id, mark.page_id], [more[3].commit_id])
        assert await index.purge_deleted(Timestamp(100)) == 5
        assert set(await index.roots([RootId(name) for name in names])) == {"young", "raised"}
        assert await index.purge_deleted(Timestamp(201)) == 1

    async def test_a_deletion_that_may_not_go_yet_stays_and_the_others_go(self, index: Index) -> None:
        names = ("a", "b", "c")
        gone = [root(name, version=5, deleted=True, searchable_at=Timestamp(1)) for name in names]
        older = root("b", version=4, deleted=True, searchable_at=Timestamp(1))
        await index.commit([*gone, older], [])

        async def may_go(purged: Root) -> bool:
            # Neither may the one that outranks it: the fence of the document would be lower without it.
            return purged.commit_id != older.commit_id

        assert await index.purge_deleted(Timestamp(100), first=may_go) == 2

        assert set(await index.roots([RootId(name) for name in names])) == {"b"}
        assert len((await index.commits([RootId("b")]))[RootId("b")]) == 2

    async def test_a_deletion_stays_if_its_document_comes_back_while_it_is_purged(self, index: Index) -> None:
        names = ("committed", "written", "paged", "gone")
        await index.commit([root(name, version=5, deleted=True, searchable_at=Timestamp(1)) for name in names], [])

        async def come_back(purged: Root) -> bool:
            match purged.root_id:
                case "committed":
                    await index.commit([root("committed", version=6)], [])
                case "written":
                    await write(index, chunk("c", root_id=RootId("written")))
                case "paged":
                    await index.write_pages([page("paged", 6, 0)])
            return True

        assert await index.purge_deleted(Timestamp(100), first=come_back) == 1

        every = await index.commits([RootId(name) for name in names])
        assert {name: len(roots) for name, roots in every.items()} == {
            "committed": 2,
            "written": 1,
            "paged": 1,
            "gone": 0,
        }
        # Encrypted rows have kept their key.
        assert set(await index.fetch([row("c")])) == {row("c")}


class TestMemoryIndex(IndexContract):
    @pytest.fixture
    def index(self) -> MemoryIndex:
        return MemoryIndex(GENERATION)

    @pytest.fixture
    def second(self, index: MemoryIndex) -> MemoryIndex:
        """All processes that share one are one."""
        return index


@pytest.fixture(scope="module")
async def opened(store: MilvusSettings) -> AsyncIterator[tuple[MilvusIndex, MilvusIndex]]:
    async with MilvusIndex(store, GENERATION) as first, MilvusIndex(store, GENERATION) as second:
        yield first, second


@pytest.fixture(scope="module")
async def encrypted(
    store: MilvusSettings, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[MilvusIndex, MilvusIndex]]:
    path = tmp_path_factory.mktemp("keys") / "freki.keys"
    make_keys(path)
    keys = EncryptionSettings(keys="local", key_file=path)
    generation = replace(GENERATION, name="encrypted")
    async with (
        MilvusIndex(store, generation, encryption=keys) as first,
        MilvusIndex(store, generation, encryption=keys) as second,
    ):
        yield first, second


class TestMilvusIndex(IndexContract):
    @pytest.fixture
    async def index(self, opened: tuple[MilvusIndex, MilvusIndex]) -> MilvusIndex:
        first, _ = opened
        for each in opened:
            each._watermarks = WatermarkWriter()
        for layout in LAYOUTS:
            delete = first._store._client.delete
            await first._store._call("clear", layout, delete, filter=f'{layout.key} > ""')
        return first

    @pytest.fixture
    def second(self, index: MilvusIndex, opened: tuple[MilvusIndex, MilvusIndex]) -> MilvusIndex:
        """Another process on the same store, which is empty."""
        assert opened[0] is index
        return opened[1]

    async def test_watermarks_of_many_ended_processes_become_one(self, index: MilvusIndex) -> None:
        for commits in (1, 2, 3):
            for _ in range(commits):
                await index.commit([], [watermark(0, 1), watermark(1, 1)])
            index._watermarks = WatermarkWriter()
        await index.commit([], [lately(0), lately(1)])

        assert await index.take_over_watermarks(A_DAY_LATER) == 6

        assert [mark.commits for mark in await index.watermarks()] >= [7, 7]
        rows = await index._store.count(DOCUMENTS, 'record == "watermark"')
        assert rows <= 4, "every answer reads all of them"


class TestEncryptedIndex(TestMilvusIndex):
    @pytest.fixture
    def opened(self, encrypted: tuple[MilvusIndex, MilvusIndex]) -> tuple[MilvusIndex, MilvusIndex]:
        return encrypted
