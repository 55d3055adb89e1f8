"""A short run of `make rights`: random operations of users with tokens, and what each of them may see."""

import secrets
from pathlib import Path

import pytest

from tests.rights.run import Options, Run

OPERATIONS = 250


@pytest.mark.parametrize("once", [False, True], ids=["any number of queries", "one query a token"])
async def test_nobody_sees_what_is_not_hers(tmp_path: Path, *, once: bool) -> None:
    seed = secrets.randbelow(10**6)

    report = await Run(Options(seed=seed, operations=OPERATIONS, directory=tmp_path, replay_window=once))()

    assert report.wrong == [], f"seed {seed}"
    assert report.done.total() >= OPERATIONS
    # Groups change and documents go, but the first ones are there before the first question.
    assert report.seen["answer: degraded"] > report.seen["answer: empty"], f"seed {seed}"
    assert report.compared > 0
    assert report.unanswered == 0, f"seed {seed}"
