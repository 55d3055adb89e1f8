"""A real S3 server as a process of the test: Versity's gateway over a folder, built from its Go module."""

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

MODULE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"
REGION = "us-east-1"
ACCESS, SECRET = "freki", "not-a-secret"
BUCKET = "documents"
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class S3Server:
    """A server with one bucket."""

    url: str
    folder: Path
    """Below which objects lie as files."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which programs find it, and may use it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": REGION,
        }


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Run it until the end of the block."""
    program = _built()
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # What extended attributes would hold lies beside the objects: not every file system has them.
        for each in (folder / "objects" / BUCKET, folder / "attributes"):
            each.mkdir(parents=True)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *(str(program), "--access", ACCESS, "--secret", SECRET, "--region", REGION),
                    *("--port", f"127.0.0.1:{port}", "--quiet"),
                    *("posix", "--sidecar", str(folder / "attributes"), str(folder / "objects")),
                ],
                stdout=log,
                stderr=log,
            )
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(url, process, folder / "log")
            yield S3Server(url=url, folder=folder / "objects" / BUCKET)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


def _built() -> Path:
    """Build it once; skip the test where it cannot be had."""
    folder = apache_kafka.CACHE.expanduser() / f"versitygw-{VERSION}"
    program = folder / "versitygw"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if program.exists():
            return program
        go = shutil.which("go")
        if go is None:
            pytest.skip("there is no `go` on the PATH to build an S3 server with")
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            done = subprocess.run(
                [go, "install", f"{MODULE}@{VERSION}"],
                env={**os.environ, "GOBIN": fresh},
                cwd=fresh,
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                pytest.skip(f"Go cannot build {MODULE} {VERSION}: {done.stderr.strip()[-500:]}")
            (Path(fresh) / program.name).replace(program)
    return program


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        said = log.read_text(errors="replace")
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        try:
            # Whatever it answers, it is there.
            httpx.get(url)
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
