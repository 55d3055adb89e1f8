"""Files that replace others: whole, or as before."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from freki.infra.durable_files import write_atomically


@contextmanager
def little_room() -> Iterator[None]:
    limits = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (10, limits[1]))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, limits)


def test_a_file_that_finds_no_room_leaves_the_one_before_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("before")
    with little_room(), pytest.raises(OSError, match="File too large"):
        write_atomically(path, lambda fresh: fresh.write_text("a" * 100))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_atomically(tmp_path / "report.json", lambda fresh: fresh.write_text("\udcff", encoding="utf-8"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_name_stays_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "report.json", lambda fresh: fresh.write_text("after"))
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]


def test_a_link_stays_one_and_a_file_keeps_its_rights(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "report.json").write_text("before")
    (there / "report.json").chmod(0o640)
    link = tmp_path / "report.json"
    link.symlink_to(there / "report.json")
    write_atomically(link, lambda fresh: fresh.write_text("after"))
    assert link.is_symlink()
    assert (there / "report.json").read_text() == "after"
    assert (there / "report.json").stat().st_mode & 0o777 == 0o640
    assert [each.name for each in there.iterdir()] == ["report.json"]
