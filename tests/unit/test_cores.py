"""A process uses the cores that its container may use."""

import os
from pathlib import Path

import pytest

from freki.infra.cores import usable_cores

CORES = len(os.sched_getaffinity(0))


def _group(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)


def _unified(limit: str) -> dict[str, str]:
    return {"cpu.max": f"{limit}\n"}


def _of_version_1(quota: int) -> dict[str, str]:
    return {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        pytest.param("0::/\n", {"": _unified("100000 100000")}, 1, id="container"),
        pytest.param("0::/a/b\n", {"a": _unified("50000 100000"), "a/b": _unified("max 100000")}, 1, id="group around"),
        pytest.param("0::/a\n", {"a": _unified("max 100000")}, CORES, id="no limit"),
        pytest.param("0::/a\n", {"a": _unified("100000000 100000")}, CORES, id="more than there are"),
        pytest.param("0::/a\n", {"a": _unified("nonsense")}, CORES, id="unknown form"),
        pytest.param("4:memory:/m\n1:cpu,cpuacct:/a\n0::/\n", {"cpu/a": _of_version_1(100_000)}, 1, id="version 1"),
        pytest.param("1:cpu:/a\n", {"cpu/a": _of_version_1(-1)}, CORES, id="version 1, no limit"),
        pytest.param("1:cpu:/of/its/host\n", {"cpu": _of_version_1(90_000)}, 1, id="version 1, container"),
        pytest.param("2:cpuset:/a\n", {"cpu/a": _of_version_1(100_000)}, CORES, id="of another controller"),
        pytest.param("", {}, CORES, id="no groups"),
    ],
)
def test_a_limit_of_cpu_time_counts_like_so_many_cores(
    groups: str, files: dict[str, dict[str, str]], expected: int, tmp_path: Path
) -> None:
    named, controlled = tmp_path / "cgroup", tmp_path / "mounted"
    named.write_text(groups)
    for folder, content in files.items():
        _group(controlled / folder, content)

    assert usable_cores(groups=named, controlled=controlled) == expected


def test_without_control_groups_all_cores_count_that_the_process_may_run_on(tmp_path: Path) -> None:
    assert usable_cores(groups=tmp_path / "none", controlled=tmp_path) == CORES


def test_a_part_of_a_core_counts_as_one(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("0::/\n")
    _group(tmp_path, _unified("150000 100000"))

    assert usable_cores(groups=tmp_path / "cgroup", controlled=tmp_path) == min(CORES, 2)
