"""Rows are read from the store once, and what is kept of them is what the store holds."""

import gc
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.caches import BoundedCache
from freki.schemas import ChunkKind
from freki.schemas.index import ChunkContent, Passage, RowId
from freki.streams.retrieve.cache.known_rows import KnownRows, RowCaches
from tests.contract.index_records import GENERATION, chunk, row, vectors
from tests.memory_index import MemoryIndex
from tests.unit.allocated import allocated_by

NAMES = "abcd"
READS = ("match_codes", "contents", "passages")

reads = st.lists(st.tuples(st.sampled_from(READS), st.lists(st.sampled_from([*NAMES, "missing"]), unique=True)))


class CountingIndex(MemoryIndex):
    """Counts how often each method read each row."""

    def __init__(self) -> None:
        super().__init__(GENERATION)
        self.read: Counter[tuple[str, RowId]] = Counter()

    async def match_codes(self, row_ids: Sequence[RowId]) -> Any:
        self.read.update(("match_codes", row_id) for row_id in row_ids)
        return await super().match_codes(row_ids)

    async def contents(self, row_ids: Sequence[RowId]) -> Any:
        self.read.update(("contents", row_id) for row_id in row_ids)
        return await super().contents(row_ids)

    async def passages(self, row_ids: Sequence[RowId]) -> Any:
        self.read.update(("passages", row_id) for row_id in row_ids)
        return await super().passages(row_ids)


def known_rows(index: MemoryIndex, *, most_bytes: int = 2**20) -> KnownRows:
    def cache(name: str) -> BoundedCache[Any]:
        return BoundedCache(name, most_bytes=most_bytes, seconds=60)

    return KnownRows(index, RowCaches(**{name: cache(name) for name in READS}))


async def filled() -> CountingIndex:
    index = CountingIndex()
    rows = [chunk(name, text=f"Text {name}", match_code=name, heading_path=("H", name)) for name in NAMES]
    await index.insert(rows, vectors(*((1.0, float(place)) for place in range(len(NAMES)))))
    return index


class Reading:
    """Rows with texts of their own, as a store reads them."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def match_codes(self, row_ids: Sequence[RowId]) -> Any:
        return {row_id: own("z" * 9_600) for row_id in row_ids}

    async def contents(self, row_ids: Sequence[RowId]) -> Any:
        return {
            row_id: (
                ChunkContent(
                    level=0,
                    kind=ChunkKind.PROSE,
                    language=own("de"),
                    heading_path=(self._own()[:40], self._own()[:30]),
                    text=self._own(),
                    context=self._own()[:200],
                    context_key=own("k" * 64),
                    lexical=self._own()[:900],
                    tokens=300,
                ),
                np.zeros(256, np.float32),
            )
            for row_id in row_ids
        }

    async def passages(self, row_ids: Sequence[RowId]) -> Any:
        return {
            row_id: Passage(
                text=self._own(),
                heading_path=(self._own()[:40], self._own()[:30]),
                context=self._own()[:200],
                context_key=own("k" * 64),
            )
            for row_id in row_ids
        }

    def _own(self) -> str:
        return own(self._text)


def own(text: str) -> str:
    """Return another string with the same characters."""
    return text.encode().decode()


@pytest.mark.parametrize("method", READS)
@pytest.mark.parametrize("text", ["a lease", "während", "der „Mieter“", "арендатор", "a 😀 lease"])
async def test_the_memory_of_what_is_kept_is_counted_in_every_script(method: str, text: str) -> None:
    caches = {name: BoundedCache[Any](name, most_bytes=2**26, seconds=60) for name in READS}
    rows = KnownRows(Reading((text * 1200)[:1200]), RowCaches(**caches))
    row_ids = [row(str(place)) for place in range(60)]

    with allocated_by(__file__) as allocated:
        await getattr(rows, method)(row_ids)
        gc.collect()
        held_bytes = allocated.held_bytes()

    assert caches[method].held_bytes == pytest.approx(held_bytes, rel=0.15)


def plain(read: Any) -> Any:
    """Return contents with vectors that can be compared."""
    return {
        row_id: (value[0], value[1].tolist()) if isinstance(value, tuple) else value for row_id, value in read.items()
    }


@given(reads=reads, most_bytes=st.sampled_from([0, 4_000, 2**20]))
async def test_what_is_kept_is_what_the_store_holds(reads: Sequence[tuple[str, list[str]]], most_bytes: int) -> None:
    index = await filled()
    rows = known_rows(index, most_bytes=most_bytes)

    for method, names in reads:
        row_ids = [row(name) for name in names]
        found = await getattr(rows, method)(row_ids)
        assert plain(found) == plain(await getattr(MemoryIndex, method)(index, row_ids))


@given(reads=reads)
async def test_each_row_is_read_once(reads: Sequence[tuple[str, list[str]]]) -> None:
    index = await filled()
    rows = known_rows(index)

    for method, names in reads:
        await getattr(rows, method)([row(name) for name in names])

    assert all(times == 1 for (_, row_id), times in index.read.items() if row_id != row("missing"))


async def test_texts_of_rows_whose_contents_are_kept_are_not_read() -> None:
    index = await filled()
    rows = known_rows(index)
    contents = await rows.contents([row("a")])

    passages = await rows.passages([row("a"), row("b")])

    assert passages[row("a")].text == contents[row("a")][0].text == "Text a"
    assert ("passages", row("a")) not in index.read
    assert np.isfinite(contents[row("a")][1]).all()


async def test_a_row_that_was_missing_is_looked_for_again() -> None:
    index = await filled()
    rows = known_rows(index)
    assert await rows.match_codes([row("later")]) == {}

    await index.insert([chunk("later", match_code="z")], vectors((1.0,)))

    assert await rows.match_codes([row("later")]) == {row("later"): "z"}
