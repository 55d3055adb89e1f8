import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from freki.infra.sources import GitRepository, is_skipped, media_type_of
from freki.schemas import DocumentChange, Operation, TenantId
from freki.schemas.errors import Rejected, Unavailable
from freki.streams.feed.git import BATCH_CHANGES, DocumentFields, GitSource, Mark, SyncReport
from tests.unit.published import Killed, World
from tests.unit.repositories import Repository

UPSERT, DELETE = Operation.UPSERT, Operation.DELETE
AT = 1_700_000_000
COMPOSED, DECOMPOSED = "\u00dcbersicht.md", "U\u0308bersicht.md"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "wiki")


def readable(path: str, content: bytes) -> str | None:
    if b"\0" in content:
        raise Rejected("binary")
    return media_type_of(path)


@contextmanager
def opened(repository: Repository, branch: str = "main", *, max_bytes: int = 1000) -> Iterator[GitRepository]:
    with GitRepository(repository.path, branch, max_bytes=max_bytes) as git:
        yield git


async def sync(
    repository: Repository,
    world: World,
    *,
    branch: str = "main",
    history: bool = False,
    principals: tuple[str, ...] = ("everyone",),
    force: bool = False,
) -> SyncReport:
    """Look once, as a process does that was just started."""
    with opened(repository, branch) as git:
        source = GitSource(
            git,
            await world.open_ledger("git t/wiki", Mark),
            world.publish,
            documents=DocumentFields(name="wiki", tenant=TenantId("t"), principals=principals, priority=0),
            is_skipped=is_skipped,
            media_type=readable,
        )
        return await source.sync(history=history, force=force)


def last_changes(world: World) -> list[DocumentChange]:
    return list({change.document_id: change for change in world.changes}.values())


def told(world: World) -> list[tuple[Operation, str, int]]:
    return [(change.operation, change.document_id, change.version) for change in world.changes]


async def test_files_of_a_branch_become_documents_with_the_time_of_their_last_change(
    repository: Repository,
) -> None:
    repository.commit({"a.md": "1", "d/b.md": "2"}, time_s=AT)
    last = repository.commit({"a.md": "3"}, time_s=AT + 60)
    world = World()

    await sync(repository, world)

    [b, a] = world.changes
    assert (b.document_id, b.version, b.occurred_at) == ("wiki/d/b.md", AT * 1000, AT * 1000)
    assert (a.document_id, a.version, a.occurred_at) == ("wiki/a.md", (AT + 60) * 1000, (AT + 60) * 1000)
    assert (a.name, a.media_type, a.content) == ("a.md", "text/markdown", b"3")
    assert a.attributes == {"path": "a.md", "commit": last}


async def test_a_new_commit_publishes_what_it_changed(repository: Repository) -> None:
    repository.commit({"a.md": "1", "b.md": "2", "c.md": "3"})
    world = World()
    await sync(repository, world)
    del world.changes[:]
    repository.commit({"a.md": "new", "b.md": None}, time_s=AT + 60)

    await sync(repository, world)

    version = (AT + 60) * 1000
    assert told(world) == [(UPSERT, "wiki/a.md", version), (DELETE, "wiki/b.md", version)]


async def test_nothing_new_publishes_nothing(repository: Repository) -> None:
    repository.commit({"a.md": "1"})
    world = World()
    await sync(repository, world)

    tally = await sync(repository, world)

    assert (tally, len(world.changes)) == (SyncReport(), 1)


async def test_what_is_published_is_published_again_with_a_higher_version_if_it_is_forced(
    repository: Repository,
) -> None:
    repository.commit({"a.md": "1", "b.md": "1"}, time_s=AT)
    repository.commit({"b.md": None}, time_s=AT + 60)
    world = World()
    await sync(repository, world)
    del world.changes[:]

    tally = await sync(repository, world, force=True)
    after = await sync(repository, world)

    assert [(change.operation, change.document_id) for change in world.changes] == [(UPSERT, "wiki/a.md")]
    assert world.changes[0].version > AT * 1000
    assert (tally, after) == (SyncReport(upserts=1), SyncReport())


async def test_a_new_commit_wins_over_what_was_forced(repository: Repository) -> None:
    repository.commit({"a.md": "1"}, time_s=AT)
    world = World()
    for _ in range(3):
        await sync(repository, world, force=True)
    repository.commit({"a.md": "2"}, time_s=AT)

    await sync(repository, world)

    assert world.documents == {"wiki/a.md": "2"}


async def test_a_rename_deletes_one_document_and_makes_another(repository: Repository) -> None:
    repository.commit({"a.md": "1"})
    world = World()
    await sync(repository, world)
    repository.git("mv", "a.md", "z.md")
    repository.commit({}, time_s=AT + 1)

    await sync(repository, world)

    assert world.documents == {"wiki/z.md": "1"}


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize(("before", "after"), [(DECOMPOSED, COMPOSED), (COMPOSED, DECOMPOSED)])
async def test_a_name_in_another_unicode_form_is_the_same_document(
    repository: Repository, before: str, after: str, *, history: bool
) -> None:
    repository.commit({before: "1"})
    world = World()
    await sync(repository, world)
    repository.commit({before: None, after: "1"}, time_s=AT + 1)

    await sync(repository, world, history=history)

    assert world.documents == {f"wiki/{COMPOSED}": "1"}


async def test_of_names_that_differ_in_unicode_form_one_is_published_and_the_other_named(
    repository: Repository,
) -> None:
    repository.commit({COMPOSED: "composed", DECOMPOSED: "decomposed"})
    world = World()

    report = await sync(repository, world)

    assert world.documents == {f"wiki/{COMPOSED}": "composed"}
    [left_out] = report.left_out
    assert left_out.startswith(f"{DECOMPOSED!a}: its name is that of {COMPOSED!a} in another Unicode form")

    repository.commit({COMPOSED: None}, time_s=AT + 1)
    await sync(repository, world)
    assert world.documents == {f"wiki/{COMPOSED}": "decomposed"}

    repository.commit({DECOMPOSED: None}, time_s=AT + 2)
    await sync(repository, world)
    assert world.documents == {}


async def test_with_history_every_commit_is_replayed_in_order(repository: Repository) -> None:
    for number in range(3):
        repository.commit({"a.md": str(number)}, time_s=AT + number)
    world = World()

    await sync(repository, world, history=True)

    assert told(world) == [(UPSERT, "wiki/a.md", (AT + number) * 1000) for number in range(3)]


async def test_versions_grow_along_the_branch_whatever_the_clocks_say(repository: Repository) -> None:
    for number, time_s in enumerate((AT, AT - 500, AT - 500, 0)):
        repository.commit({"a.md": str(number)}, time_s=time_s)
    world = World()

    await sync(repository, world, history=True)

    assert [change.version for change in world.changes] == [AT * 1000 + number for number in range(4)]


async def test_a_merge_brings_what_the_merged_branch_changed(repository: Repository) -> None:
    repository.commit({"a.md": "1"})
    repository.git("checkout", "--quiet", "-b", "side")
    repository.commit({"s.md": "side"}, time_s=AT + 1)
    repository.git("checkout", "--quiet", "main")
    repository.commit({"a.md": "2"}, time_s=AT + 2)
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side", time_s=AT + 3)
    world = World()

    await sync(repository, world, history=True)

    assert told(world)[-1] == (UPSERT, "wiki/s.md", (AT + 3) * 1000)
    assert world.documents == {"wiki/a.md": "2", "wiki/s.md": "side"}


@pytest.mark.parametrize("forget", [False, True], ids=["the old commits are there", "git has forgotten them"])
async def test_a_rewritten_branch_wins_over_what_was_published_of_it(repository: Repository, *, forget: bool) -> None:
    first = repository.commit({"a.md": "1", "b.md": "1"})
    repository.commit({"a.md": "2", "c.md": "2"}, time_s=AT + 100)
    world = World()
    await sync(repository, world)
    repository.git("reset", "--quiet", "--hard", first)
    repository.commit({"a.md": "3"}, time_s=AT + 50)
    if forget:
        repository.git("reflog", "expire", "--expire=now", "--all")
        repository.git("gc", "--quiet", "--prune=now")

    await sync(repository, world)

    assert world.documents == {"wiki/a.md": "3", "wiki/b.md": "1"}


async def test_a_branch_that_goes_back_takes_its_documents_back(repository: Repository) -> None:
    first = repository.commit({"a.md": "1"})
    repository.commit({"a.md": "2", "b.md": "2"}, time_s=AT + 1)
    world = World()
    await sync(repository, world)
    repository.git("reset", "--quiet", "--hard", first)

    await sync(repository, world)

    assert world.documents == {"wiki/a.md": "1"}


async def test_other_readers_are_a_change_of_every_document(repository: Repository) -> None:
    repository.commit({"a.md": "1", "b.md": "2"})
    world = World()
    await sync(repository, world)

    await sync(repository, world, principals=("staff",))

    [a, b] = world.changes[2:]
    assert a.principals == b.principals == ("staff",)
    assert a.version == b.version == AT * 1000 + 1


async def test_readers_that_a_killed_run_gave_to_some_documents_are_taken_back_by_a_run_without_them(
    repository: Repository,
) -> None:
    world = World()
    repository.commit({f"{number:02}.md": "text" for number in range(BATCH_CHANGES + 1)})
    await sync(repository, world, principals=("staff",))
    # One batch, with its entries before and after it.
    world.lives = 1 + 3 * BATCH_CHANGES
    with suppress(Killed):
        await sync(repository, world, principals=("everyone",))
    world.lives = 1_000_000

    await sync(repository, world, principals=("staff",))

    assert {change.principals for change in last_changes(world)} == {("staff",)}


async def test_what_cannot_be_a_document_is_left_out_and_named(repository: Repository) -> None:
    repository.commit({"a.md": "text", "logo.png": b"\x89\0", "huge.txt": "x" * 2000, ".github/x.md": "hidden"})
    (repository.path / "link.md").symlink_to("a.md")
    repository.commit({})
    world = World()

    tally = await sync(repository, world)

    assert world.documents == {"wiki/a.md": "text"}
    assert [line.partition(":")[0] for line in tally.left_out] == ["'huge.txt'", "'logo.png'"]
    assert "FREKI_CLAIMS__MAX_BYTES" in tally.left_out[0]


async def test_a_path_that_no_worker_would_take_as_an_id_is_left_out_and_named(repository: Repository) -> None:
    repository.commit({"a.md": "text", "two\nlines.md": "text", f"{'ü' * 120}/{'ü' * 120}/{'ü' * 120}.md": "text"})
    world = World()

    report = await sync(repository, world)

    assert world.documents == {"wiki/a.md": "text"}
    assert ["U+000A" in line or "bytes, more than 512" in line for line in report.left_out] == [True, True]


async def test_a_pointer_to_git_lfs_is_no_document(repository: Repository) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
    repository.commit({"a.md": "1", "b.csv": pointer})
    world = World()

    report = await sync(repository, world)

    assert world.documents == {"wiki/a.md": "1"}
    assert report.left_out[0].startswith("'b.csv': its content is in Git LFS")


async def test_a_file_that_git_cannot_read_keeps_its_document_until_it_can(repository: Repository) -> None:
    repository.commit({"a.md": "1"})
    world = World()
    await sync(repository, world)
    repository.commit({"a.md": "2" * 500}, time_s=AT + 60)
    blob = repository.git("rev-parse", "HEAD:a.md")
    stored = repository.path / ".git" / "objects" / blob[:2] / blob[2:]
    content = stored.read_bytes()

    for damage in (stored.unlink, lambda: stored.write_bytes(content[:-6])):
        damage()
        with pytest.raises(Unavailable, match=blob):
            await sync(repository, world)
        assert world.documents == {"wiki/a.md": "1"}
    stored.write_bytes(content)
    await sync(repository, world)

    assert world.documents == {"wiki/a.md": "2" * 500}


async def test_a_document_that_becomes_unreadable_is_deleted(repository: Repository) -> None:
    repository.commit({"a.md": "text"})
    world = World()
    await sync(repository, world)
    repository.commit({"a.md": b"\0"}, time_s=AT + 1)

    await sync(repository, world)

    assert world.documents == {}


contents = st.dictionaries(st.sampled_from(["a.md", "b.md", "d/c.md"]), st.sampled_from(["1", "2", None]), min_size=1)


@settings(max_examples=30)
@given(
    commits=st.lists(st.tuples(contents, st.integers(-5, 5), st.booleans(), st.integers(0, 8)), min_size=1, max_size=4),
    history=st.booleans(),
)
# Killed at the head of a branch that was rewritten, before what the older one left behind was taken back.
@example(
    commits=[
        ({"a.md": "1", "b.md": "1", "d/c.md": "1"}, 0, False, 0),
        ({"a.md": "1"}, 0, True, 4),
        ({"a.md": None}, 0, True, 7),
    ],
    history=True,
)
# The branch comes back to the commit that the source was at, after another one was published in part.
@example(
    commits=[({"a.md": None}, 0, False, 3), ({"a.md": "1"}, 0, True, 4), ({"a.md": None}, 0, True, 0)], history=False
)
# A deletion was published of what the rewritten branch has again.
@example(
    commits=[
        ({"a.md": "1"}, 0, False, 0),
        ({"a.md": "1"}, 0, False, 4),
        ({"a.md": None, "b.md": "1"}, 0, False, 6),
        ({"a.md": "1"}, 0, True, 0),
    ],
    history=False,
)
async def test_a_source_that_is_killed_anywhere_ends_with_the_branch_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory,
    commits: list[tuple[dict[str, str | None], int, bool, int]],
    history: bool,  # noqa: FBT001
) -> None:
    repository = Repository(tmp_path_factory.mktemp("git") / "wiki")
    world = World()
    there: dict[str, str] = {}
    repository.commit({})
    for files, second, amend, lives in commits:
        known = {name: content for name, content in files.items() if content is not None or name in there}
        repository.commit(dict(known), time_s=AT + second, amend=amend)
        there = {name: text for name, text in (there | known).items() if text is not None}
        world.lives = lives
        with suppress(Killed):
            await sync(repository, world, history=history)
    world.lives = 1_000_000

    await sync(repository, world, history=history)

    assert world.documents == {f"wiki/{name}": content for name, content in there.items()}


async def test_a_place_without_repository_or_branch_is_refused_in_gits_words(
    repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()

    with pytest.raises(Rejected, match="--branch"):
        await sync(repository, World())
    repository.git("remote", "add", "origin", str(tmp_path / "gone.git"))
    with opened(repository) as git, pytest.raises(Unavailable, match=r"gone\.git"):
        git.fetch()
    with GitRepository(tmp_path / "nowhere", "main", max_bytes=1) as git, pytest.raises(Rejected, match="nowhere"):
        git.head()


async def test_a_folder_within_a_repository_is_refused(repository: Repository) -> None:
    repository.commit({"a.md": "private", "docs/b.md": "2"})

    reason = f"docs is a folder in the repository {repository.path}: name that"
    with GitRepository(repository.path / "docs", "main", max_bytes=1000) as git, pytest.raises(Rejected, match=reason):
        git.head()


async def test_the_repository_of_a_hook_is_not_taken_for_the_one_that_is_named(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"a.md": "1"})
    other = Repository(tmp_path / "other")
    other.commit({"b.md": "2"})
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    world = World()

    await sync(repository, world)

    assert world.documents == {"wiki/a.md": "1"}


@pytest.mark.parametrize("how", [(), ("--mirror",)])
async def test_what_is_fetched_is_the_head(repository: Repository, tmp_path: Path, how: tuple[str, ...]) -> None:
    repository.commit({"a.md": "1"})
    repository.git("clone", "--quiet", *how, str(repository.path), str(tmp_path / "clone"))
    latest = repository.commit({"a.md": "2"}, time_s=AT + 60)

    with GitRepository(tmp_path / "clone", "HEAD", max_bytes=1000) as git:
        git.fetch()

        assert git.head() == latest


async def test_leaving_the_repository_ends_a_fetch_from_a_remote_that_does_not_answer(repository: Repository) -> None:
    with socket.create_server(("127.0.0.1", 0)) as remote:
        repository.git("remote", "add", "origin", f"git://127.0.0.1:{remote.getsockname()[1]}/wiki")
        with opened(repository) as git:
            fetching = asyncio.create_task(asyncio.to_thread(git.fetch))
            # Its question is never answered.
            connection, _ = await asyncio.to_thread(remote.accept)

        with connection, pytest.raises(Unavailable, match="git fetch ended with"):
            await fetching


async def test_a_fetch_that_starts_while_the_repository_is_left_ends_too(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.infra.sources.git._FETCH_S", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as remote:
        repository.git("remote", "add", "origin", f"git://127.0.0.1:{remote.getsockname()[1]}/wiki")
        with opened(repository) as git:
            pass

        # As from a thread that has started git when the repository is left, and has not noted it yet.
        with pytest.raises(Unavailable, match="git fetch ended with"):
            await asyncio.to_thread(git.fetch)


async def test_leaving_a_partial_clone_waits_for_no_content_that_its_remote_does_not_send(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit({"a.md": "1"})
    repository.git("config", "uploadpack.allowFilter", "true")
    clone = Repository(tmp_path / "clone")
    clone.git("remote", "add", "origin", f"file://{repository.path}")
    clone.git("fetch", "--quiet", "--filter=blob:none", "origin", "main:copy")
    with socket.create_server(("127.0.0.1", 0)) as remote:
        clone.git("remote", "set-url", "origin", f"git://127.0.0.1:{remote.getsockname()[1]}/wiki")
        with opened(clone, "copy") as git:
            (blob,) = git.tree("copy").values()
            reading = asyncio.create_task(asyncio.to_thread(git.read, blob))
            connection, _ = await asyncio.to_thread(remote.accept)

        assert not reading.done()
        connection.close()
        with pytest.raises(Unavailable, match="git cannot read"):
            await reading


@pytest.mark.parametrize("branch", ["HEAD", "main"])
async def test_a_branch_that_is_gone_at_the_remote_takes_no_document_back(
    repository: Repository, tmp_path: Path, branch: str
) -> None:
    repository.commit({"a.md": "1"})
    repository.git("clone", "--quiet", str(repository.path), str(tmp_path / "clone"))
    repository.commit({"a.md": "2"}, time_s=AT + 60)
    repository.git("branch", "--move", "main", "trunk")

    with GitRepository(tmp_path / "clone", branch, max_bytes=1000) as git:
        git.fetch()
        with pytest.raises(Unavailable, match=f"{branch} follows refs/remotes/origin/main, which is gone"):
            git.head()


async def test_a_commit_that_follows_no_branch_is_the_head_after_a_fetch_too(
    repository: Repository, tmp_path: Path
) -> None:
    first = repository.commit({"a.md": "1"})
    repository.git("tag", "v1")
    repository.git("clone", "--quiet", str(repository.path), str(tmp_path / "clone"))
    repository.commit({"a.md": "2"}, time_s=AT + 60)

    for branch in (first, "v1", "HEAD~0"):
        with GitRepository(tmp_path / "clone", branch, max_bytes=1000) as git:
            git.fetch()

            assert git.head() == first


@pytest.mark.parametrize(
    ("checkout", "branch"),
    [(("--detach",), "HEAD"), (("--no-track", "-b", "own"), "HEAD"), (("--no-track", "-b", "own"), "own")],
    ids=["detached", "no upstream", "no upstream, by name"],
)
async def test_a_branch_that_no_fetch_moves_is_refused(
    repository: Repository, tmp_path: Path, checkout: tuple[str, ...], branch: str
) -> None:
    repository.commit({"a.md": "1"})
    repository.git("clone", "--quiet", str(repository.path), str(tmp_path / "clone"))
    repository.git("-C", str(tmp_path / "clone"), "checkout", "--quiet", *checkout)

    with GitRepository(tmp_path / "clone", branch, max_bytes=1000) as git:
        git.fetch()
        with pytest.raises(Rejected, match=f"{branch} follows no branch of the remote.*--branch, such as origin/main"):
            git.head()


async def test_a_clone_whose_branches_no_fetch_moves_is_refused(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a.md": "1"})
    repository.git("clone", "--quiet", "--bare", str(repository.path), str(tmp_path / "clone"))

    with GitRepository(tmp_path / "clone", "HEAD", max_bytes=1000) as git, pytest.raises(Rejected, match="--mirror"):
        git.fetch()
