"""The audit log of the whole of Freki, whose workers are killed."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import environment_for, read_stack, settings_for
from freki.infra.settings import Settings
from freki.infra.signing import make_key
from freki.schemas import ContextResult, ResultStatus
from freki.streams.wire.connect import open_asker
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import PATIENCE_S, delete, documents, invoke, publish, query, upsert
from tests.issuer import AUDIENCE, ISSUER, Issuer, key_server

STAGES = [("chunk", "contextualise", "embed"), ("retrieve",), ("retrieve",)]
INGEST = "chunk-contextualise-embed"
QUESTION = "Wann endet die Frist?"
_TAKEN_OVER = 'freki_settings_reloads_total{outcome="taken_over"'


@dataclass
class Audited:
    """A stack with tokens and an audit log."""

    freki: Freki
    issuer: Issuer
    log: Path
    folder: Path
    """Where the processes were started, and freki.toml lies."""

    def token(self, **claims: Any) -> str:
        return self.issuer.token(**{"tenant": "hr", "jti": str(uuid.uuid4()), **claims})

    async def ask(self, token: str | None) -> ContextResult:
        async with open_asker(self.freki.settings, tenant="hr") as asker:
            return await asker.ask(query("hr", QUESTION), patience_s=PATIENCE_S, token=token)

    def audit(self, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        """Run `freki audit` and return its exit code and output."""
        done = invoke(self._environment(), "audit", *arguments, "--json")
        assert not done.stderr, done.stderr
        return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]

    def freki_status(self) -> str:
        """Return what `freki status` prints of the workers."""
        ready = (self.freki.settings.local.state_dir / "run").glob("*.ready")
        workers = [part for file in ready for part in ("--worker", file.read_text(encoding="utf-8"))]
        command = [sys.executable, "-m", "freki", "status", *workers]
        return subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False).stdout

    def _environment(self) -> dict[str, str]:
        state = read_stack(self.freki.settings.local.state_dir.expanduser().absolute())
        assert state is not None
        return {**os.environ, **environment_for(self.freki.settings, state), "COLUMNS": "300"}


@pytest.fixture(scope="module")
async def audited(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Audited]:
    folder = tmp_path_factory.mktemp("audited")
    make_key(folder / "audit.key")
    issuer = Issuer()
    with key_server(issuer) as server, pytest.MonkeyPatch.context() as patch:
        given = {
            "AUTH__JWKS": server.url,
            "AUTH__ISSUER": ISSUER,
            "AUTH__AUDIENCE": AUDIENCE,
            "AUDIT__ENABLED": "true",
            "AUDIT__KEY_FILE": str(folder / "audit.key"),
            "AUDIT__DIRECTORY": str(folder / "log"),
            "AUDIT__ANCHOR_ENTRIES": "5",
        }
        for name, value in given.items():
            patch.setenv(f"FREKI_{name}", value)
        patch.chdir(folder)
        settings = Settings(local=Settings().local.elsewhere(folder / "state"))
        children = Children()

        async def prepare(found: Settings) -> None:
            await apply_topics(found)

        async with LocalStack(settings, report=children.report, prepare=prepare, workers=STAGES) as stack:
            yield Audited(Freki(settings_for(settings, stack.state), children), issuer, folder / "log", folder)


async def test_all_that_was_asked_refused_and_changed_is_found_also_after_workers_died(audited: Audited) -> None:
    freki, children = audited.freki, audited.freki.children
    await publish(
        freki,
        upsert("hr", "of-ada", "Die Frist für Ada endet im Mai.", principals=("ada",)),
        upsert("hr", "of-board", "Die Frist für den Vorstand endet im Mai.", principals=("board",)),
    )
    answered = [await audited.ask(audited.token())]
    refused = [await audited.ask(token) for token in (None, audited.token(exp=1), Issuer("RS256").token(tenant="hr"))]
    asking = asyncio.create_task(_ask_on(audited))
    for _ in range(2):
        await children.kill("retrieve")
    await children.kill(INGEST)
    await publish(
        freki,
        upsert("hr", "of-board", "Die Frist für den Vorstand endet im Juni.", version=2, principals=("ada", "board")),
    )
    await publish(freki, delete("hr", "of-ada", version=2))
    for name in ("retrieve", INGEST):
        await children.ready[name].wait()
    asking.cancel()
    answered += await asking

    await asyncio.to_thread(_check_chains, audited)
    # Workers go on, and sign what they have: an entry is in its file first, then on the topic.
    _, entries = await asyncio.to_thread(audited.audit, "search", "--topic")
    _, in_files = await asyncio.to_thread(audited.audit, "search")
    _, later = await asyncio.to_thread(audited.audit, "search", "--topic")

    earliest, written, latest = ({entry["hash"] for entry in each} for each in (entries, in_files, later))
    assert earliest <= written <= latest
    by_query = {entry["subject"]: entry for entry in entries if entry["kind"] == "ASKED"}
    for result in answered:
        if result.status is ResultStatus.EXPIRED:
            # Nothing was given, as when its worker died and the next one came too late.
            assert not result.hits
            continue
        entry = by_query[result.query_id]
        given = {(each["document_id"], each["version"]) for each in entry["documents"]}
        assert {(hit.document_id, hit.version) for hit in result.hits} <= given
        assert (entry["asker"], entry["tenant"], entry["text"]) == ("ada", "hr", "")
    assert documents(answered[0]) == ["of-ada"]
    refusals = {entry["subject"]: entry["reason"] for entry in entries if entry["kind"] == "REFUSED"}
    assert [refusals[result.query_id] for result in refused] == ["NO_TOKEN", "EXPIRED", "UNKNOWN_KEY"]
    changes = [
        (entry["kind"], entry["documents"][0]["document_id"], entry["documents"][0]["version"])
        for entry in entries
        if entry["kind"] in {"PUBLISHED", "DELETED", "RIGHTS"} and entry["tenant"] == "hr"
    ]
    assert set(changes) == {
        ("PUBLISHED", "of-ada", 1),
        ("PUBLISHED", "of-board", 1),
        ("PUBLISHED", "of-board", 2),
        ("RIGHTS", "of-board", 2),
        ("DELETED", "of-ada", 2),
    }
    _, by_text = await asyncio.to_thread(audited.audit, "search", "--text", QUESTION, "--kind", "asked")
    assert {entry["subject"] for entry in by_text} == set(by_query)
    content = b"".join(path.read_bytes() for path in audited.log.iterdir())
    assert QUESTION.encode() not in content


async def test_settings_change_while_questions_are_in_flight_and_none_is_lost(audited: Audited) -> None:
    freki, file = audited.freki, audited.folder / "freki.toml"
    texts = ("Die Frist endet im Mai.", "Die Frist für Anträge ist kurz.", "Eine Frist gilt immer.")
    await publish(
        freki, *(upsert("reload", f"{number}.md", text, principals=("ada",)) for number, text in enumerate(texts))
    )
    async with open_asker(freki.settings, tenant="reload") as asker:

        async def ask() -> ContextResult:
            token = audited.token(tenant="reload")
            return await asker.ask(query("reload", QUESTION), patience_s=PATIENCE_S, token=token)

        answered: list[ContextResult] = []

        async def ask_on(stop: asyncio.Event) -> None:
            while not stop.is_set():
                answered.append(await ask())
                await asyncio.sleep(0.05)

        async def until_answered(hits: int) -> None:
            """Wait, however long a busy machine takes, until a question in flight had so many hits."""
            async with asyncio.timeout(PATIENCE_S):
                while all(len(result.hits) != hits for result in answered):  # noqa: ASYNC110 - tasks add to it
                    await asyncio.sleep(0.05)

        done = asyncio.Event()
        asking = [asyncio.create_task(ask_on(done)) for _ in range(4)]
        await until_answered(3)
        _put(file, "[retrieval]\ntop_k = 1\n[crawl]\ndelay_s = 2.0\n")
        await _each_worker(audited, "/metrics", lambda reply: _TAKEN_OVER in reply.text)
        after = await asyncio.gather(*(ask() for _ in range(4)))
        await until_answered(1)
        done.set()
        await asyncio.gather(*asking)
        _, recorded = await asyncio.to_thread(audited.audit, "search", "--kind", "settings")

        assert len(recorded) == len(STAGES)
        assert {entry["reason"] for entry in recorded} == {"while running: FREKI_RETRIEVAL__TOP_K"}
        assert {result.status for result in (*answered, *after)} == {ResultStatus.COMPLETE}
        assert {len(result.hits) for result in answered} == {3, 1}
        assert [len(result.hits) for result in after] == [1] * 4

        # Invalid, or not without a restart: all stays as it is, and each worker says why.
        for text, told in (
            ("[retrieval]\ntop_k = 0\n", "FREKI_RETRIEVAL__TOP_K"),
            ("[retrieval]\ntop_k = 2\n[kafka]\npartitions = 9\n", "FREKI_KAFKA__PARTITIONS changed"),
        ):
            _put(file, text)
            await _all_say(audited, told)
            assert len((await ask()).hits) == 1
        shown = await asyncio.to_thread(audited.freki_status)
        assert shown.count("FREKI_KAFKA__PARTITIONS") == len(STAGES), shown

        _put(file, "[retrieval]\ntop_k = 2\n")
        await _all_say(audited, "")
        assert len((await ask()).hits) == 2


def _put(file: Path, text: str) -> None:
    """Replace a file as a whole."""
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


async def _all_say(audited: Audited, told: str) -> None:
    """Wait until each worker says this of the settings in the file; empty: that they are in force."""

    def says(reply: httpx.Response) -> bool:
        why = reply.json()["checks"]["settings"]["why"]
        return (told in why if told else not why) and reply.status_code == (503 if told else 200)

    await _each_worker(audited, "/health/settings", says)


async def _each_worker(audited: Audited, path: str, says: Callable[[httpx.Response], bool]) -> None:
    """Wait until each worker replies so."""
    files = list((audited.freki.settings.local.state_dir / "run").glob("*.ready"))
    assert len(files) == len(STAGES)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for file in files:
            while not says(await client.get(f"{file.read_text(encoding='utf-8')}{path}")):  # noqa: ASYNC110 - it polls
                await asyncio.sleep(0.1)


async def _ask_on(audited: Audited) -> list[ContextResult]:
    """Ask until cancelled; return what was answered."""
    answered: list[ContextResult] = []
    while True:
        try:
            answered.append(await audited.ask(audited.token()))
        except asyncio.CancelledError:
            return answered


def _check_chains(audited: Audited) -> None:
    code, reports = audited.audit("verify", "--topic", "--file", str(audited.log))
    assert (code, [report["faults"] for report in reports if report["faults"]]) == (0, [])
    in_files = [report for report in reports if report["place"] == "file"]
    # Two that answer, one of ingest; and the killed ones, whose chains the next ones ended.
    assert sum(not report["is_closed"] for report in in_files) == len(STAGES)
    assert sum(report["is_closed"] for report in in_files) == audited.freki.children.kills
