"""Which tests run one after another where several processes share them: `pytest -n 2 --dist loadgroup`.

What two processes would each start is used in one of them alone. So are stacks: two that work side by side on two cores
take longer than one after the other. What takes longest begins first, so that no process ends long after the others.
"""

from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARED = ("freki", "secured", "broker", "store")
"""Fixtures of a session that start servers; a test that asks for several goes by the first of them."""
ORDER = ("acceptance", "integration", "quality", "kafka", "neighbours", "contract", "simulation", "unit")
"""Folders of tests, those with the longest files first."""
STACKS = ("acceptance", "neighbours")
"""Folders whose tests start stacks."""
ALONE = ("simulation",)
"""Folders whose tests share nothing, and take long enough to be given out one by one."""
MARK = "@"


class Groups(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Give a process all tests of a server, or else those of a file, or one test."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # By number of tests, many quick ones would go before a few slow ones.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.rfind(MARK) > nodeid.rfind("]"):
            return nodeid.rsplit(MARK, 1)[1]
        path = nodeid.split("::", 1)[0]
        return nodeid if Path(path).parent.name in ALONE else path


def is_shared_out(config: pytest.Config) -> bool:
    """Tell whether this process only gives tests to others."""
    return bool(config.getoption("numprocesses", None)) and not is_one_of_several(config)


def is_one_of_several(config: pytest.Config) -> bool:
    """Tell whether this process gets its tests from another."""
    return hasattr(config, "workerinput")


def arrange(items: list[pytest.Item]) -> None:
    """Mark what shares a server, and put first what takes longest; the random order of the rest stays."""
    files: dict[Path, int] = {}
    for item in items:
        files.setdefault(item.path, len(files))
        if (server := _server_of(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(server))
    items.sort(key=lambda item: (_server_of(item) != SHARED[0], _asks(item), _rank(item), files[item.path]))


def _asks(item: pytest.Item) -> bool:
    """Tell whether a test asks for the stack that all share, which starts after those of single tests have ended."""
    return SHARED[0] in getattr(item, "fixturenames", ())


def _server_of(item: pytest.Item) -> str | None:
    if item.path.parent.name in STACKS:
        return SHARED[0]
    return next((name for name in SHARED if name in getattr(item, "fixturenames", ())), None)


def _rank(item: pytest.Item) -> int:
    return ORDER.index(folder) if (folder := item.path.parent.name) in ORDER else len(ORDER)
