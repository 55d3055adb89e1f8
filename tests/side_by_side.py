"""Which tests run one after another where several processes share them: `pytest -n 3 --dist loadgroup`.

One process has all tests of the stack that many share, the others meanwhile what needs no stack; then all take the
files that start stacks of their own, and last what is short.
"""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

STACKS = ("acceptance", "kafka", "neighbours")
"""Folders whose tests use the same stack, or stacks that would slow each other down: they stay in one process."""
ORDER = ("acceptance", "kafka", "neighbours", "integration", "quality", "contract", "simulation", "own_stack", "unit")
"""Folders of tests, in the order in which they are given out. Files with stacks of their own come late, so that few of
them run beside another stack; unit tests, of which each file is short, last, so that all processes end together."""
LONGEST = ("test_generations.py", "test_filled_generations.py", "test_rights.py", "test_audit.py")
"""Files with stacks of their own that begin before the others."""
ALONE = ("simulation",)
"""Folders whose tests share nothing, and take long enough to be given out one by one."""


class Groups(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Give a process all tests of one stack, or those of a file, or one test."""

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
    items.sort(key=lambda item: (*_rank(item.path), files[item.path]))


def _rank(path: Path) -> tuple[int, int]:
    folder, name = path.parent.name, path.name
    return (
        ORDER.index(folder) if folder in ORDER else len(ORDER),
        LONGEST.index(name) if name in LONGEST else len(LONGEST),
    )
