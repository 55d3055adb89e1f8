"""Folders for commands: none outlives its process for long, and a full disk refuses no document."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from freki.infra.ocr.command import CommandOcr
from freki.infra.processes.scratch import remove_left, scratch_folder
from freki.infra.scan.command import CommandScanner
from freki.schemas.errors import Unavailable

PREFIX = "freki-test-"
HOLDER = """\
import sys
from freki.infra.processes.scratch import put, scratch_folder

with scratch_folder(sys.argv[1]) as folder:
    put(folder / "content", b"secret")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_process_left_is_removed_and_what_a_live_one_uses_is_not(scratch: Path) -> None:
    words = [sys.executable, "-c", HOLDER, PREFIX]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().rstrip("\n"))
        with scratch_folder(PREFIX) as other:
            assert (folder / "content").read_bytes() == b"secret"
            holder.kill()
            holder.wait()
            assert folder.exists()
            remove_left(PREFIX)
            assert list(scratch.iterdir()) == [other]
    assert list(scratch.iterdir()) == []


def test_what_is_none_of_ours_stays(scratch: Path) -> None:
    (scratch / "data").mkdir()
    (scratch / "data" / "file").touch()
    (scratch / f"{PREFIX}link").symlink_to(scratch / "data")
    (scratch / f"{PREFIX}file").touch()

    remove_left(PREFIX)

    assert (scratch / "data" / "file").exists()
    assert sorted(path.name for path in scratch.iterdir()) == ["data", f"{PREFIX}file", f"{PREFIX}link"]


@pytest.mark.parametrize(
    ("prefix", "opened"),
    [
        ("freki-scan-", lambda: CommandScanner("true {path}", timeout_s=1)),
        ("freki-ocr-", lambda: CommandOcr("true {path}", timeout_s=1, at_once=1)),
    ],
)
def test_a_worker_that_starts_removes_what_the_last_one_left(
    scratch: Path, prefix: str, opened: Callable[[], object]
) -> None:
    (scratch / f"{prefix}abc").mkdir()
    (scratch / f"{prefix}abc" / "content").write_bytes(b"secret")

    opened()

    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    "run",
    [
        lambda content: CommandScanner("true {path}", timeout_s=30).scan(content),
        lambda content: CommandOcr("cat {path}", timeout_s=30, at_once=1).read(content, "image/png"),
    ],
)
async def test_a_full_disk_is_waited_for(scratch: Path, run: Callable[[bytes], Awaitable[object]]) -> None:
    limits = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(Unavailable, match=r"cannot be written: File too large.*TMPDIR"):
            await run(bytes(100))
    finally:
        setrlimit(RLIMIT_FSIZE, limits)
    assert os.listdir(scratch) == []  # noqa: PTH208
