"""New files of keys: whole or none."""

from collections.abc import Callable
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest

from freki.infra.durable_files import create_private
from freki.infra.keys import make_keys
from freki.infra.signing import make_key
from freki.schemas.errors import Misconfigured


@pytest.mark.parametrize("make", [make_keys, make_key])
def test_a_key_that_found_no_room_can_be_made_again(make: Callable[[Path], object], tmp_path: Path) -> None:
    path, limits = tmp_path / "key", getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(Misconfigured, match="cannot be written: File too large"):
            make(path)
    finally:
        setrlimit(RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
    make(path)
    with pytest.raises(Misconfigured, match="not replaced"):
        make(path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        create_private(tmp_path / "link", b"secret")
    assert not (tmp_path / "elsewhere").exists()
