import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from freki.infra.errors import Rejected
from freki.infra.memory_index import MemoryIndex
from freki.infra.milvus.index import MilvusIndex
from freki.infra.milvus.layout import LAYOUTS
from freki.infra.settings import MilvusSettings
from freki.schemas import ChunkId, ChunkKind, Filter, FilterOperator, RootId, TenantId, Timestamp
from freki.schemas.index import Candidate, IndexedChunk, KnownChunk, ManifestPage, Passage, Root, Scope, Statistics
from freki.streams.ports import ChunkRows, ChunkSearch, Roots
from tests.contract.index_records import (
    DIM,
    GENERATION,
    NASTY,
    Floats,
    any_vectors,
    chunk,
    page,
    root,
    scope,
    vectors,
    watermark,
)
from tests.strategies import records

Index = MilvusIndex | MemoryIndex

# The index is one for all examples, and each subclass runs the test: both are meant.
FEW = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


async def write(index: Index, *rows: IndexedChunk) -> None:
    await index.upsert(rows, any_vectors(len(rows)))


def ids(ranking: Sequence[Candidate]) -> list[str]:
    return [candidate.chunk_id for candidate in ranking]


async def found(index: Index, where: Scope) -> set[str]:
    """Search by both retrievers for all that the scope may see."""
    [dense] = await index.dense(vectors((1.0,)), [where], limit=500, strong=True)
    [lexical] = await index.lexical(["guid"], [where], limit=500, strong=True)
    assert set(ids(dense)) == set(ids(lexical))
    return set(ids(dense))


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

        await index.upsert(rows, matrix)

        fetched = await index.fetch([row.chunk_id for row in rows])
        assert {key: row for key, (row, _) in fetched.items()} == {row.chunk_id: row for row in rows}
        assert await index.passages([row.chunk_id for row in rows]) == {
            row.chunk_id: Passage(
                text=row.text, heading_path=row.heading_path, context=row.context, context_key=row.context_key
            )
            for row in rows
        }
        for row, vector in zip(rows, matrix, strict=True):
            np.testing.assert_array_equal(fetched[row.chunk_id][1], vector)

    @FEW
    @given(row=records(IndexedChunk))
    async def test_any_row_is_read_back_as_it_was_written(self, index: Index, row: IndexedChunk) -> None:
        row = replace(row, chunk_id=ChunkId("any"), root_id=RootId("r"))

        await write(index, row)

        assert (await index.fetch([row.chunk_id]))[row.chunk_id][0] == row

    async def test_known_tells_what_was_written_and_leaves_out_what_was_not(self, index: Index) -> None:
        await write(index, chunk("a", kind=ChunkKind.TABLE, embedder="e1", facets="f7", context_key="k9"), chunk("b"))

        known = await index.known([ChunkId("a"), ChunkId("nowhere"), ChunkId("a")])

        assert set(known) == {"a"}
        assert known[ChunkId("a")] == KnownChunk(
            chunk_id=ChunkId("a"), kind=ChunkKind.TABLE, embedder="e1", facets="f7", context_key="k9"
        )
        assert await index.fetch([ChunkId("nowhere")]) == {}
        assert await index.passages([ChunkId("nowhere")]) == {}

    async def test_writing_the_same_rows_twice_changes_nothing(self, index: Index) -> None:
        rows = [chunk("a"), chunk("b")]
        await write(index, *rows)
        before = await found(index, scope())

        await write(index, *rows)

        assert await found(index, scope()) == before
        assert (await index.statistics()).chunks == 2

    async def test_writing_a_row_again_replaces_row_and_vector(self, index: Index) -> None:
        await index.upsert([chunk("a", lexical="old")], vectors((1.0,)))

        await index.upsert([chunk("a", lexical="new", principals=("staff",))], vectors((0.0, 1.0)))

        row, vector = (await index.fetch([ChunkId("a")]))[ChunkId("a")]
        assert (row.lexical, row.principals) == ("new", ("staff",))
        np.testing.assert_array_equal(vector, vectors((0.0, 1.0))[0])
        staff = scope(principals=("staff",))
        old, new = await index.lexical(["old", "new"], [staff, staff], limit=9, strong=True)
        assert (ids(old), ids(new)) == ([], ["a"])

    async def test_rows_are_listed_by_the_versions_that_wrote_them(self, index: Index) -> None:
        await write(
            index,
            *(chunk(f"v{version}", version=version) for version in (1, 2, 3)),
            chunk("other", root_id=RootId("r1"), version=1),
            chunk("third", root_id=RootId("r2"), version=1),
        )

        listed = await index.ids_of({RootId("r0"): 3, RootId("r1"): 1, RootId("r2"): 2, RootId("nowhere"): 9})

        assert listed == {"r0": {"v1", "v2"}, "r1": set(), "r2": {"third"}, "nowhere": set()}

    async def test_a_document_may_have_more_rows_than_one_answer_takes(self, index: Index) -> None:
        many = 16_384 + 300
        await write(index, *(chunk(f"m{number * 7919 % many:05d}", text="", lexical="x") for number in range(many)))

        listed = await index.ids_of({RootId("r0"): 2})

        assert listed == {"r0": {f"m{number:05d}" for number in range(many)}}
        assert len(await index.known(sorted(listed[RootId("r0")]))) == many
        await index.delete(sorted(listed[RootId("r0")]))
        assert (await index.statistics()).chunks == 0

    async def test_deleted_rows_are_gone_and_absent_ones_are_no_error(self, index: Index) -> None:
        await write(index, chunk("a"), chunk("b"))

        await index.delete([ChunkId("a"), ChunkId("nowhere")])

        assert set(await index.known([ChunkId("a"), ChunkId("b")])) == {"b"}
        assert await found(index, scope()) == {"b"}

    @pytest.mark.parametrize(
        "changes",
        [
            {"text": "x" * 65_536},
            {"context": "😀" * 16_384},
            {"lexical": "x " * 32_768},
            {"attributes": {"key": "x" * 65_536}},
            {"principals": tuple(f"p{number}" for number in range(4_097))},
            {"text": "\ud800"},
            {"root_id": RootId('"')},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    async def test_a_row_that_the_store_cannot_take_is_refused_and_nothing_is_written(
        self, index: Index, changes: dict[str, Any]
    ) -> None:
        with pytest.raises(Rejected, match=next(iter(changes)).removesuffix("_id")):
            await write(index, chunk("good"), chunk("bad", **changes))

        assert await index.known([ChunkId("good"), ChunkId("bad")]) == {}

    async def test_a_row_at_the_limits_of_the_store_is_taken(self, index: Index) -> None:
        largest = chunk("a", text="😀" * 16_383 + "abc", context="x" * 65_535, attributes={"key": "x" * 65_525})

        await write(index, largest)

        assert (await index.fetch([largest.chunk_id]))[largest.chunk_id][0] == largest

    @pytest.mark.parametrize("matrix", [np.ones((1, DIM + 1)), np.ones((2, DIM)), np.full((1, DIM), np.nan)])
    async def test_vectors_of_another_shape_or_without_a_value_are_refused(self, index: Index, matrix: Floats) -> None:
        with pytest.raises(Rejected, match="vector"):
            await index.upsert([chunk("a")], matrix.astype(np.float32))
        with pytest.raises(Rejected, match="vector"):
            await index.dense(matrix.astype(np.float32), [scope()], limit=1, strong=True)

        assert await index.known([ChunkId("a")]) == {}

    @pytest.mark.parametrize("wrong", ["", "a b", '"] or chunk_id != ["', "x" * 65, "a\n"])
    async def test_what_cannot_be_an_id_is_refused(self, index: Index, wrong: str) -> None:
        for refused in (
            index.known([ChunkId(wrong)]),
            index.fetch([ChunkId(wrong)]),
            index.delete([ChunkId(wrong)]),
            index.ids_of({RootId(wrong): 1}),
            index.roots([RootId(wrong)]),
            index.pages({RootId(wrong): 1}),
            index.commit([root(wrong)], []),
        ):
            with pytest.raises(Rejected, match="no id"):
                await refused

    # Roots and manifests

    async def test_a_root_is_read_back_as_it_was_committed(self, index: Index) -> None:
        roots = [
            root(f"r{number}", name=text, source_uri=text, principals=(text,), attributes={f"k{text}": text})
            for number, text in enumerate(NASTY)
        ]

        await index.commit([*roots, root("none"), root("dead", deleted=True)], [])

        read = await index.roots([*(item.root_id for item in roots), RootId("none"), RootId("dead"), RootId("nowhere")])
        assert read == {item.root_id: item for item in [*roots, root("none"), root("dead", deleted=True)]}

    @FEW
    @given(item=records(Root))
    async def test_any_root_is_read_back_as_it_was_committed(self, index: Index, item: Root) -> None:
        item = replace(item, root_id=RootId("any"))

        await index.commit([item], [])

        assert await index.roots([RootId("any")]) == {"any": item}

    async def test_the_last_commit_counts_however_often_and_whatever_its_version(self, index: Index) -> None:
        commits = [root("r", version=version, deleted=version == 4) for version in (1, 5, 5, 4, 9, 2)]

        for item in commits:
            await index.commit([item], [])
            assert await index.roots([RootId("r")]) == {"r": item}

        await index.commit([root("r", version=7), root("r", version=8)], [])
        assert (await index.roots([RootId("r")]))[RootId("r")].version == 8

    async def test_a_root_is_never_missing_while_it_is_committed_again(self, index: Index) -> None:
        await index.commit([root("r", version=0)], [watermark(0, 0)])
        done = asyncio.Event()

        async def read() -> list[int]:
            versions = []
            while not done.is_set():
                versions.append((await index.roots([RootId("r")]))[RootId("r")].version)
                assert len(await index.watermarks()) == 1
                await asyncio.sleep(0)
            return versions

        readers = [asyncio.create_task(read()) for _ in range(3)]
        for version in range(1, 25):
            await index.commit([root("r", version=version)], [watermark(0, version)])
        done.set()

        for versions in await asyncio.gather(*readers):
            assert versions == sorted(versions)

    async def test_many_roots_are_committed_together(self, index: Index) -> None:
        many = [root(f"r{number}", version=number) for number in range(3_000)]

        await index.commit(many, [])

        assert await index.roots([item.root_id for item in many]) == {item.root_id: item for item in many}

    async def test_pages_are_read_in_order(self, index: Index) -> None:
        pages = [page("r", 7, part, entries=3) for part in (10, 2, 0, 1)]
        await index.write_pages([*pages, page("r", 8, 0), page("s", 7, 0), page("r", 77, 0)])

        read = await index.pages({RootId("r"): 7, RootId("s"): 7, RootId("nowhere"): 1})

        assert read == {
            "r": sorted(pages, key=lambda item: item.part),
            "s": [page("s", 7, 0)],
            "nowhere": [],
        }

    @FEW
    @given(item=records(ManifestPage))
    async def test_any_page_is_read_back_as_it_was_written(self, index: Index, item: ManifestPage) -> None:
        item = replace(item, root_id=RootId("any"), version=abs(item.version) % 1000, part=abs(item.part) % 1000)

        await index.write_pages([item])

        assert item in (await index.pages({item.root_id: item.version}))[item.root_id]

    async def test_a_full_page_of_the_widest_characters_is_taken(self, index: Index) -> None:
        largest = page("r", 1, 0, entries=512, overlap="😀" * 2_000, path="0/" * 100)

        await index.write_pages([largest])

        assert await index.pages({RootId("r"): 1}) == {"r": [largest]}

    async def test_a_chunk_is_placed_in_the_part_that_names_it(self, index: Index) -> None:
        pages = [page("r", 7, part, entries=3) for part in range(3)]
        await index.write_pages([*pages, page("r", 8, 0), page("s", 7, 0)])
        named = [entry.chunk_id for each in pages for entry in each.entries]

        placed = await index.places({RootId("r"): 7, RootId("nowhere"): 1}, [*named[2:5], ChunkId("unknown")])

        expected = {entry.chunk_id: each.part for each in pages for entry in each.entries}
        assert placed == {"r": {chunk_id: expected[chunk_id] for chunk_id in named[2:5]}, "nowhere": {}}
        assert await index.places({RootId("r"): 7}, []) == {"r": {}}

    async def test_single_pages_are_read_in_order(self, index: Index) -> None:
        pages = [page("r", 7, part) for part in range(4)]
        await index.write_pages([*pages, page("r", 8, 1)])

        read = await index.parts([(RootId("r"), 7, 3), (RootId("r"), 7, 1), (RootId("r"), 7, 9), (RootId("s"), 1, 0)])

        assert read == {"r": [pages[1], pages[3]], "s": []}

    async def test_a_manifest_may_have_more_pages_than_one_call_takes(self, index: Index) -> None:
        many = [page("r", 1, part, entries=100) for part in range(250)]

        await index.write_pages(many)

        assert await index.pages({RootId("r"): 1}) == {"r": many}

    async def test_sweeping_removes_pages_of_older_versions_only(self, index: Index) -> None:
        await index.write_pages(
            [page(name, version, part) for name in "rst" for version in (1, 2, 3) for part in (0, 1)]
        )

        await index.sweep_pages({RootId("r"): 3, RootId("s"): 1, RootId("nowhere"): 5})

        async def left(name: str) -> list[int]:
            return [version for version in (1, 2, 3) if (await index.pages({RootId(name): version}))[RootId(name)]]

        assert [await left(name) for name in "rst"] == [[3], [1, 2, 3], [1, 2, 3]]

    async def test_pages_above_a_version_promise_their_chunks(self, index: Index) -> None:
        pages = {version: page("r", version, 0, entries=3) for version in (7, 8, 9)}
        await index.write_pages([*pages.values(), page("s", 3, 0)])

        promised = await index.promised({RootId("r"): 7, RootId("s"): 3, RootId("nowhere"): 0})

        assert promised == {
            "r": {entry.chunk_id for version in (8, 9) for entry in pages[version].entries},
            "s": set(),
            "nowhere": set(),
        }

    async def test_watermarks_are_the_last_of_each_partition_in_order(self, index: Index) -> None:
        await index.commit([], [watermark(10, 1), watermark(2, 5)])
        await index.commit([root("r")], [watermark(10, 9), watermark(0, 3)])

        assert await index.watermarks() == [watermark(0, 3), watermark(2, 5), watermark(10, 9)]

    # Search

    async def test_dense_search_ranks_by_cosine(self, index: Index) -> None:
        rows = vectors((1.0,), (1.0, 1.0), (0.0, 1.0), (-1.0, 0.0))
        await index.upsert([chunk(name) for name in "abcd"], rows)

        [one, two] = await index.dense(vectors((1.0,), (0.0, 2.0)), [scope(), scope()], limit=9, strong=True)

        assert ids(one) == ["a", "b", "c", "d"]
        assert [hit.score for hit in one] == pytest.approx([1, math.sqrt(0.5), 0, -1], abs=1e-6)
        assert ids(two)[:2] == ["c", "b"]

    async def test_hits_of_equal_score_are_ordered_by_id(self, index: Index) -> None:
        names = [f"c{number * 37 % 100:02d}" for number in range(100)]
        await index.upsert([chunk(name) for name in names], vectors(*[(1.0,)] * 100))

        [dense] = await index.dense(vectors((1.0, 1.0)), [scope()], limit=100, strong=True)
        [lexical] = await index.lexical(["guid"], [scope()], limit=100, strong=True)

        assert ids(dense) == ids(lexical) == sorted(names)

    async def test_a_ranking_is_no_longer_than_asked_for(self, index: Index) -> None:
        await index.upsert([chunk(name) for name in "abc"], vectors((1.0,), (1.0, 0.1), (1.0, 0.9)))

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

    async def test_an_empty_index_holds_nothing(self, index: Index) -> None:
        assert await found(index, scope()) == set()
        assert await index.watermarks() == []
        assert [item async for item in index.all_roots()] == []
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

    # The whole index

    async def test_all_roots_are_read_once_each(self, index: Index) -> None:
        many = [root(f"r{number}", version=number, deleted=number % 3 == 0) for number in range(900)]
        await index.commit(many, [watermark(0, 1)])
        await index.commit([replace(many[5], version=6)], [])

        read = [item async for item in index.all_roots()]

        expected = {item.root_id: item for item in [*many, replace(many[5], version=6)]}
        assert len(read) == 900
        assert {item.root_id: item for item in read} == expected

    async def test_statistics_count_live_and_deleted_documents_and_chunks(self, index: Index) -> None:
        await index.commit([root("a"), root("b"), root("c", deleted=True)], [watermark(0, 1)])
        await index.commit([root("b", deleted=True)], [])
        await write(index, chunk("x"), chunk("y"), chunk("z"))

        assert await index.statistics() == Statistics(documents=1, deleted=2, chunks=3)

    async def test_only_old_deletions_are_forgotten(self, index: Index) -> None:
        await index.commit(
            [
                root("old", deleted=True, searchable_at=Timestamp(99)),
                root("new", deleted=True, searchable_at=Timestamp(100)),
                root("live", searchable_at=Timestamp(1)),
                root("raised", deleted=True, searchable_at=Timestamp(1)),
            ],
            [watermark(0, 1)],
        )
        await index.commit([root("raised", searchable_at=Timestamp(2))], [])

        assert await index.purge_deleted(Timestamp(100)) == 1

        assert set(await index.roots([RootId(name) for name in ("old", "new", "live", "raised")])) == {
            "new",
            "live",
            "raised",
        }
        assert await index.purge_deleted(Timestamp(100)) == 0
        assert await index.watermarks() == [watermark(0, 1)]


class TestMemoryIndex(IndexContract):
    @pytest.fixture
    def index(self) -> MemoryIndex:
        return MemoryIndex(GENERATION)


@pytest.fixture(scope="module")
async def opened(store: MilvusSettings) -> AsyncIterator[MilvusIndex]:
    async with MilvusIndex(store, GENERATION) as opened:
        yield opened


class TestMilvusIndex(IndexContract):
    @pytest.fixture
    async def index(self, opened: MilvusIndex) -> MilvusIndex:
        for layout in LAYOUTS:
            delete = opened._store._client.delete
            await opened._store._call("clear", layout, delete, filter=f'{layout.key} > ""')
        return opened
