from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.assign_ids import Conflict
from freki.operators.identify import root_id
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.errors import Rejected
from freki.schemas.index import Attempt
from freki.schemas.names import LARGEST_INTEGER
from freki.streams.feed.files import FileDocument, FileFields, FileReport, FileSource, Publication
from freki.streams.ingest.chunk import content_hash
from tests.contract.index_records import root
from tests.memory_index import MemoryIndex
from tests.unit.published import Killed, World
from tests.unit.revisions import World as Index

TENANT = TenantId("t")
FIELDS = FileFields(tenant=TENANT, principals=("everyone",))


def file(path: str, document_id: str = "", **changes: Any) -> FileDocument:
    """Make a file; its id is made of the last two parts of its path."""
    name = path.rpartition("/")[2]
    return replace(
        FileDocument(
            document_id=DocumentId(document_id or "/".join(path.split("/")[-2:])),
            source_uri=f"file://{path}",
            name=name,
            media_type="text/markdown" if name.endswith(".md") else None,
            modified_at=Timestamp(1_600_000_000_000),
        ),
        **changes,
    )


@dataclass
class Place:
    """A broker, an index that takes what it is given when it is told to, and a clock."""

    world: World = field(default_factory=World)
    index: MemoryIndex = field(default_factory=lambda: Index().index)
    missing: set[str] = field(default_factory=set)
    time: int = 1_700_000_000_000
    taken: int = 0

    def now(self) -> Timestamp:
        return Timestamp(self.time)

    async def source(self, fields: FileFields = FIELDS, **options: Any) -> FileSource:
        """Begin as a process does."""
        self.time += 1
        ledger = await self.world.open_ledger(f"files {TENANT}", Publication)
        return FileSource(fields, ledger, now=self.now, is_missing=self.missing.__contains__, **options)

    async def publish(
        self, files: dict[FileDocument, str], fields: FileFields = FIELDS, *, answers: bool = True, **options: Any
    ) -> FileReport:
        """Publish files with their content, as a process does."""
        source = await self.source(fields, **options)
        if answers:
            await source.look_up(list(files), self.index)
        assignment = source.assign(list(files))
        assert not assignment.conflicts
        changes = [change for each, text in files.items() if (change := source.upsert(each, text.encode()))]
        await self.send(source, changes)
        return source.report

    async def send(self, source: FileSource, changes: Sequence[DocumentChange]) -> None:
        await source.record(changes)
        await self.world.publish(changes)

    async def catch_up(self) -> None:
        """Index what was published."""
        for change in self.world.changes[self.taken :]:
            key = root_id(change.tenant, change.document_id)
            known = (await self.index.roots([key])).get(key)
            if known is None or change.version > known.version:
                await self.index.commit(
                    [
                        root(
                            key,
                            tenant=change.tenant,
                            document_id=change.document_id,
                            version=change.version,
                            attempt=Attempt(f"a{change.version}"),
                            deleted=change.operation is Operation.DELETE,
                            source_uri=change.source_uri,
                            content_hash="" if change.content is None else content_hash(change.content),
                            pages=(),
                        )
                    ],
                    [],
                )
        self.taken = len(self.world.changes)

    @property
    def documents(self) -> dict[str, str]:
        return self.world.documents


@pytest.fixture
def place() -> Place:
    return Place()


async def test_what_is_published_and_indexed_is_not_published_again(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1", file("/h/b.md"): "2"})
    await place.catch_up()

    report = await place.publish({file("/h/a.md"): "1", file("/h/b.md"): "new"})

    assert report == FileReport(changed=1, unchanged=1)
    assert place.documents == {"h/a.md": "1", "h/b.md": "new"}
    assert len(place.world.changes) == 3


async def test_a_time_alone_is_no_change(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1"})
    await place.catch_up()

    assert await place.publish({file("/h/a.md", modified_at=Timestamp(5)): "1"}) == FileReport(unchanged=1)


@pytest.mark.parametrize(
    "change",
    [
        {"principals": ("hr",)},
        {"attributes": {"team": "b"}},
        {"attributes": {}},
        {"language": "en"},
        {"language": None},
        {"title": "Handbook"},
        {"media_type": "text/plain"},
    ],
)
async def test_other_metadata_are_a_change_also_if_an_option_is_left_out(place: Place, change: dict[str, Any]) -> None:
    fields = replace(FIELDS, attributes={"team": "a"}, language="de")
    await place.publish({file("/h/a.md"): "1"}, fields)
    await place.catch_up()

    assert await place.publish({file("/h/a.md"): "1"}, fields) == FileReport(unchanged=1)
    assert await place.publish({file("/h/a.md"): "1"}, replace(fields, **change)) == FileReport(changed=1)


async def test_the_order_of_principals_is_no_change(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1"}, replace(FIELDS, principals=("a", "b")))
    await place.catch_up()

    assert await place.publish({file("/h/a.md"): "1"}, replace(FIELDS, principals=("b", "a"))) == FileReport(
        unchanged=1
    )


async def test_what_is_not_indexed_yet_is_published_again_with_the_same_version(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1"})

    report = await place.publish({file("/h/a.md"): "1"})

    first, second = place.world.changes
    assert report == FileReport(again=1)
    assert first == second


async def test_an_older_state_that_is_restored_wins_before_the_index_has_seen_any(place: Place) -> None:
    old, new = file("/h/a.md"), file("/h/a.md", modified_at=Timestamp(1_650_000_000_000))
    for each, text in ((old, "old"), (new, "new"), (old, "old")):
        await place.publish({each: text})

    assert place.documents == {"h/a.md": "old"}
    assert place.world.changes[-1].occurred_at == old.modified_at


async def test_versions_grow_whatever_the_clock_says(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1"})
    await place.catch_up()
    place.time -= 1_000_000

    await place.publish({file("/h/a.md"): "2"})

    assert place.documents == {"h/a.md": "2"}


@pytest.mark.parametrize("indexed", [False, True])
async def test_a_document_that_comes_back_before_its_deletion_is_recorded_gets_a_version_of_its_own(
    place: Place, *, indexed: bool
) -> None:
    each = file("/h/a.md")
    await place.publish({each: "1"})
    if indexed:
        await place.catch_up()
    # given a clock that was set back
    place.time -= 1_000_000
    source = await place.source()
    await source.look_up([each], place.index)
    source.assign([each])

    changes = [source.delete(each.document_id), source.upsert(each, b"1"), source.upsert(each, b"2")]
    await place.send(source, [change for change in changes if change is not None])

    versions = [change.version for change in place.world.changes]
    assert sorted(set(versions)) == versions
    assert place.documents == {"h/a.md": "2"}


async def test_a_document_with_the_largest_version_is_refused_and_named(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1"})
    await place.world.publish([replace(place.world.changes[0], version=LARGEST_INTEGER)])
    await place.catch_up()
    source = await place.source()
    await source.look_up([file("/h/a.md")], place.index)
    source.assign([file("/h/a.md")])

    with pytest.raises(Rejected, match=r"h/a\.md has had the largest version"):
        source.upsert(file("/h/a.md"), b"2")
    with pytest.raises(Rejected, match=r"h/a\.md has had the largest version"):
        source.delete(DocumentId("h/a.md"))


async def test_all_is_published_if_it_is_forced_with_higher_versions(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1"})
    await place.catch_up()

    assert await place.publish({file("/h/a.md"): "1"}, force=True) == FileReport(again=1)
    assert place.world.changes[1].version > place.world.changes[0].version


async def test_what_others_changed_or_deleted_is_published_again(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1", file("/h/b.md"): "2"})
    await place.catch_up()
    for number, operation in enumerate(("UPSERT", "DELETE")):
        change = place.world.changes[number]
        content = None if operation == "DELETE" else "theirs"
        theirs = replace(change, operation=Operation(operation), content=content, version=change.version + 10_000)
        await place.world.publish([theirs])
    await place.catch_up()

    report = await place.publish({file("/h/a.md"): "1", file("/h/b.md"): "2"})

    assert report == FileReport(new=1, changed=1)
    assert place.documents == {"h/a.md": "1", "h/b.md": "2"}


async def test_all_is_published_again_after_the_broker_lost_its_topics(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1"})
    await place.catch_up()
    place.world, place.taken = World(), 0

    assert await place.publish({file("/h/a.md"): "1"}) == FileReport(again=1)
    assert place.documents == {"h/a.md": "1"}


async def test_without_an_answer_of_the_index_unchanged_files_are_published_again_without_effect(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1"})
    await place.catch_up()

    assert await place.publish({file("/h/a.md"): "1"}, answers=False) == FileReport(again=1)
    assert len({change.version for change in place.world.changes}) == 1


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("answers", [True, False])
async def test_a_file_is_one_document_alone_and_with_its_folder(place: Place, *, indexed: bool, answers: bool) -> None:
    await place.publish({file("/h/sub/a.md", "h/sub/a.md"): "old"})
    if indexed:
        await place.catch_up()

    await place.publish({file("/h/sub/a.md", "sub/a.md"): "new"}, answers=answers)

    assert place.documents == {"h/sub/a.md": "new"}


@pytest.mark.parametrize("indexed", [True, False])
async def test_an_id_of_another_file_is_refused(place: Place, *, indexed: bool) -> None:
    await place.publish({file("/a/doc/x.md"): "a"})
    if indexed:
        await place.catch_up()
    source, other = await place.source(), file("/b/doc/x.md")

    await source.look_up([other], place.index)

    assert source.assign([other]).conflicts == [
        Conflict(DocumentId("doc/x.md"), other.source_uri, "file:///a/doc/x.md")
    ]
    assert source.known_id(other) is None


async def test_a_chosen_id_takes_the_place_of_a_file_that_is_missing(place: Place) -> None:
    await place.publish({file("/a/doc/x.md"): "a"})
    await place.catch_up()
    place.missing = {"file:///a/doc/x.md"}

    assert await place.publish({file("/b/doc/x.md"): "a"}, chosen=True) == FileReport(changed=1)
    assert place.documents == {"doc/x.md": "a"}


async def test_a_document_of_another_tenant_is_another_document(place: Place) -> None:
    theirs = root("r", tenant=TenantId("u"), document_id=DocumentId("h/a.md"), source_uri="file:///h/a.md")
    await place.index.commit([theirs], [])

    assert await place.publish({file("/h/a.md"): "1"}) == FileReport(new=1)


async def test_a_deleted_document_that_comes_back_is_published_before_the_index_knows_of_its_deletion(
    place: Place,
) -> None:
    await place.publish({file("/h/a.md"): "1"})
    await place.catch_up()
    source = await place.source()
    await source.look_up([file("/h/a.md")], place.index)
    await place.send(source, [source.delete(DocumentId("h/a.md"))])

    await place.publish({file("/h/a.md"): "1"})

    assert place.documents == {"h/a.md": "1"}


@pytest.mark.parametrize("indexed", [True, False])
async def test_the_documents_of_a_folder_are_known_before_they_are_indexed(place: Place, *, indexed: bool) -> None:
    await place.publish({file("/h/a.md"): "1", file("/h/b.md"): "2", file("/i/c.md"): "3"})
    if indexed:
        await place.catch_up()

    source = await place.source()

    assert set(await source.documents_below(("file:///h/",), place.index)) == {"h/a.md", "h/b.md"}


async def test_what_others_deleted_or_made_theirs_is_no_document_of_a_folder(place: Place) -> None:
    await place.publish({file("/h/a.md"): "1", file("/h/b.md"): "2", file("/h/c.md"): "3"})
    a, b, _ = place.world.changes
    await place.world.publish([replace(a, source_uri="https://example.org/a", version=a.version + 10)])
    await place.world.publish([replace(b, operation=Operation.DELETE, content=None, version=b.version + 10)])
    await place.catch_up()

    source = await place.source()

    assert await source.documents_below(("file:///h/",), place.index) == {"h/c.md": "file:///h/c.md"}


def kept(source: FileSource) -> int:
    """Return how many entries a source keeps in memory."""
    return sum(
        len(each) for each in (*vars(source).values(), vars(source._ledger)["_entries"]) if isinstance(each, dict)
    )


async def test_a_source_that_runs_for_long_keeps_nothing_of_files_that_came_and_went(place: Place) -> None:
    source = await place.source()
    sizes = []
    for number in range(30):
        passing, lasting = file(f"/a/{number}.md"), file("/a/lasting.md")
        for _ in range(2):
            await source.look_up([passing, lasting], place.index)
            source.assign([passing, lasting])
            made = [source.upsert(each, b"%d" % number) for each in (passing, lasting)]
            await place.send(source, [change for change in made if change])
            await place.catch_up()
            place.time += 1
        await source.look_up([passing], place.index)
        assert source.own_id(passing) == passing.document_id
        await place.send(source, [source.delete(passing.document_id)])
        assert source.known_id(passing) is None
        await place.catch_up()
        place.time += 12 * 3_600_000
        sizes.append(kept(source))

    assert max(sizes[10:]) == max(sizes[:10])
    assert place.documents.keys() == {"a/lasting.md"}


async def test_a_title_does_not_change_how_the_file_is_read(place: Place) -> None:
    fields = replace(FIELDS, title="v1.2 of the tool")

    await place.publish({file("/h/tool.py", media_type=None): "import os\n"}, fields)

    [change] = place.world.changes
    assert (change.name, change.media_type) == ("v1.2 of the tool", "text/x-python")


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["h/a.md", "h/b.md"]), st.sampled_from("xyz"), st.booleans(), st.integers(0, 6)),
        max_size=8,
    )
)
async def test_the_last_state_that_was_published_wins_wherever_the_process_dies_and_however_late_the_index_is(
    steps: list[tuple[str, str, bool, int]],
) -> None:
    place, wanted = Place(), dict[str, str]()
    for path, text, indexed, lives in steps:
        place.world.lives = lives
        try:
            await place.publish({file(f"/{path}"): text})
        except Killed:
            place.world.lives = 100
            await place.publish({file(f"/{path}"): text})
        wanted[path] = text
        if indexed:
            await place.catch_up()
        assert place.documents == wanted
