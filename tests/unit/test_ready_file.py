import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from freki.infra.ready_file import write_ready_file
from freki.schemas.errors import Misconfigured


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Let every file be created, and none be filled."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def test_a_folder_that_is_missing_is_named_with_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "ready"

    with pytest.raises(Misconfigured, match=f"^cannot write FREKI_READY_FILE={path}: No such file or directory$"):
        write_ready_file(path, "")


@pytest.mark.usefixtures("full_disk")
def test_a_file_that_cannot_be_filled_is_not_left(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="FREKI_READY_FILE"):
        write_ready_file(tmp_path / "ready", "http://127.0.0.1:1")

    assert list(tmp_path.iterdir()) == []
