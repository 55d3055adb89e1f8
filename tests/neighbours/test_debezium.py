"""A table of PostgreSQL, followed by Debezium in Kafka Connect and `freki relay`, is what the index holds."""

# ruff: noqa: S311, S608 - numbers that can be drawn again, and statements that only this file's words are part of

import asyncio
import hashlib
import logging
import os
import random
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from freki.infra.kafka.admin import Admin
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import environment_for, read_stack, settings_for
from freki.infra.settings import Settings
from freki.streams.wire.connect import open_index
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import ask, documents, verify
from tests.neighbours.apicurio import CONFLUENT, running_apicurio
from tests.neighbours.connect import POM, running_connect
from tests.neighbours.postgres import Postgres, running_postgres
from tests.neighbours.programs import jars_of

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text(encoding="utf-8")
TOPIC = "shop.public.articles"
TENANT = "shop"
EARLIER = 100
TEAMS = ("sales", "support", "stock")
WORDS = (
    *("Antrag", "Bescheid", "Frist", "Gebühr", "Hafen", "Insel", "Kran", "Lager", "Markt", "Nebel", "Ofen", "Pumpe"),
    *("Quelle", "Regal", "Schiene", "Tarif", "Urlaub", "Vertrag", "Wiese", "Zaun"),
)
LARGE_WORDS = 400
"""More than the 2 kB from which on PostgreSQL stores a column elsewhere and leaves it out of what it logs."""
PATIENCE_S = 500.0
CHECK_INTERVAL_S = 2.0

_log = logging.getLogger(__name__)

Article = tuple[str, str, tuple[str, ...], str]
"""SHA-256 of the body, title, readers, category."""


def blocks(language: str) -> Sequence[str]:
    """Give the page's blocks in a language, in order."""
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    return found


def properties(text: str, **changed: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines()) | changed


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Shop:
    """Draws changes of a table, as SQL."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ids: list[int] = []
        self._gone: list[int] = []
        self._next = 1

    def insert(self) -> str:
        self._ids.append(self._next)
        self._next += 1
        return self._row(self._ids[-1])

    def transactions(self, changes: int) -> Iterator[str]:
        """Change rows so many times; in a transaction an id may be among them more than once."""
        while changes:
            count = min(changes, self._random.randint(1, 10))
            yield "\n".join(["BEGIN;", *(self._change() for _ in range(count)), "COMMIT;"])
            changes -= count

    def rolled_back(self) -> str:
        """Change all rows, and take it back."""
        return "BEGIN; UPDATE articles SET body = 'Das gilt nicht.'; DELETE FROM articles WHERE id % 2 = 0; ROLLBACK;"

    def _change(self) -> str:
        kind = self._random.random()
        if kind < 0.45 or not self._ids:
            return self.insert()
        place = self._random.randrange(len(self._ids))
        row = self._ids[place]
        where = f"WHERE id = {row};"
        if kind < 0.75:
            return f"UPDATE articles SET body = {quoted(self._text())} {where}"
        if kind < 0.82:
            # The body is left alone.
            return f"UPDATE articles SET team = '{self._random.choice(TEAMS)}', category = 'moved' {where}"
        if kind < 0.85 and self._gone:
            self._ids.append(self._gone.pop())
            return self._row(self._ids[-1])
        if kind < 0.97:
            self._gone.append(self._ids.pop(place))
            return f"DELETE FROM articles {where}"
        self._ids[place] = self._next
        self._next += 1
        return f"UPDATE articles SET id = {self._ids[place]} {where}"

    def _row(self, row: int) -> str:
        category = "NULL" if self._random.random() < 0.2 else f"'{self._random.choice(WORDS)}'"
        return (
            f"INSERT INTO articles VALUES ({row}, {quoted(f'Artikel {row}')}, '{self._random.choice(TEAMS)}', "
            f"{category}, {quoted(self._text())});"
        )

    def _text(self) -> str:
        count = LARGE_WORDS if self._random.random() < 0.01 else self._random.randint(4, 12)
        return " ".join(self._random.choices(WORDS, k=count)) + f". Nummer {self._random.randrange(10**9)}, d'accord."


def table(postgres: Postgres) -> dict[str, Article]:
    """Read what the index must hold, by the name of the document."""
    rows = postgres.rows("SELECT id, title, team, coalesce(category, ''), body FROM articles")
    return {
        f"articles/{row}": (hashlib.sha256(body.encode()).hexdigest(), title, ("staff", team), category)
        for row, title, team, category, body in rows
    }


async def index(freki: Freki) -> dict[str, Article]:
    """Read what the index holds."""
    async with open_index(freki.settings) as opened:
        return {
            root.document_id: (root.content_hash, root.name, root.principals, root.attributes.get("category", ""))
            async for root in opened.all_roots()
            if root.tenant == TENANT and not root.deleted
        }


async def becomes(freki: Freki, expected: Mapping[str, Article]) -> dict[str, Article]:
    """Wait until the index is what is expected; give what it is, also where it does not become that."""
    held: dict[str, Article] = {}
    for _ in range(int(PATIENCE_S / CHECK_INTERVAL_S)):
        held = await index(freki)
        if held == expected:
            break
        await asyncio.sleep(CHECK_INTERVAL_S)
    return held


@asynccontextmanager
async def relaying(freki: Freki, folder: Path, encoding: str) -> AsyncIterator[None]:
    """Run `freki relay` with the mapping of the page."""
    (mapping,) = (block for block in blocks("toml") if TOPIC in block)
    (folder / "freki.toml").write_text(f'{mapping}encoding = "{encoding}"\n', encoding="utf-8")
    async with Admin(freki.settings.kafka) as admin:
        for _ in range(int(PATIENCE_S / CHECK_INTERVAL_S)):
            (state,) = await admin.describe([TOPIC])
            if state.partitions:
                break
            await asyncio.sleep(CHECK_INTERVAL_S)
    stack = read_stack(freki.settings.local.state_dir)
    assert stack is not None
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "relay"),
        cwd=folder,
        env={**os.environ, **environment_for(Settings(), stack), "FREKI_TENANT": TENANT},
    )
    try:
        yield
        assert process.returncode is None
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def follow(freki: Freki, folder: Path, worker: Mapping[str, str], *, encoding: str, changes: int) -> None:
    """Change a table so many times; afterwards the index must hold its rows, and nothing else."""
    libs = jars_of(POM)
    connector, *_ = blocks("properties")
    (schema,) = blocks("sql")
    shop = Shop(seed=2026)
    with running_postgres() as postgres:
        postgres.execute(schema)
        postgres.execute("\n".join(shop.insert() for _ in range(EARLIER)))
        changed = properties(connector, **{"database.port": str(postgres.port)})
        with running_connect(libs, folder, freki.settings.kafka.bootstrap, changed, worker):
            async with relaying(freki, folder, encoding):
                before = table(postgres)
                assert len(before) == EARLIER
                assert await becomes(freki, before) == before

                postgres.execute("\n".join([*shop.transactions(changes), shop.rolled_back()]))
                after = table(postgres)
                held = await becomes(freki, after)
                async with Admin(freki.settings.kafka) as admin:
                    records = await admin.held(TOPIC)
                _log.info("%s: %d records, %d rows became %d", postgres.version, records, len(before), len(after))

    assert held == after
    # A key that changes is a deletion, a tombstone and an insert; a deletion is two records.
    assert records is not None
    assert records > EARLIER + changes
    assert len(before.keys() - after.keys()) > 0
    number = next(iter(after)).removeprefix("articles/")
    answer = await ask(freki, TENANT, f"Artikel {number}", principals=("staff",), deadline_ms=60_000)
    assert documents(answer)
    assert set(documents(answer)) <= after.keys()
    assert await verify(freki) == 0


@pytest.mark.timeout(1200)
async def test_the_index_equals_the_table_after_a_thousand_changes(freki: Freki, tmp_path: Path) -> None:
    _, worker, _ = blocks("properties")

    await follow(freki, tmp_path, properties(worker), encoding="json", changes=1000)


@pytest.mark.timeout(1200)
async def test_so_it_does_in_avro_with_a_schema_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars_of(POM)
    _, worker, avro = blocks("properties")
    with running_apicurio() as registry:
        monkeypatch.setenv("FREKI_REGISTRY__URL", registry)
        address = registry.removesuffix(CONFLUENT)
        converters = properties(avro.replace("http://127.0.0.1:8080", address))
        settings = Settings(local=Settings().local.elsewhere(tmp_path / "state"))
        children = Children()
        async with LocalStack(settings, report=children.report, prepare=apply_topics) as stack:
            here = Freki(settings_for(settings, stack.state), children)
            without = {name: value for name, value in properties(worker).items() if ".converter" not in name}
            await follow(here, tmp_path, without | converters, encoding="avro", changes=200)
