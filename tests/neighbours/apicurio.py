"""Apicurio Registry, fetched from Maven Central, as a process of the test; it keeps schemas in memory."""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from freki.infra.local import apache_kafka
from tests.neighbours.programs import answers, running
from tests.stack import free_port

VERSION = "3.0.9"
"""The last that runs on Java 17: 3.3.3 is compiled for Java 21."""
CONFLUENT = "/apis/ccompat/v7"
"""Below which it speaks Confluent's interface."""
PATIENCE_S = 300.0


@contextmanager
def running_apicurio() -> Iterator[str]:
    """Run it until the end of the block, and give the URL of what clients of Confluent's registry talk to."""
    folder = _fetched()
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        url = f"http://127.0.0.1:{port}{CONFLUENT}"
        command = [
            *("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"),
            *("-jar", str(folder / f"apicurio-registry-app-{VERSION}-runner.jar")),
        ]
        with running(command, Path(name) / "log", lambda: answers(f"{url}/subjects"), patience_s=PATIENCE_S):
            yield url


def _fetched() -> Path:
    """Fetch and unpack it once; skip the test where it cannot be had."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no `{program}` on the PATH to run Apicurio Registry with")
    folder = apache_kafka.CACHE.expanduser() / f"apicurio-{VERSION}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if folder.exists():
            return folder
        artefact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        with tempfile.TemporaryDirectory() as download:
            done = subprocess.run(
                [
                    *("mvn", "--batch-mode", "--quiet", "dependency:copy"),
                    *(f"-Dartifact={artefact}", f"-DoutputDirectory={download}"),
                ],
                check=False,
                capture_output=True,
                text=True,
                cwd=download,
            )
            if done.returncode:
                pytest.skip(f"Maven cannot fetch {artefact}: {done.stdout.strip()[-500:]}")
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            (archive,) = Path(download).glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(partial, filter="data")
        partial.rename(folder)
    return folder
