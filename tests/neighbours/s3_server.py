"""Real S3 servers as processes of the test, built from their Go modules."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from filelock import FileLock

from freki.infra.local import apache_kafka
from tests.stack import free_port

REGION = "us-east-1"
ACCESS, SECRET = "freki", "not-a-secret"
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A server's program."""

    package: str
    version: str
    arguments: tuple[str, ...]
    """With `{port}`, and `{objects}` and `{attributes}` for folders."""

    @property
    def name(self) -> str:
        return self.package.rpartition("/")[2]


MINIO = Kind(
    package="github.com/minio/minio",
    # The module has no releases that Go knows of.
    version="v0.0.0-20260212201848-7aac2a2c5b7c",
    arguments=("server", "--address", "127.0.0.1:{port}", "{objects}"),
)
VERSITY = Kind(
    package="github.com/versity/versitygw/cmd/versitygw",
    version="v1.8.0",
    arguments=(
        *("--access", ACCESS, "--secret", SECRET, "--region", REGION, "--port", "127.0.0.1:{port}", "--quiet"),
        # What extended attributes would hold lies beside the objects: not every file system has them.
        *("posix", "--sidecar", "{attributes}", "{objects}"),
    ),
)


@contextmanager
def running_s3(kind: Kind) -> Iterator[Mapping[str, str]]:
    """Run a server until the end of the block; gives the variables by which programs find it, and may use it."""
    program = _built(kind)
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        places = {each: Path(name) / each for each in ("objects", "attributes")}
        for place in places.values():
            place.mkdir()
        log = Path(name) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(program), *(each.format(port=port, **places) for each in kind.arguments)],
                env={**os.environ, "MINIO_ROOT_USER": ACCESS, "MINIO_ROOT_PASSWORD": SECRET},
                stdout=output,
                stderr=output,
            )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(url, process, log)
            yield {
                "AWS_ENDPOINT_URL": url,
                "AWS_ACCESS_KEY_ID": ACCESS,
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_DEFAULT_REGION": REGION,
            }
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


def _built(kind: Kind) -> Path:
    """Build it once; skip the test where it cannot be had."""
    folder = apache_kafka.CACHE.expanduser() / f"{kind.name}-{kind.version}"
    program = folder / kind.name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if program.exists():
            return program
        go = shutil.which("go")
        if go is None:
            pytest.skip("there is no `go` on the PATH to build an S3 server with")
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            done = subprocess.run(
                [go, "install", f"{kind.package}@{kind.version}"],
                env={**os.environ, "GOBIN": fresh},
                cwd=fresh,
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                pytest.skip(f"Go cannot build {kind.package} {kind.version}: {done.stderr.strip()[-500:]}")
            (Path(fresh) / program.name).replace(program)
    return program


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        said = log.read_text(errors="replace")
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        try:
            # Both answer that they are not ready with an error of a server.
            if not httpx.get(url).is_server_error:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
