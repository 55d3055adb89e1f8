"""Real S3 servers as processes of the test, built from their Go modules."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.neighbours.programs import answers, go_program, running
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
    program = go_program(f"{kind.name}-{kind.version}", ["install", f"{kind.package}@{kind.version}"], kind.name)
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        places = {each: Path(name) / each for each in ("objects", "attributes")}
        for place in places.values():
            place.mkdir()
        url = f"http://127.0.0.1:{port}"
        account = (f"MINIO_ROOT_USER={ACCESS}", f"MINIO_ROOT_PASSWORD={SECRET}")
        command = ["env", *account, str(program), *(each.format(port=port, **places) for each in kind.arguments)]
        # Both answer that they are not ready with an error of a server.
        with running(command, Path(name) / "log", lambda: answers(url, with_error=True), patience_s=PATIENCE_S):
            yield {
                "AWS_ENDPOINT_URL": url,
                "AWS_ACCESS_KEY_ID": ACCESS,
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_DEFAULT_REGION": REGION,
            }
