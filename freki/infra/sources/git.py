"""A git repository, read by the git executable, which supports every repository format."""

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, NamedTuple, Self, cast

from freki.schemas import Timestamp
from freki.schemas.errors import Misconfigured, Rejected, Unavailable

_FETCH_S = 600.0
"""Timeout of a fetch; the first one of a large repository takes minutes."""
_PIECE_BYTES = 1 << 16
_LATEST_S = 253_402_300_799
"""End of the year 9999 in seconds since 1970: the maximum time of a commit."""
# The configuration of a repository can run programs.
_TAME = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager", "--no-replace-objects")
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
# Set in hooks, where they win over the folder that is named.
_OTHER_REPOSITORY = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH"),
        *("GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"),
    }
)


class Commit(NamedTuple):
    """A commit."""

    id: str
    time: Timestamp
    """Commit time by the clock of the committer."""


class PathChange(NamedTuple):
    """Change of a path by a commit."""

    path: str
    """Path; bytes that are not UTF-8 are lone surrogates."""
    blob: str | None
    """Id of the content; None where the path is no longer a regular file."""


class GitRepository:
    """One branch of a repository. Methods block; only `fetch` modifies the repository.

    They raise Rejected with the message of git, Unavailable where fetching or reading a content fails or the branch is
    gone at the remote, Misconfigured where git is missing.
    """

    def __init__(self, path: Path, branch: str, *, max_bytes: int) -> None:
        self._path = path
        self._branch = branch
        self._max_bytes = max_bytes
        # Refspecs of the remotes, as configured; empty before the first fetch.
        self._fetched = ""
        self._contents: subprocess.Popen[bytes] | None = None
        self._reading = threading.Lock()
        self._fetching: subprocess.Popen[bytes] | None = None
        self._is_left = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Before the look at what is fetched: one that starts meanwhile in another thread looks at this.
        self._is_left = True
        if (fetching := self._fetching) is not None:
            # Who stops the command need not wait for a remote that does not answer; git ends its transports.
            fetching.terminate()
        if self._reading.acquire(blocking=False):
            self._end_asking()
            self._reading.release()
        elif (contents := self._contents) is not None:
            # Another thread still reads. Closing its pipe would wait for what git fetches into a partial clone.
            contents.terminate()

    def fetch(self) -> None:
        """Fetch new commits from the remote; leaving the repository ends it."""
        try:
            self._fetch()
        except (Rejected, subprocess.TimeoutExpired) as error:
            raise Unavailable(str(error)) from error
        try:
            self._fetched = self._ask("config", "--get-regexp", r"^remote\..*\.fetch$").decode(errors="replace")
        except Rejected as error:
            raise Rejected(
                f"{self._path}: its branches stay as they are when it fetches: clone it with --mirror instead of --bare"
            ) from error

    def head(self) -> str:
        """Return the id of the head commit of the branch, after a fetch that of the branch it follows at the remote."""
        if self._branch.startswith("-"):
            raise Rejected(f"{self._branch} is no branch")
        if self._ask("rev-parse", "--show-prefix").strip():
            whole = self._ask("rev-parse", "--show-toplevel").decode(errors="replace").strip()
            raise Rejected(f"{self._path} is a folder in the repository {whole}: name that")
        # A fetch leaves the branch that is checked out where it is.
        followed = self._upstream() if self._fetched else ""
        with suppress(Rejected):
            head = self._ask("rev-parse", "--verify", "--quiet", f"{followed or self._branch}^{{commit}}")
            return head.decode().strip()
        if followed:
            # Not the local branch instead, which may be far behind what was published.
            raise Unavailable(
                f"{self._path}: {self._branch} follows {followed}, which is gone: nothing is published; if it"
                " was renamed, name the new one, such as origin/main, with --branch"
            )
        raise Rejected(f"{self._path} has no commit at {self._branch}: name a branch with --branch")

    def _upstream(self) -> str:
        """Return the branch at the remote that the branch follows, whether it is there or not.

        Empty for tags and commits, and where a fetch moves the branch itself. Raises Rejected where none ever moves it.
        """
        try:
            branch = self._ask("rev-parse", "--symbolic-full-name", self._branch).decode().strip()
        except Rejected:
            return ""
        is_branch = branch.startswith("refs/heads/")
        upstream = self._ask("for-each-ref", "--format=%(upstream)", branch).decode().strip() if is_branch else ""
        is_mirrored = is_branch and re.search(r":refs/(heads/|\*)", self._fetched)
        if upstream or is_mirrored or not (is_branch or branch == "HEAD"):
            return upstream
        raise Rejected(
            f"{self._path}: {self._branch} follows no branch of the remote, so that a fetch never moves it:"
            " name one with --branch, such as origin/main"
        )

    def has(self, commit: str) -> bool:
        """Return whether a commit exists: git prunes unreachable ones after a branch is rewritten."""
        try:
            self._ask("cat-file", "-e", f"{commit}^{{commit}}")
        except Rejected:
            return False
        return True

    def commit(self, commit: str) -> Commit:
        """Return one commit."""
        return _commit(self._ask("rev-list", "--max-count=1", "--timestamp", commit).decode())

    def commits(self, since: str | None, head: str) -> list[Commit]:
        """Return the commits of the branch, oldest first, following first parents only.

        since: exclude commits reachable from this one. Where the branch was reset to an older commit, only that one.
        """
        excluded = [] if since is None else [f"^{since}"]
        listed = self._ask("rev-list", "--first-parent", "--reverse", "--timestamp", head, *excluded).decode()
        commits = [_commit(line) for line in listed.splitlines()]
        return commits if commits and commits[-1].id == head else [self.commit(head)]

    def changes(
        self, since: str | None, commits: Sequence[tuple[str, Timestamp]]
    ) -> Iterator[tuple[tuple[str, Timestamp], list[PathChange]]]:
        """Yield the changes of each commit to the previous one, of the first to `since`, or to an empty tree for None.

        The changes lead from one tree to the other, whatever the history between. Commits without changes are left out.
        """
        known = dict(commits)
        with tempfile.TemporaryFile() as asked:
            for commit, before in zip(known, (since, *known), strict=False):
                asked.write(f"{commit} {before or ''}".rstrip().encode() + b"\n")
            asked.seek(0)
            for commit, found in groupby(self._compared(asked), key=itemgetter(0)):
                yield (commit, known[commit]), [change for _, change in found]

    def tree(self, commit: str) -> Mapping[str, str]:
        """Return the regular files of a commit with the ids of their contents."""
        files = {}
        for entry in self._ask("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            about, _, path = entry.partition(b"\t")
            mode, _, blob = about.decode().split(" ")
            if _is_regular(mode):
                files[_text(path)] = blob
        return files

    def read(self, blob: str) -> bytes:
        """Return the content of an id. Raises Rejected where it is too large, Unavailable where git cannot give it."""
        with self._reading:
            return self._read(blob)

    def _read(self, blob: str) -> bytes:
        question, answer = self._asking()
        about: list[str] = []
        # A broken pipe: git ended.
        with suppress(BrokenPipeError):
            question.write(f"{blob}\n".encode())
            question.flush()
            about = answer.readline().decode().split()
        size = int(about[2]) if about[1:2] == ["blob"] else -1
        if size > self._max_bytes:
            _skip(answer, size + 1)
            raise Rejected(f"{size} bytes are more than FREKI_CLAIMS__MAX_BYTES={self._max_bytes}")
        content = answer.read(max(0, size))
        if len(content) != size:
            self._end_asking()
            # Not Rejected: the file is there, so its document must stay.
            raise Unavailable(
                f"{self._path}: git cannot read {blob}: its remote may be out of reach if this is a partial clone,"
                " otherwise `git fsck` says more"
            )
        answer.read(1)
        return content

    def _compared(self, asked: IO[bytes]) -> Iterator[tuple[str, PathChange]]:
        process = self._start("diff-tree", "--stdin", "-r", "-z", "--root", "--no-renames", stdin=asked)
        try:
            tokens = _tokens(cast(IO[bytes], process.stdout))
            commit = ""
            for token in tokens:
                if token.startswith(b":"):
                    _, mode, _, blob, _ = token.decode().split(" ")
                    yield commit, PathChange(_text(next(tokens)), blob if _is_regular(mode) else None)
                else:
                    commit = token.decode().strip()
        finally:
            ended = _end(process)
        if ended:
            raise Rejected(f"{self._path}: git diff-tree ended with {ended}: `git fsck` says more")

    def _asking(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._contents is None:
            self._contents = self._start("cat-file", "--batch", stdin=subprocess.PIPE)
        return cast(IO[bytes], self._contents.stdin), cast(IO[bytes], self._contents.stdout)

    def _end_asking(self) -> None:
        if self._contents is not None:
            contents, self._contents = self._contents, None
            _end(contents)

    def _start(
        self, *arguments: str, stdin: IO[bytes] | int, stderr: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - no shell
            self._command(*arguments),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=_environment(),
        )

    def _ask(self, *arguments: str) -> bytes:
        with self._asked(*arguments) as process:
            return self._answer(process, arguments[0])

    def _fetch(self) -> None:
        with self._asked("fetch", "--quiet", "--prune") as process:
            self._fetching = process
            if self._is_left:
                process.terminate()
            try:
                self._answer(process, "fetch", timeout_s=_FETCH_S)
            finally:
                self._fetching = None

    def _asked(self, *arguments: str) -> subprocess.Popen[bytes]:
        try:
            return self._start(*arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except FileNotFoundError as error:
            raise Misconfigured("git is not installed, or not in PATH") from error

    def _answer(self, process: subprocess.Popen[bytes], asked: str, *, timeout_s: float | None = None) -> bytes:
        try:
            answer, said = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
        if process.returncode:
            reason = said.decode(errors="replace").strip()
            raise Rejected(f"{self._path}: {reason or f'git {asked} ended with {process.returncode}'}")
        return answer

    def _command(self, *arguments: str) -> list[str]:
        return ["git", "-C", str(self._path), *_TAME, *arguments]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OTHER_REPOSITORY} | _QUIET


def _commit(line: str) -> Commit:
    seconds, commit = line.split()
    return Commit(commit, Timestamp(max(0, min(int(seconds), _LATEST_S)) * 1000))


def _is_regular(mode: str) -> bool:
    """Return whether the mode is that of a regular file, not of a link or submodule."""
    return mode.startswith("100")


def _text(path: bytes) -> str:
    return path.decode(errors="surrogateescape")


def _tokens(stream: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while piece := stream.read(_PIECE_BYTES):
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole


def _skip(stream: IO[bytes], size: int) -> None:
    while size > 0 and (piece := stream.read(min(size, _PIECE_BYTES))):
        size -= len(piece)


def _end(process: subprocess.Popen[bytes]) -> int:
    """Close the pipes of git, which ends it, and return its status."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    return process.wait()
