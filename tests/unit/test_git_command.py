"""`freki git`: the prefix of document ids by the path of the repository."""

from pathlib import Path

import pytest

from freki.cli.git import name_of


@pytest.mark.parametrize("path", ["wiki", "wiki.git", "wiki/.git", "other/../wiki/"])
def test_ids_begin_with_the_folder_of_the_repository_however_it_is_written(path: str, tmp_path: Path) -> None:
    assert name_of(tmp_path / path) == "wiki"
