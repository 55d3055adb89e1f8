import pytest

from freki.operators.identify import root_id
from freki.schemas import DocumentId
from tests.simulation.adapter import Watch
from tests.unit.revisions import TENANT, World, revision

KEY = root_id(TENANT, DocumentId("a"))


@pytest.fixture
async def world() -> World:
    world = World()
    await world.feed(revision("a", 1, ["u", "v", "w"]))
    return world


async def watched(world: World) -> Watch:
    watch = Watch(world.index)
    watch.after("commit", [list((await world.index.commits([KEY]))[KEY]), []])
    return watch


async def test_a_row_or_page_that_readers_need_is_missed(world: World) -> None:
    watch = await watched(world)
    root = (await world.index.roots([KEY]))[KEY]
    row = (await world.rows("a"))[0]
    watch.after("delete", [["of-nobody"]])
    assert watch.found == []

    watch.after("delete", [[row.row_id]])
    watch.after("discard", [[root.pages[0]]])

    assert [rule for rule, _ in watch.found] == ["hole", "hole"]


async def test_a_commit_whose_rows_are_not_there_is_a_hole(world: World) -> None:
    rows = [row.row_id for row in await world.rows("a")]
    await world.index.delete(rows[:1])

    assert [rule for rule, _ in (await watched(world)).found] == ["hole"]


async def test_what_the_store_itself_has_lost_is_no_hole(world: World) -> None:
    rows = [row.row_id for row in await world.rows("a")]
    await world.index.delete(rows[:1])
    watch = Watch(world.index)
    watch.lost.add(rows[0])

    watch.after("commit", [list((await world.index.commits([KEY]))[KEY]), []])

    assert watch.found == []


async def test_a_document_that_goes_back_is_noticed(world: World) -> None:
    watch = await watched(world)
    before = {root.commit_id for root in (await world.index.commits([KEY]))[KEY]}
    await world.feed(revision("a", 2, None))
    commits = (await world.index.commits([KEY]))[KEY]
    watch.after("commit", [list(commits), []])
    assert watch.found == []

    gone = [root.commit_id for root in commits if root.commit_id not in before]
    await world.index.discard([], gone)
    watch.after("discard", [[], gone])

    assert [rule for rule, _ in watch.found] == ["back"]
