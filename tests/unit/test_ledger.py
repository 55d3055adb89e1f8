from dataclasses import dataclass

from freki.streams.feed.ledger import ITSELF
from tests.unit.published import Record, World


@dataclass(frozen=True)
class Entry:
    text: str
    numbers: tuple[int, ...] = ()


async def test_what_a_source_wrote_it_finds_after_a_restart() -> None:
    world = World()
    ledger = await world.open_ledger("one", Entry)
    await ledger.write({ITSELF: Entry("all of it"), "ü/1": Entry("old"), "2": Entry("two", (1, 2))})
    await ledger.write({"ü/1": Entry("new"), "2": None})

    again = await world.open_ledger("one", Entry)

    assert again[ITSELF] == Entry("all of it")
    assert dict(again) == {"ü/1": Entry("new")}
    assert dict(again) == dict(ledger)


async def test_sources_do_not_see_each_other() -> None:
    world = World()
    await (await world.open_ledger("one", Entry)).write({"x": Entry("1")})
    await (await world.open_ledger("two", Entry)).write({"x": Entry("2")})

    assert (await world.open_ledger("one", Entry))["x"] == Entry("1")


async def test_entries_of_another_form_are_as_if_there_were_none() -> None:
    world = World()
    await (await world.open_ledger("one", Entry)).write({"x": Entry("1")})
    for key, value in (
        (b'["one", "x"]', b"{}"),
        (b"no JSON", b"{}"),
        (b'"text"', b"{}"),
        (b"[1]", b"{}"),
        (None, b"{}"),
    ):
        world.ledger.append(Record(key=key, value=value))

    assert dict(await world.open_ledger("one", Entry)) == {}


async def test_the_last_entry_of_an_item_counts_in_whatever_order_added_partitions_are_read() -> None:
    before = Record(key=b'["one", "x"]', value=b'{"text": "old"}', timestamp_ms=1_000)
    after = Record(key=b'["one", "x"]', value=b'{"text": "new"}', partition=4, timestamp_ms=2_000)

    for order in ([before, after], [after, before]):
        world = World()
        world.ledger.extend(order)
        assert (await world.open_ledger("one", Entry))["x"] == Entry("new")
