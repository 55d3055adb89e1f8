"""Watching goes on through outages, publishes what changed alone, and never takes a lost disk for deletions."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from freki.cli import changes
from freki.cli import watch as watching
from freki.cli.watch import WatchedFolder, WatchSession, follow_folders
from freki.infra.settings import FolderSettings, Settings
from freki.infra.sources import SourceFile, read_source
from freki.schemas import DocumentChange, IndexOutcome, Operation
from freki.schemas.errors import Unavailable
from freki.streams.feed.files import FileFields, Publication
from tests.unit.test_file_source import FIELDS, TENANT, Place, file


class Broker:
    """A place to publish to, which may be away."""

    def __init__(self) -> None:
        self.place = Place()
        self.away = 0
        """Number of attempts that fail."""
        self.opened: list[bool] = []
        """Whether each session was forced."""
        self.priorities: list[int] = []

    async def publish(self, *changes: DocumentChange) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable("the broker is away")
        self.priorities += [change.priority for change in changes]
        await self.place.world.publish(changes)
        await self.place.catch_up()

    def expect(self, change: DocumentChange) -> None:
        """Take note of nothing: no outcome comes."""

    async def next(self, *, patience_s: float) -> IndexOutcome:  # noqa: ARG002 - never reached
        await asyncio.Event().wait()
        raise AssertionError

    @asynccontextmanager
    async def connect(self, *, force: bool, delete_most: bool) -> AsyncIterator[WatchSession]:
        self.opened.append(force)
        if self.away:
            self.away -= 1
            raise Unavailable("the broker is away")
        yield WatchSession(
            Settings(),
            receipts=cast("Any", self),
            publisher=cast("Any", self),
            index=cast("Any", self.place.index),
            ledgers={TENANT: await self.place.world.open_ledger(f"files {TENANT}", Publication)},
            force=force,
            delete_most=delete_most,
        )

    @property
    def documents(self) -> dict[str, str]:
        return self.place.documents


@pytest.fixture
def broker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:  # noqa: ARG001 - without settings of this machine
    monkeypatch.setattr(watching, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(watching, "LONGEST_WAIT_S", 0.02)
    return Broker()


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    path = tmp_path / "handbook"
    path.mkdir()
    (path / "a.md").write_text("eins")
    return path


def watched(path: Path, fields: FileFields = FIELDS) -> WatchedFolder:
    return WatchedFolder(path=path, fields=fields, settle_s=0.0, poll_s=0.01)


async def during(
    broker: Broker, folders: Sequence[WatchedFolder], *steps: Callable[[], Awaitable[None]], **options: bool
) -> None:
    """Watch while the steps run."""
    task = asyncio.create_task(follow_folders(folders, broker.connect, **{"force": False, **options}))
    try:
        for step in steps:
            await step()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def until(holds: Callable[[], bool]) -> Callable[[], Awaitable[None]]:
    async def wait() -> None:
        while not holds():  # noqa: ASYNC110 - of files and of what is printed nobody tells
            await asyncio.sleep(0.005)

    return wait


def then(act: Callable[[], object]) -> Callable[[], Awaitable[None]]:
    async def step() -> None:
        act()

    return step


async def test_several_folders_are_followed_in_one_process(broker: Broker, handbook: Path, tmp_path: Path) -> None:
    wiki = tmp_path / "wiki"
    wiki.mkdir()

    await during(
        broker,
        [watched(handbook), watched(wiki)],
        until(lambda: broker.documents == {"handbook/a.md": "eins"}),
        then(lambda: (wiki / "b.md").write_text("zwei")),
        until(lambda: broker.documents.get("wiki/b.md") == "zwei"),
        then((handbook / "a.md").unlink),
        until(lambda: broker.documents == {"wiki/b.md": "zwei"}),
    )


async def test_a_start_publishes_what_changed_meanwhile_and_nothing_else(broker: Broker, handbook: Path) -> None:
    (handbook / "b.md").write_text("zwei")
    await during(broker, [watched(handbook)], until(lambda: len(broker.documents) == 2))
    (handbook / "b.md").write_text("drei")
    before = len(broker.place.world.changes)

    await during(broker, [watched(handbook)], until(lambda: broker.documents["handbook/b.md"] == "drei"))

    assert len(broker.place.world.changes) == before + 1


async def test_an_outage_is_waited_for_and_what_changed_in_it_is_published(broker: Broker, handbook: Path) -> None:
    broker.away = 3
    await during(
        broker,
        [watched(handbook)],
        until(lambda: broker.documents == {"handbook/a.md": "eins"}),
        then(lambda: setattr(broker, "away", 2)),
        then(lambda: (handbook / "b.md").write_text("zwei")),
        until(lambda: broker.documents.get("handbook/b.md") == "zwei"),
        force=True,
    )

    # Forced until it once succeeded to connect.
    assert broker.opened == [True, True, True, True, False, False]


async def test_a_folder_that_is_gone_deletes_nothing_and_is_followed_when_it_is_back(
    broker: Broker, handbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = handbook.with_name("unmounted")

    def back() -> None:
        elsewhere.rename(handbook)
        (handbook / "b.md").write_text("zwei")

    await during(
        broker,
        [watched(handbook)],
        until(lambda: len(broker.documents) == 1),
        then(lambda: handbook.rename(elsewhere)),
        until(lambda: "looking again" in capsys.readouterr().err),
        then(back),
        until(lambda: len(broker.documents) == 2),
    )

    assert broker.documents == {"handbook/a.md": "eins", "handbook/b.md": "zwei"}


async def test_an_empty_folder_at_the_start_is_no_reason_to_delete_all(
    broker: Broker, handbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await during(broker, [watched(handbook)], until(lambda: len(broker.documents) == 1))
    (handbook / "a.md").unlink()
    said: list[str] = []

    def refused() -> bool:
        said.append(capsys.readouterr().err)
        return "--delete-most" in "".join(said)

    await during(broker, [watched(handbook)], until(refused))

    assert broker.documents == {"handbook/a.md": "eins"}
    await during(broker, [watched(handbook)], until(lambda: not broker.documents), delete_most=True)


async def test_a_folder_that_lost_most_files_meanwhile_loses_no_document_until_that_is_allowed(
    broker: Broker, handbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = handbook / "part"
    part.mkdir()
    for number in range(10):
        (part / f"{number}.md").write_text("eins")
    await during(broker, [watched(handbook)], until(lambda: len(broker.documents) == 11))
    part.rename(handbook.with_name("unmounted"))
    (handbook / "b.md").write_text("zwei")

    await during(
        broker,
        [watched(handbook)],
        until(lambda: "10 of 11 documents" in capsys.readouterr().err),
        then(lambda: (handbook / "a.md").write_text("drei")),
        until(lambda: broker.documents["handbook/a.md"] == "drei"),
    )

    assert len(broker.documents) == 12
    await during(broker, [watched(handbook)], until(lambda: len(broker.documents) == 2), delete_most=True)


async def test_mass_deletion_is_allowed_once_and_not_when_a_disk_is_lost_later(
    broker: Broker, handbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = handbook.with_name("unmounted")

    def lose() -> None:
        handbook.rename(elsewhere)
        handbook.mkdir()

    await during(
        broker,
        [watched(handbook)],
        until(lambda: len(broker.documents) == 1),
        # Found by watching alone: the start is over.
        then(lambda: (handbook / "b.md").write_text("zwei")),
        until(lambda: len(broker.documents) == 2),
        then(lose),
        until(lambda: "is empty" in capsys.readouterr().err),
        delete_most=True,
    )

    assert broker.documents == {"handbook/a.md": "eins", "handbook/b.md": "zwei"}


async def test_files_that_are_removed_while_a_folder_is_watched_go_however_many(broker: Broker, handbook: Path) -> None:
    files = [handbook / f"{number}.md" for number in range(11)]
    for each in files:
        each.write_text("eins")

    def remove() -> None:
        for each in files:
            each.unlink()

    await during(
        broker,
        [watched(handbook)],
        until(lambda: len(broker.documents) == 12),
        # Found by watching alone: the start is over.
        then(lambda: (handbook / "a.md").write_text("zwei")),
        until(lambda: broker.documents["handbook/a.md"] == "zwei"),
        then(remove),
        until(lambda: list(broker.documents) == ["handbook/a.md"]),
    )


async def test_a_file_that_was_published_by_its_name_stays_though_its_folder_leaves_it_out(
    broker: Broker, handbook: Path
) -> None:
    (handbook / ".a.md").write_text("versteckt")
    (handbook / "b.md").write_text("zwei")
    for name in (".a.md", "b.md", "c.md"):
        uri = (handbook / name).as_uri()
        await broker.place.publish({replace(file(f"/handbook/{name}"), source_uri=uri): "1"})
    await broker.place.catch_up()
    (handbook / "b.md").unlink()
    (handbook / "b.md").mkdir()

    await during(broker, [watched(handbook)], until(lambda: "handbook/a.md" in broker.documents))

    assert broker.documents == {"handbook/a.md": "eins", "handbook/.a.md": "1"}


@pytest.mark.parametrize("watching_meanwhile", [True, False])
@pytest.mark.parametrize("name", [None, "handbook"])
async def test_a_name_in_another_unicode_form_is_the_same_document(
    broker: Broker, handbook: Path, name: str | None, *, watching_meanwhile: bool
) -> None:
    before, after = handbook / "a\u0308.md", handbook / "\u00e4.md"
    before.write_text("eins")
    folder = replace(watched(handbook), name=name)

    def rename() -> None:
        before.rename(after)
        after.write_text("zwei")
        (handbook / "a.md").write_text("zwei")

    first = [until(lambda: len(broker.documents) == 2)]
    second = [until(lambda: broker.documents == {"handbook/a.md": "zwei", "handbook/\u00e4.md": "zwei"})]
    if watching_meanwhile:
        await during(broker, [folder], *first, then(rename), *second)
    else:
        await during(broker, [folder], *first)
        rename()
        await during(broker, [folder], *second)

    assert all(change.operation is Operation.UPSERT for change in broker.place.world.changes)


async def test_a_file_that_moves_to_another_folder_of_the_same_name_keeps_its_document(
    broker: Broker, handbook: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.md").write_text("zwei")
    folders = [replace(watched(path), name="handbook") for path in (handbook, other)]
    # So that the folder that the file leaves probably tells so after the one where it arrives.
    folders[0] = replace(folders[0], settle_s=0.3)
    moved = (other / "a.md").as_uri()

    await during(
        broker,
        folders,
        until(lambda: broker.documents == {"handbook/a.md": "eins", "handbook/b.md": "zwei"}),
        then(lambda: (handbook / "a.md").replace(other / "a.md")),
        until(lambda: any(change.source_uri == moved for change in broker.place.world.changes)),
        then(lambda: (handbook / "c.md").write_text("drei")),
        until(lambda: "handbook/c.md" in broker.documents),
    )

    assert broker.documents == {"handbook/a.md": "eins", "handbook/b.md": "zwei", "handbook/c.md": "drei"}


async def test_a_document_that_another_process_gave_to_another_file_stays_when_its_former_file_goes(
    broker: Broker, handbook: Path
) -> None:
    async def give() -> None:
        broker.place.missing.add((handbook / "a.md").as_uri())
        await broker.place.publish({file("/elsewhere/a.md", "handbook/a.md"): "zwei"}, chosen=True)
        await broker.place.catch_up()

    await during(
        broker,
        [watched(handbook)],
        until(lambda: broker.documents == {"handbook/a.md": "eins"}),
        # Found by watching alone: the start is over.
        then(lambda: (handbook / "b.md").write_text("drei")),
        until(lambda: "handbook/b.md" in broker.documents),
        give,
        then((handbook / "a.md").unlink),
        then((handbook / "b.md").unlink),
        until(lambda: "handbook/b.md" not in broker.documents),
    )

    assert broker.documents == {"handbook/a.md": "zwei"}


@pytest.mark.parametrize("owner", ["another folder", "another process"])
async def test_a_file_that_was_refused_its_id_is_published_when_the_id_becomes_free(
    broker: Broker, handbook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], owner: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    said: list[str] = []

    def refused() -> bool:
        said.append(capsys.readouterr().err)
        return "cannot be document handbook/b.md" in "".join(said)

    async def free() -> None:
        (other / "b.md").unlink()
        if owner == "another process":
            source = await broker.place.source()
            await source.look_up([theirs], broker.place.index)
            await broker.place.send(source, [source.delete(theirs.document_id)])
            await broker.place.catch_up()

    (other / "b.md").write_text("eins")
    theirs = file(str(other / "b.md"), "handbook/b.md")
    await broker.place.publish({theirs: "eins"})
    await broker.place.catch_up()
    folders = [watched(handbook), *([replace(watched(other), name="handbook")] if owner == "another folder" else [])]

    await during(
        broker,
        folders,
        until(lambda: len(broker.documents) == 2),
        then(lambda: (handbook / "b.md").write_text("zwei")),
        until(refused),
        # Found by watching alone: the file was refused, and tried again.
        then(lambda: (handbook / "c.md").write_text("drei")),
        until(lambda: "handbook/c.md" in broker.documents),
        free,
        until(lambda: broker.documents.get("handbook/b.md") == "zwei"),
    )

    assert "".join(said).count("cannot be document") == 1


async def test_a_file_that_can_be_no_document_of_its_own_hinders_no_other(
    broker: Broker, handbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def told(what: str) -> Callable[[], bool]:
        def holds() -> bool:
            said.append(capsys.readouterr().err)
            return what in "".join(said)

        return holds

    for name in ("gr\udcf6\udcdfe.md", "a\u0308.md", "\u00e4.md"):
        (handbook / name).write_text("eins")

    await during(
        broker,
        [watched(handbook)],
        until(told("left out: ")),
        then(lambda: (handbook / "l\udce4nge.md").write_text("zwei")),
        until(told("l\\udce4nge.md': the name is not UTF-8")),
        then(lambda: (handbook / "b.md").write_text("zwei")),
        until(lambda: "handbook/b.md" in broker.documents),
    )

    assert broker.documents == {"handbook/a.md": "eins", "handbook/\u00e4.md": "eins", "handbook/b.md": "zwei"}
    assert "".join(said).count("gr\\udcf6") == 1
    assert "cannot be document handbook/\u00e4.md, which belongs to" in "".join(said)
    assert "only in Unicode normalisation (NFC, NFD): rename one of them" in "".join(said)


async def test_a_priority_goes_with_every_change(broker: Broker, handbook: Path) -> None:
    fields = FileFields(tenant=TENANT, principals=("everyone",), priority=3)

    await during(broker, [watched(handbook, fields)], until(lambda: broker.priorities == [3]))


def test_folders_stand_in_the_settings_file(folder: Path) -> None:
    (folder / "freki.toml").write_text(
        '[[folders]]\npath = "/srv/handbook"\nname = "hb"\nprincipals = ["hr"]\npriority = 2\n'
        '[folders.attributes]\nteam = "hr"\n[[folders]]\npath = "wiki"\npoll_s = 10\n'
    )

    assert Settings().folders == (
        FolderSettings(
            path=Path("/srv/handbook"), name="hb", principals=("hr",), priority=2, attributes={"team": "hr"}
        ),
        FolderSettings(path=Path("wiki"), poll_s=10),
    )


def test_with_tokens_a_folder_names_its_readers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "freki.toml").write_text('[[folders]]\npath = "wiki"\n')
    for name, value in (("JWKS", "https://issuer.example/keys"), ("ISSUER", "i"), ("AUDIENCE", "a")):
        monkeypatch.setenv(f"FREKI_AUTH__{name}", value)

    with pytest.raises(ValueError, match="folder wiki: principals are missing"):
        Settings()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else for a while")
async def test_a_file_that_cannot_be_read_for_a_while_is_published_afterwards_though_nothing_of_it_changes(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = 65534
    with TemporaryDirectory() as folder:
        handbook, hidden = Path(folder), Path(folder) / ".a.md"
        os.chown(handbook, nobody, nobody)
        hidden.write_text("eins")
        hidden.chmod(0o600)
        (handbook / "b.md").write_text("zwei")
        try:
            await during(
                broker,
                [replace(watched(handbook), name="h")],
                until(lambda: broker.documents == {"h/b.md": "zwei"}),
                then(lambda: os.seteuid(nobody)),
                then(lambda: hidden.rename(handbook / "a.md")),
                then(lambda: (handbook / "c.md").write_text("drei")),
                until(lambda: broker.documents == {"h/b.md": "zwei", "h/c.md": "drei"}),
                then(lambda: os.seteuid(0)),
                until(lambda: broker.documents == {"h/a.md": "eins", "h/b.md": "zwei", "h/c.md": "drei"}),
                then((handbook / "a.md").unlink),
                until(lambda: broker.documents == {"h/b.md": "zwei", "h/c.md": "drei"}),
            )
        finally:
            os.seteuid(0)

    assert capsys.readouterr().err.count("a.md: Permission denied") == 1


async def test_a_file_whose_folder_is_away_while_it_is_read_is_published_when_it_is_back_as_it_was(
    broker: Broker, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (handbook / "part").mkdir()
    (handbook / "part" / "b.md").write_text("zwei")
    reads = Counter[str]()

    def read_meanwhile(file: SourceFile, *, max_bytes: int) -> bytes:
        reads[file.path.name] += 1
        if file.path.name == "b.md" and reads["b.md"] == 1:
            (handbook / "part").rename(handbook.with_name("away"))
            try:
                return read_source(file, max_bytes=max_bytes)
            finally:
                handbook.with_name("away").rename(handbook / "part")
        return read_source(file, max_bytes=max_bytes)

    monkeypatch.setattr(changes, "read_source", read_meanwhile)

    await during(
        broker,
        [watched(handbook)],
        until(lambda: broker.documents == {"handbook/a.md": "eins", "handbook/part/b.md": "zwei"}),
    )


async def test_of_two_names_in_different_unicode_forms_the_one_that_stays_is_published(
    broker: Broker, handbook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twins = [handbook / name for name in ("a\u0308.md", "\u00e4.md")]
    for number, twin in enumerate(twins):
        twin.write_text(str(number))
    said: list[str] = []

    def told() -> bool:
        said.append(capsys.readouterr().err)
        return "rename one of them" in "".join(said)

    def published() -> str | None:
        return broker.documents.get("handbook/\u00e4.md")

    await during(broker, [watched(handbook)], until(told), until(lambda: published() is not None))
    first = int(published() or "")

    await during(
        broker,
        [watched(handbook)],
        # Found by watching alone: the start is over.
        then(lambda: (handbook / "a.md").write_text("zwei")),
        until(lambda: broker.documents["handbook/a.md"] == "zwei"),
        then(twins[first].unlink),
        until(lambda: published() == str(1 - first)),
    )
