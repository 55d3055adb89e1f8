"""What several unit tests start from."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.questions import TEXTS
from tests.unit.revisions import World, revision


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Start in a folder without a freki.toml, and without settings, those of a stack of the same run among them."""
    for name in [name for name in os.environ if name.upper().startswith("FREKI_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
async def world() -> World:
    """Hold one document."""
    made = World()
    await made.feed(revision("a", 1, TEXTS))
    return made


@pytest.fixture(params=["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run in a time zone."""
    name: str = request.param
    with monkeypatch.context() as patched:
        patched.setenv("TZ", name)
        time.tzset()
        yield name
    time.tzset()
