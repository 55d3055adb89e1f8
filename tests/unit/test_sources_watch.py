import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

from freki.infra.sources import FileChange, FileEvent, FolderGone, read_source, walk, watch
from freki.infra.sources.watch import FolderState
from freki.schemas.errors import Rejected, Unavailable

# The package has a function of this name.
watching = import_module("freki.infra.sources.watch")
CREATED, MODIFIED, REMOVED = FileChange.CREATED, FileChange.MODIFIED, FileChange.REMOVED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with two files, one of them below."""
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    write(home / "a.md", "1")
    write(home / "sub" / "b.md", "2")
    return home


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def state_of(folder: Path) -> FolderState:
    """Know everything that is there."""
    return FolderState(folder, walk([folder]))


def names(events: list[FileEvent]) -> list[tuple[FileChange, str]]:
    return [(event.change, event.file.document_id.removeprefix("home/")) for event in events]


def settled(state: FolderState, *places: Path) -> list[tuple[FileChange, str]]:
    """Look twice, with enough time between."""
    assert state.look(set(places), now=0) == []
    return names(state.look(set(), now=1))


def test_nothing_is_reported_that_was_known(folder: Path) -> None:
    assert settled(state_of(folder), folder) == []


def test_without_knowledge_every_file_is_created(folder: Path) -> None:
    assert settled(FolderState(folder, ()), folder) == [(CREATED, "a.md"), (CREATED, "sub/b.md")]


def test_a_file_that_is_written_or_written_again_is_reported(folder: Path) -> None:
    state = state_of(folder)
    write(folder / "a.md", "more")
    write(folder / "new.md", "3")

    assert settled(state, folder / "a.md", folder / "new.md") == [(MODIFIED, "a.md"), (CREATED, "new.md")]


def test_what_was_reported_is_not_reported_again(folder: Path) -> None:
    state = state_of(folder)
    write(folder / "new.md", "3")

    assert settled(state, folder) == [(CREATED, "new.md")]
    assert settled(state, folder) == []


def test_a_file_that_still_grows_waits(folder: Path) -> None:
    state = state_of(folder)
    grows = folder / "new.md"
    write(grows, "1")
    assert state.look({grows}, now=0) == []
    write(grows, "12")
    assert state.look(set(), now=1) == []
    write(grows, "123")
    assert state.look({grows}, now=2) == []

    [event] = state.look(set(), now=3)

    assert (event.change, event.file.size) == (CREATED, 3)


def test_a_file_that_came_and_went_is_not_reported(folder: Path) -> None:
    state = state_of(folder)
    write(folder / "new.md", "3")
    assert state.look({folder / "new.md"}, now=0) == []
    (folder / "new.md").unlink()

    assert state.look(set(), now=1) == []
    assert state.look(set(), now=2) == []


def test_a_file_that_an_editor_replaces_is_modified_and_not_removed(folder: Path) -> None:
    state = state_of(folder)
    (folder / "a.md").rename(folder / "a.md~")
    assert state.look({folder / "a.md", folder / "a.md~"}, now=0) == []
    write(folder / "a.md", "new content")

    assert settled(state, folder / "a.md") == [(MODIFIED, "a.md")]


def test_a_file_that_is_renamed_is_removed_and_created(folder: Path) -> None:
    state = state_of(folder)
    (folder / "a.md").rename(folder / "z.md")

    assert settled(state, folder / "a.md", folder / "z.md") == [(REMOVED, "a.md"), (CREATED, "z.md")]


def test_a_document_whose_file_is_renamed_is_not_removed_before_its_new_file_is_stable(folder: Path) -> None:
    old, new = folder / "a\u0308.md", folder / "\u00e4.md"
    write(old, "1")
    state = state_of(folder)
    old.unlink()
    assert state.look({folder}, now=0) == []
    write(new, "1")
    assert state.look({folder}, now=1) == []
    write(new, "more")
    assert state.look({folder}, now=2) == []

    assert names(state.look(set(), now=3)) == [(REMOVED, "\u00e4.md"), (CREATED, "\u00e4.md")]


def test_a_folder_that_is_moved_out_takes_its_files_along(folder: Path) -> None:
    state = state_of(folder)
    (folder / "sub").rename(folder.parent / "sub")

    assert settled(state, folder / "sub") == [(REMOVED, "sub/b.md")]


def test_a_folder_that_is_moved_in_brings_its_files(folder: Path, tmp_path: Path) -> None:
    state = state_of(folder)
    (tmp_path / "other" / "deep").mkdir(parents=True)
    write(tmp_path / "other" / "deep" / "c.md", "3")
    (tmp_path / "other").rename(folder / "other")

    assert settled(state, folder / "other") == [(CREATED, "other/deep/c.md")]


def test_a_folder_that_takes_the_place_of_a_file_replaces_it(folder: Path) -> None:
    state = state_of(folder)
    (folder / "a.md").unlink()
    (folder / "a.md").mkdir()
    write(folder / "a.md" / "c.md", "3")

    assert settled(state, folder / "a.md") == [(REMOVED, "a.md"), (CREATED, "a.md/c.md")]


@pytest.mark.parametrize("name", [".hidden.md", ".git/config", "a.md~", "sub/.b.md.swp"])
def test_what_is_no_document_is_not_reported(folder: Path, name: str) -> None:
    state = state_of(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    write(folder / name, "x")

    assert settled(state, folder / name) == []


def test_a_linked_folder_is_not_followed_and_a_change_told_below_it_is_that_of_the_file(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (folder / "in").symlink_to("sub")
    (folder / "out").symlink_to(outside)
    state = state_of(folder)
    write(folder / "sub" / "b.md", "more")
    write(outside / "secret.md", "3")

    assert settled(state, folder / "in" / "b.md", folder / "out" / "secret.md") == [(MODIFIED, "sub/b.md")]


def test_a_link_to_itself_that_took_the_place_of_a_folder_removes_its_files(folder: Path) -> None:
    state = state_of(folder)
    shutil.rmtree(folder / "sub")
    (folder / "sub").symlink_to("sub")

    assert settled(state, folder / "sub" / "b.md") == [(REMOVED, "sub/b.md")]


def test_a_folder_that_disappears_removes_no_document(folder: Path) -> None:
    state = state_of(folder)
    shutil.rmtree(folder)

    with pytest.raises(Unavailable, match="nothing was removed"):
        state.look({folder}, now=0)


def test_another_folder_in_its_place_removes_no_document(folder: Path) -> None:
    state = state_of(folder)
    folder.rename(folder.parent / "elsewhere")
    folder.mkdir()

    with pytest.raises(Unavailable, match="nothing was removed"):
        state.look({folder}, now=0)


UNMOUNT = """
import subprocess, sys
from pathlib import Path
from freki.infra.sources import walk
from freki.infra.sources.watch import FolderState

folder, said = Path(sys.argv[1]), []
disk = folder / "sub"

def mount():
    subprocess.run(["mount", "-t", "tmpfs", "none", disk], check=True)
    for name in "xyz":
        (disk / f"{name}.md").write_text(name)

def look(first):
    events = [event for now in (first, first + 1) for event in state.look({folder}, now)]
    return [f"{event.change} {event.file.document_id}" for event in events]

(disk / "b.md").unlink()
mount()
state = FolderState(folder, walk([folder]), leave_out=lambda error: said.append(str(error)))
subprocess.run(["umount", disk], check=True)
(folder / "a.md").unlink()
print(look(0))
(disk / "under.md").write_text("u")
state.look({disk / "under.md"}, 2), state.look(set(), 3)
print(look(4), look(6))
(disk / "under.md").unlink()
mount()
look(8)
(disk / "x.md").unlink()
print(look(10), said)
(disk / "new.md").write_text("n")
print(look(12))
"""


def test_a_disk_within_a_folder_that_is_gone_removes_no_document(folder: Path) -> None:
    alone = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a disk")

    run = subprocess.run(
        [*alone, sys.executable, "-c", UNMOUNT, str(folder)], capture_output=True, text=True, check=True
    )

    said = [f"{folder}/sub: another disk was there before: nothing is removed, and new files are left out"]
    assert run.stdout.splitlines() == [
        "['REMOVED home/a.md']",
        "[] []",
        f"['REMOVED home/sub/x.md'] {said}",
        "['CREATED home/sub/new.md']",
    ]


def test_a_removed_file_is_reported_as_it_was_last_seen(folder: Path) -> None:
    [known, _] = walk([folder])
    state = state_of(folder)
    (folder / "a.md").unlink()
    state.look({folder}, now=0)

    assert state.look(set(), now=1) == [FileEvent(change=REMOVED, file=known)]


async def test_what_is_no_folder_cannot_be_watched(folder: Path) -> None:
    with pytest.raises(Rejected, match="is no folder"):
        await anext(watch(folder / "a.md"))


async def collect(events: AsyncIterator[list[FileEvent]], count: int) -> list[tuple[FileChange, str]]:
    """Wait for a number of events, in whatever batches they come."""
    collected: list[FileEvent] = []
    async for batch in events:
        collected += batch
        if len(collected) >= count:
            break
    return sorted(names(collected))


async def test_changes_are_seen_as_they_happen(folder: Path, tmp_path: Path) -> None:
    known = list(walk([folder]))
    write(folder / "between.md", "written after the scan and before the watch")
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "c.md", "3")

    async with aclosing(watch(folder, known=known)) as events:
        assert await collect(events, 1) == [(CREATED, "between.md")]

        write(folder / "a.md", "changed")
        (folder / "between.md").rename(folder / "after.md")
        (tmp_path / "other").rename(folder / "other")
        assert await collect(events, 4) == [
            (CREATED, "after.md"),
            (CREATED, "other/c.md"),
            (MODIFIED, "a.md"),
            (REMOVED, "between.md"),
        ]

        write(folder / "other" / "d.md", "in the folder that was moved in")
        (folder / "sub").rename(tmp_path / "sub")
        assert await collect(events, 2) == [(CREATED, "other/d.md"), (REMOVED, "sub/b.md")]


async def test_a_name_that_is_no_text_does_not_end_the_watch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_RESCAN_S", 0.1)
    known = list(walk([folder]))
    left_out: list[str] = []

    def leave_out(error: Rejected) -> None:
        left_out.append(str(error))

    async with aclosing(watch(folder, known=known, settle_s=0.01, leave_out=leave_out)) as events:
        write(folder / "c.md", "3")
        assert await collect(events, 1) == [(CREATED, "c.md")]

        write(folder / "gr\udcf6\udcdfe.md", "4")
        write(folder / "d.md", "5")
        assert await collect(events, 1) == [(CREATED, "d.md")]

    assert left_out == [
        f"'{folder}/gr\\udcf6\\udcdfe.md': the name is not UTF-8, so it can be no document id: rename the file"
    ]


async def test_names_that_are_no_text_all_the_time_hide_no_other_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = list(walk([folder]))
    write(folder / "c.md", "3")
    monkeypatch.setattr(watching, "awatch", partial(failing, 'Unable to decode path "gr\\xF6\\xDFe.md" to string'))

    async with aclosing(watch(folder, known=known, settle_s=0)) as events:
        assert await collect(events, 1) == [(CREATED, "c.md")]


async def failing(reason: str, *_: object, **__: object) -> AsyncIterator[set[tuple[int, str]]]:
    """Stand for `awatch` where something goes wrong."""
    await asyncio.sleep(0)
    if reason:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [RuntimeError(reason)])
    yield set()


async def test_an_error_of_the_operating_system_while_it_watches_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "awatch", partial(failing, "No space left on device"))

    with pytest.raises(FolderGone, match=r"max_user_watches may be too low\): No space left on device"):
        await anext(watch(folder))


async def test_a_folder_on_a_disk_of_others_is_compared_again_and_again(folder: Path) -> None:
    known = list(walk([folder]))

    async with aclosing(watch(folder, known=known, settle_s=0.01, poll_s=0.02)) as events:
        write(folder / "a.md", "changed")
        (folder / "sub" / "b.md").rename(folder / "b.md")

        assert await collect(events, 3) == [(CREATED, "b.md"), (MODIFIED, "a.md"), (REMOVED, "sub/b.md")]


def test_a_file_of_the_same_size_and_time_that_takes_the_place_of_another_is_reported(folder: Path) -> None:
    write(folder / "z.md", "3")
    for name in ("a.md", "z.md"):
        os.utime(folder / name, ns=(0, 1_700_000_000_000_000_000))
    state = state_of(folder)
    (folder / "z.md").replace(folder / "a.md")

    assert settled(state, folder) == [(MODIFIED, "a.md"), (REMOVED, "z.md")]


WRITERS, STEPS = 4, 700


def storm(folder: Path, seed: int) -> None:
    """Change files of one's own and of all: as editors save, as downloads grow, as folders move."""
    random = Random(seed)  # noqa: S311
    for step in range(STEPS):
        mine = folder / f"{seed}-{random.randrange(40)}.md"
        shared = folder / f"shared-{random.randrange(10)}.md"
        with suppress(OSError):  # another writer may have been quicker
            match random.randrange(8):
                case 0 | 1:
                    write(mine, f"{seed} {step}")
                case 2:
                    write(folder / f"{mine.name}.part", f"half of {step}")
                    (folder / f"{mine.name}.part").rename(mine)
                case 3:
                    mine.rename(f"{mine}~")
                    write(mine, f"saved {seed} {step}")
                    Path(f"{mine}~").unlink()
                case 4:
                    mine.unlink()
                case 5:
                    write(shared, f"{seed} {step}")
                case 6:
                    shared.rename(folder / f"shared-{random.randrange(10)}.md")
                case 7:
                    home, other = (folder / f"{seed}-{name}" for name in random.sample("xyz", 2))
                    home.mkdir(exist_ok=True)
                    write(home / "in.md", f"{seed} {step}")
                    home.rename(other)


@pytest.mark.parametrize("poll_s", [None, 0.05], ids=["told by the system", "compared again and again"])
async def test_after_a_storm_of_changes_what_was_published_is_what_is_there(folder: Path, poll_s: float | None) -> None:
    published: dict[str, bytes] = {}
    writers = [asyncio.create_task(asyncio.to_thread(storm, folder, seed)) for seed in range(WRITERS)]
    last = asyncio.gather(*writers)
    last.add_done_callback(lambda _: write(folder / "last.md", "the end"))

    async with aclosing(watch(folder, settle_s=0.1, poll_s=poll_s)) as events:
        async for batch in events:
            for event in batch:
                if event.change is REMOVED:
                    del published[event.file.document_id]
                    continue
                # A file that has gone since is reported as removed later on.
                with suppress(Rejected):
                    published[event.file.document_id] = read_source(event.file, max_bytes=100)
                published.setdefault(event.file.document_id, b"")
            if "home/last.md" in published and published == there(folder):
                break

    assert len(published) > WRITERS


def there(folder: Path) -> dict[str, bytes]:
    return {file.document_id: read_source(file, max_bytes=100) for file in walk([folder])}


async def test_a_watch_can_be_stopped_while_it_waits(folder: Path) -> None:
    waiting = asyncio.create_task(anext(watch(folder, known=walk([folder]))))
    await asyncio.sleep(0)

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
