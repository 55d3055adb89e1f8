import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from freki.infra.local.scrub import request_scrub, scrub_if_requested

NEEDLE = b"Der Satz ist geheim. " * 50


def deleted_from(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("PRAGMA secure_delete = OFF")
        database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)")
        database.executemany("INSERT INTO rows VALUES (?, ?)", [(n, NEEDLE if n % 2 else b"kept") for n in range(200)])
        database.commit()
        database.execute("DELETE FROM rows WHERE id % 2 = 1")


def test_what_was_deleted_leaves_the_file_on_request_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "freki.db"
    deleted_from(file)
    scrub_if_requested(file)
    assert NEEDLE[:40] in file.read_bytes()

    assert request_scrub(file)
    scrub_if_requested(file)

    assert NEEDLE[:40] not in file.read_bytes()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM rows").fetchone() == (100,)
    assert [path.name for path in tmp_path.iterdir()] == ["freki.db"]


def test_a_request_stays_until_it_is_met(tmp_path: Path) -> None:
    file = tmp_path / "freki.db"
    assert not request_scrub(file)
    file.write_bytes(b"no database" * 1000)
    assert request_scrub(file)

    for _ in range(2):
        with pytest.raises(OSError, match="cannot be removed from it"):
            scrub_if_requested(file)
