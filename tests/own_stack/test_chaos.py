"""A short run of `make chaos`: workers are killed, stopped, added and removed while documents change."""

import secrets
from pathlib import Path

from tests.chaos.run import Options, Run

FAULTS = 10


async def test_faults_lose_nothing_and_show_no_reader_anything_wrong(tmp_path: Path) -> None:
    seed = secrets.randbelow(10**6)

    report = await Run(Options(seed=seed, faults=FAULTS, wait_s=(0.4, 1.2), directory=tmp_path, changes=20))()

    assert report.gave_up == "", "\n".join([f"seed {seed}", *report.notes])
    assert (report.wrong, report.differences, report.unswept) == ([], [], []), f"seed {seed}"
    assert report.faults.total() == FAULTS
    assert report.answers > 20, f"seed {seed}"
