"""What several unit tests start from."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Start in a folder without a freki.toml, and without settings, those of a stack of the same run among them."""
    for name in [name for name in os.environ if name.upper().startswith("FREKI_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path
