"""Which tests run one after another where several processes share them: `pytest -n 2 --dist loadgroup`.

Tests that start stacks stay in one process: two stacks side by side on two cores take longer than one after the other.
What takes longest begins first, so that no process ends long after the others.
"""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

STACKS = ("acceptance", "kafka", "neighbours")
"""Folders whose tests start stacks."""
STACK = "freki"
"""Fixture of the stack that many of them share, which starts after those of single tests have ended."""
ORDER = ("acceptance", "kafka", "neighbours", "integration", "quality", "contract", "simulation", "unit")
"""Folders of tests, those with the longest files first."""
ALONE = ("simulation",)
"""Folders whose tests share nothing, and take long enough to be given out one by one."""


class Groups(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Give a process all tests with stacks, or those of a file, or one test."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # By number of tests, many quick ones would go before a few slow ones.
        config.option.loadscopereorder = False

    # By the path in the id: marks of a test reach this process only with releases of xdist that know those of pytest.
    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        folder = Path(path).parent.name
        return "stacks" if folder in STACKS else nodeid if folder in ALONE else path


def is_shared_out(config: pytest.Config) -> bool:
    """Tell whether this process only gives tests to others."""
    return bool(config.getoption("numprocesses", None)) and not is_one_of_several(config)


def is_one_of_several(config: pytest.Config) -> bool:
    """Tell whether this process gets its tests from another."""
    return hasattr(config, "workerinput")


def arrange(items: list[pytest.Item]) -> None:
    """Put first what takes longest; the random order of the rest stays."""
    files: dict[Path, int] = {}
    for item in items:
        files.setdefault(item.path, len(files))
    items.sort(key=lambda item: (_rank(item), STACK in getattr(item, "fixturenames", ()), files[item.path]))


def _rank(item: pytest.Item) -> int:
    return ORDER.index(folder) if (folder := item.path.parent.name) in ORDER else len(ORDER)
