"""Debian's PostgreSQL, with logical replication, as a process of the test."""

import csv
import io
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.neighbours.programs import running
from tests.stack import free_port

DEBIAN = Path("/usr/lib/postgresql")
ACCOUNT = "postgres"
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A server of which everybody on this machine is the superuser."""

    programs: Path
    port: int

    @property
    def version(self) -> str:
        return self._run([str(self.programs / "postgres"), "--version"]).strip()

    def is_ready(self) -> bool:
        asking = [str(self.programs / "pg_isready"), "--host=127.0.0.1", f"--port={self.port}"]
        return subprocess.run(asking, check=False, capture_output=True).returncode == 0

    def execute(self, sql: str) -> None:
        """Execute statements, each in a transaction of its own unless they say BEGIN."""
        self._run(self._psql("--quiet"), sql)

    def rows(self, query: str) -> list[list[str]]:
        """Read what a query gives."""
        return list(csv.reader(io.StringIO(self._run(self._psql("--csv", "--tuples-only"), query))))

    def _psql(self, *options: str) -> Sequence[str]:
        program = str(self.programs / "psql")
        where = ("--host=127.0.0.1", f"--port={self.port}", f"--username={ACCOUNT}", "--dbname=postgres")
        return (program, *where, "--no-psqlrc", "--set=ON_ERROR_STOP=1", *options)

    def _run(self, command: Sequence[str], stdin: str = "") -> str:
        done = subprocess.run(command, input=stdin, check=False, capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run a server until the end of the block; skip the test where there is none."""
    programs = _programs()
    # PostgreSQL refuses to run as root.
    as_user = ("runuser", "-u", ACCOUNT, "--") if os.geteuid() == 0 else ()
    if as_user and ACCOUNT not in {entry.pw_name for entry in pwd.getpwall()}:
        pytest.skip(f"PostgreSQL does not run as root, and there is no account `{ACCOUNT}`")
    # Not below pytest's folders, which that account may not enter.
    with tempfile.TemporaryDirectory(prefix="freki-postgres-") as name:
        folder = Path(name)
        if as_user:
            shutil.chown(folder, ACCOUNT)
        server = Postgres(programs=programs, port=free_port())
        subprocess.run(
            [
                *(*as_user, str(programs / "initdb"), "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"),
                *("--no-sync", f"--username={ACCOUNT}", f"--pgdata={folder / 'data'}"),
            ],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        command = [
            *(*as_user, str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(server.port)),
            *("-k", str(folder), "-c", "listen_addresses=127.0.0.1", "-c", "wal_level=logical"),
        ]
        with running(command, folder / "log", server.is_ready, patience_s=PATIENCE_S, cwd=folder):
            yield server


def _programs() -> Path:
    """Find the newest; a Debian package does not put `initdb` on the PATH."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.skip("there is no PostgreSQL: install one, such as Debian's postgresql")
    return Path(on_path).parent
