"""Programs that are fetched or built once, and run as processes of a test."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from filelock import FileLock

from freki.infra.local import apache_kafka
from freki.schemas.errors import InfraError

POLL_S = 0.1
LOG_CHARACTERS = 5_000


def digest_of(path: Path) -> str:
    """Return what tells one version of a file from another, in a few letters."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def jars_of(pom: Path) -> Path:
    """Return the folder of the jar files that a POM names; skip the test where they cannot be had."""
    name = pom.name.removesuffix(".pom.xml")
    try:
        return apache_kafka.fetch_jars(pom, f"{name}-{digest_of(pom)}", what=name)
    except InfraError as error:
        pytest.skip(str(error))


def go_program(folder: str, arguments: Sequence[str], made: str) -> Path:
    """Return a program that Go builds as `made`, from a folder that is Go's to install to; skip the test without Go."""
    kept = apache_kafka.CACHE.expanduser() / folder
    program = kept / Path(made).name
    kept.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.with_name(f"{kept.name}.lock")):
        if program.exists():
            return program
        go = shutil.which("go")
        if go is None:
            pytest.skip(f"there is no `go` on the PATH to build {program.name} with")
        with tempfile.TemporaryDirectory(dir=kept.parent) as fresh:
            done = subprocess.run(
                [go, *arguments],
                env={**os.environ, "GOBIN": fresh},
                cwd=fresh,
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                pytest.skip(f"Go cannot build {program.name}: {done.stderr.strip()[-500:]}")
            (Path(fresh) / made).replace(program)
    return program


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    is_ready: Callable[[], bool],
    *,
    patience_s: float,
    cwd: Path | None = None,
) -> Iterator[None]:
    """Run a program until the end of the block, which begins when it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=cwd)
    try:
        deadline = time.monotonic() + patience_s
        while not is_ready():
            said = log.read_text(errors="replace")[-LOG_CHARACTERS:]
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(POLL_S)
        yield
    finally:
        process.terminate()
        process.wait(timeout=patience_s)


def answers(url: str, *, with_error: bool = False) -> bool:
    """Tell whether a server answers; `with_error`: also that a request is wrong, but not that it is not ready."""
    try:
        reply = httpx.get(url)
    except httpx.HTTPError:
        return False
    return not reply.is_server_error if with_error else reply.is_success
