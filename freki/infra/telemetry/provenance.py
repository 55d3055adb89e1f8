"""Provenance of a measurement: code, machine and libraries."""

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from freki.infra.cores import usable_cores

_HOME = Path(__file__).parents[3]
_LIBRARIES = ("onnxruntime", "pymilvus", "milvus-lite", "faust-streaming", "numpy")
_TIMEOUT_S = 10.0


def provenance() -> Mapping[str, str]:
    """Return commit, machine and versions, as far as available."""
    return {
        "freki": metadata.version("freki"),
        "commit": _commit(),
        "machine": f"{_processor()}, {usable_cores()} cores, {_memory()}",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "libraries": ", ".join(f"{name} {metadata.version(name)}" for name in _LIBRARIES),
    }


def _commit() -> str:
    """Return the commit of the repository, marked if the working tree differs from it."""
    if not (_HOME / ".git").exists():
        return "unknown: not run from a repository"
    commit = _git("rev-parse", "--short=12", "HEAD")
    return f"{commit} with uncommitted changes" if commit and _git("status", "--porcelain") else commit or "unknown"


def _git(*arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    done = subprocess.run(  # noqa: S603 - fixed arguments
        [git, "-C", str(_HOME), *arguments], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
