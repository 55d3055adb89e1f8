"""`make`: what a newcomer's machine may lack."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_python_that_is_too_old_is_named_before_an_environment_is_made(tmp_path: Path) -> None:
    old = tmp_path / "python"
    begin = "import sys; sys.version_info, sys.version = (3, 10, 12), '3.10.12 (main)'; exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{begin}" "$2"\n')
    old.chmod(0o755)
    environment = tmp_path / "venv"

    made = subprocess.run(
        ["make", "demo", f"PYTHON={old}", f"VENV={environment}"],  # noqa: S607 - whichever make is here
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert made.returncode
    assert f"{old} is 3.10.12: name another one, such as make demo PYTHON=python3.12" in made.stderr
    assert not environment.exists()
