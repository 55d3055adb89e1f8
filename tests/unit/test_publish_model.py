"""Whatever happens to a folder and to runs of `freki publish`, a last undisturbed one makes its files the documents."""

import asyncio
import os
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

import pytest
import typer
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from freki.cli import changes as changes_module
from freki.cli import publish as publish_module
from freki.cli.changes import FileArguments
from freki.cli.publish import PublishArguments, publish
from freki.infra.sources import SourceFile, read_source
from freki.schemas import DocumentChange
from freki.schemas.errors import InfraError
from tests.unit.published import Killed
from tests.unit.test_file_source import Place

FILES = st.sampled_from(["a.md", "A.md", "\u00e4.md", "a\u0308.md", "b.txt"])
FOLDERS = st.sampled_from(["", "d", "D", "d/e"])
PLACES = st.builds(lambda folder, name: f"{folder}/{name}".lstrip("/"), FOLDERS, FILES)
TEXTS = st.sampled_from(["", "1", "2", "3"])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, mode: str, text: str) -> None:
    # An error where a pipe is, that of nobody who reads, in place of a wait for one.
    with open(path, mode, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK, 0o666)) as file:
        file.write(text)


def _become_folder(path: Path, text: str) -> None:
    _remove(path)
    path.mkdir()
    (path / "inner.md").write_text(text)


def _become_link(path: Path, target: Path) -> None:
    _remove(path)
    path.symlink_to(target)


def _become_pipe(path: Path) -> None:
    _remove(path)
    os.mkfifo(path)


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)


ACTIONS: dict[str, Callable[[Path, Path, str], object]] = {
    "write": lambda path, _, text: _write(path, "w", text),
    "grow": lambda path, _, text: _write(path, "a", text),
    "move": lambda path, target, _: _move(path, target),
    "move the folder": lambda path, _target, _text: path.parent.rename(path.parent.with_name("D")),
    "remove": lambda path, _target, _text: _remove(path),
    "remove the folder": lambda path, _target, _text: rmtree(path.parent),
    "become a folder": lambda path, _, text: _become_folder(path, text),
    "become a pipe": lambda path, _target, _text: _become_pipe(path),
    "become a link": lambda path, target, _: _become_link(path, target),
    "become a link out": lambda path, target, _: _become_link(path, target),
    "become a second name": lambda path, target, _: path.hardlink_to(target),
}
ACTS = st.sampled_from(["write", "write", "write", *ACTIONS])


def act(folder: Path, what: str, place: str, other: str, text: str) -> None:
    """Do something in a folder, if it is possible."""
    path = folder / place
    if path.parent == folder and what.endswith("the folder"):
        return
    target = folder.with_name("outside.md") if what == "become a link out" else folder / other
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        ACTIONS[what](path, target, text)


class Publishing(RuleBasedStateMachine):
    """A folder on the disk, and a topic and an index to which it is published."""

    def __init__(self) -> None:
        super().__init__()
        self.home = TemporaryDirectory()
        self.base = Path(self.home.name).resolve()
        self.folder = self.base / "handbook"
        self.folder.mkdir()
        (self.base / "outside.md").write_text("of others")
        self.place = Place()
        self.meanwhile: Callable[[], None] | None = None
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("FREKI_TENANT", "t")
        self.patch.setattr(publish_module, "open_publisher", self.opened_publisher)
        self.patch.setattr(publish_module, "open_index", self.opened_index)
        self.patch.setattr(changes_module, "open_ledger", self.opened_ledger)
        self.patch.setattr(changes_module, "read_source", self.read)
        self.patch.setattr(changes_module, "wall_clock", self.now)

    def teardown(self) -> None:
        self.patch.undo()
        self.home.cleanup()

    def now(self) -> int:
        self.place.time += 1
        return self.place.time

    @asynccontextmanager
    async def opened_publisher(self, *_: Any) -> AsyncIterator[Any]:
        yield self

    async def publish(self, *changes: DocumentChange) -> None:
        await self.place.world.publish(changes)

    @asynccontextmanager
    async def opened_index(self, *_: Any) -> AsyncIterator[Any]:
        yield self.place.index

    @asynccontextmanager
    async def opened_ledger(self, _: Any, source: str, kind: type[Any]) -> AsyncIterator[Any]:
        yield await self.place.world.open_ledger(source, kind)

    def read(self, file: SourceFile, *, max_bytes: int) -> bytes:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            with suppress(OSError):
                act()
        return read_source(file, max_bytes=max_bytes)

    def run(self, *paths: Path, lives: int = 1_000_000, **options: Any) -> int:
        """Run the command; return its exit code, -1 if it was killed."""
        world = self.place.world
        world.lives = lives
        given = {each.name: each.default for group in (PublishArguments, FileArguments) for each in group.parameters()}
        try:
            asyncio.run(publish.__wrapped__(paths=list(paths), **{**given, **options}))  # type: ignore[attr-defined]
        except typer.Exit as error:
            return error.exit_code
        except Killed:
            return -1
        except InfraError:
            return 2
        finally:
            world.lives = 1_000_000
            self.meanwhile = None
        return 0

    @rule(what=ACTS, place=PLACES, other=PLACES, text=TEXTS)
    def change(self, what: str, place: str, other: str, text: str) -> None:
        act(self.folder, what, place, other, text)

    @rule()
    def index(self) -> None:
        asyncio.run(self.place.catch_up())

    @rule(
        prune=st.booleans(),
        lives=st.integers(0, 12) | st.just(1_000_000),
        part=st.sampled_from(["", "", "", "d", "a.md", "d/a.md"]),
        what=st.none() | ACTS,
        place=PLACES,
        other=PLACES,
        text=TEXTS,
    )
    def publish_some(
        self, *, prune: bool, lives: int, part: str, what: str | None, place: str, other: str, text: str
    ) -> None:
        if what is not None:
            self.meanwhile = lambda: act(self.folder, what, place, other, text)
        self.run(self.folder / part, lives=lives, prune=prune)

    @rule()
    def publish_all(self) -> None:
        asyncio.run(self.place.catch_up())
        code = self.run(self.folder, prune=True, delete_most=True)
        asyncio.run(self.place.catch_up())
        there = self.there()
        found = self.published()
        twins = Counter(unicodedata.normalize("NFC", path) for path in there)
        single = {path: text for path, text in there.items() if twins[unicodedata.normalize("NFC", path)] == 1}
        assert {path: text for path, text in found.items() if path in single} == single
        assert found.items() <= there.items()
        assert Counter(unicodedata.normalize("NFC", path) for path in found) == Counter(twins.keys())
        assert code == int(len(single) < len(there))
        before = len(self.place.world.changes)
        assert self.run(self.folder, prune=True) == code
        assert len(self.place.world.changes) == before

    def there(self) -> dict[str, str]:
        """Give the texts of the files of the folder, as a reader of the documentation counts them."""
        found = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder) / name
                if path.is_file() and path.resolve().is_relative_to(self.folder):
                    found[str(path.relative_to(self.folder))] = path.read_text()
        return found

    def published(self) -> dict[str, str]:
        last = {str(change.document_id): change for change in self.place.world.changes}
        documents = self.place.documents
        sources = {document_id: last[document_id].source_uri or "" for document_id in documents}
        assert len(set(sources.values())) == len(sources)
        home = self.folder.as_uri() + "/"
        return {unquote(uri.removeprefix(home)): documents[each] for each, uri in sources.items()}

    @invariant()
    def no_version_goes_back(self) -> None:
        versions: dict[str, DocumentChange] = {}
        for change in self.place.world.changes:
            before = versions.get(change.document_id)
            if before is not None and before.version >= change.version:
                assert (before.version, before.operation, before.content) == (
                    change.version,
                    change.operation,
                    change.content,
                )
            versions[change.document_id] = change


Publishing.TestCase.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestPublishing = Publishing.TestCase
