"""Queries with tokens on the whole of Freki, with two workers that answer."""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import environment_for, read_stack, settings_for
from freki.infra.settings import AuthSettings, Settings
from freki.operators.token_id import token_id
from freki.schemas import ContextQuery, ContextResult, QueryId, ResultStatus
from freki.schemas.avro import Codec
from freki.streams.limits.usage import MINUTE_MS
from freki.streams.messages import TOKEN_HEADER, Outgoing
from freki.streams.wire.connect import open_asker, open_outbox
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import COMMAND_S, PATIENCE_S, documents, invoke, membership_record, publish, query, upsert
from tests.issuer import AUDIENCE, ISSUER, Issuer, KeyServer, key_server

TEXT = "Die Frist für {} endet im Mai."
TENANTS = ("hr", "sales", "limited")
STAGES = [("chunk", "contextualise", "embed"), ("retrieve",), ("retrieve",)]


@dataclass
class Guarded:
    """A stack that answers those with tokens only."""

    freki: Freki
    issuer: Issuer
    server: KeyServer

    def token(self, **claims: Any) -> str:
        return self.issuer.token(**{"tenant": "hr", "jti": str(uuid.uuid4()), **claims})

    async def ask(self, token: str | None, *, tenant: str = "hr", **given: Any) -> ContextResult:
        """Ask as `freki ask` does."""
        async with open_asker(self.freki.settings, tenant=tenant) as asker:
            asked = query(tenant, "Wann endet die Frist?", **given)
            return await asker.ask(asked, patience_s=PATIENCE_S, token=token)


@asynccontextmanager
async def running(folder: Path, **auth: Any) -> AsyncIterator[Guarded]:
    issuer = Issuer()
    with key_server(issuer) as server, pytest.MonkeyPatch.context() as patch:
        given = {"jwks": server.url, "issuer": ISSUER, "audience": AUDIENCE, **auth}
        for name, value in given.items():
            patch.setenv(f"FREKI_AUTH__{name.upper()}", str(value))
        patch.setenv("FREKI_LIMITS__TENANTS", json.dumps({"limited": {"queries_per_minute": 4}}))
        settings = Settings(local=Settings().local.elsewhere(folder))
        assert settings.auth == AuthSettings(**given)
        children = Children()

        async def prepare(found: Settings) -> None:
            await apply_topics(found, tenants=TENANTS if found.auth.reply_topic else ())

        async with LocalStack(settings, report=children.report, prepare=prepare, workers=STAGES) as stack:
            freki = Freki(settings_for(settings, stack.state), children)
            await publish(
                freki,
                upsert("hr", "of-ada", TEXT.format("Ada"), principals=("ada",)),
                upsert("hr", "of-board", TEXT.format("den Vorstand"), principals=("board",)),
                upsert("sales", "of-sales", TEXT.format("den Verkauf")),
            )
            yield Guarded(freki, issuer, server)


@pytest.fixture(scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    async with running(
        tmp_path_factory.mktemp("guarded"), replay_window_s=60, reply_topic="contexts-{tenant}"
    ) as freki:
        yield freki


async def test_only_a_valid_token_is_answered_and_only_with_what_it_may_read(guarded: Guarded) -> None:
    stranger = Issuer("RS256")

    answered = await guarded.ask(guarded.token())
    of_sales = await guarded.ask(guarded.token(tenant="sales"), tenant="sales")
    refused = [
        await guarded.ask(token)
        for token in (
            None,
            "x",
            guarded.token(exp=1),
            guarded.token(aud="another"),
            guarded.token(tenant="sales"),
            stranger.token(tenant="hr", jti="1"),
        )
    ]

    assert documents(answered) == ["of-ada"]
    assert documents(of_sales) == ["of-sales"]
    assert {result.status for result in refused} == {ResultStatus.REJECTED}
    assert not any(documents(result) for result in refused)
    assert all(result.notices[0].stage == "authenticate" for result in refused)


async def test_two_workers_together_answer_no_more_queries_than_the_limit_of_the_tenant(guarded: Guarded) -> None:
    answers = [await guarded.ask(guarded.token(tenant="limited"), tenant="limited") for _ in range(14)]

    refused = [answer for answer in answers if answer.notices and answer.notices[0].stage == "limit"]
    # Other minutes may begin between them, on a busy machine more than one, and what one worker has not read of the
    # other yet may pass.
    minutes = {answer.asked_at // MINUTE_MS for answer in answers}
    assert 14 - len(minutes) * (4 + 1) <= len(refused) <= 14 - 4
    assert {answer.status for answer in refused} == {ResultStatus.EXPIRED}


async def test_groups_are_taken_over_by_all_workers(guarded: Guarded) -> None:
    async def change(*groups: str) -> None:
        record = membership_record(guarded.freki.settings, "hr", "eve", *groups)
        async with open_outbox(guarded.freki.settings) as (outbox, _):
            await outbox.send(record)

    async def found() -> list[tuple[str, ...]]:
        # Token ids spread queries over partitions, hence over both workers.
        return [tuple(documents(await guarded.ask(guarded.token(sub="eve")))) for _ in range(6)]

    async def until(expected: tuple[str, ...]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while set(await found()) != {expected}:
                pass

    await until(())
    await change("board")
    await until(("of-board",))
    await change()
    await until(())


async def test_a_new_key_of_the_issuer_counts(guarded: Guarded) -> None:
    old = guarded.token()
    guarded.issuer.rotate(str(uuid.uuid4()))

    async with asyncio.timeout(PATIENCE_S):
        # Workers look for unknown keys once in ten seconds. Token ids spread queries over both workers.
        while any([documents(await guarded.ask(guarded.token())) != ["of-ada"] for _ in range(6)]):
            pass

    assert documents(await guarded.ask(old)) == ["of-ada"]


async def test_a_stolen_token_is_of_no_use_also_after_its_worker_died(guarded: Guarded) -> None:
    tokens = [guarded.token() for _ in range(6)]
    settings = guarded.freki.settings

    async def again(token: str, **given: Any) -> ContextResult:
        return await guarded.ask(token, **given)

    for token in tokens:
        assert documents(await guarded.ask(token)) == ["of-ada"]
    stolen = [await again(token) for token in tokens[:3]]
    await guarded.freki.children.kill("retrieve")
    after = [await again(token, top_k=3) for token in tokens]

    assert {result.status for result in (*stolen, *after)} == {ResultStatus.REJECTED}
    assert {result.notices[0].message for result in (*stolen, *after)} == {
        "the query is refused: its token was used before"
    }
    # The same record, sent once more as by a client that repeats after a lost acknowledgement.
    token = guarded.token()
    asked = replace(query("hr", "Wann endet die Frist?"), query_id=QueryId(token_id(token) or ""))
    value = Codec(ContextQuery).encode(asked)
    async with open_outbox(settings) as (outbox, _), open_asker(settings, tenant="hr") as asker:
        record = Outgoing(
            topic=topics_of(settings).queries.name,
            key=asked.query_id.encode(),
            value=value,
            headers=((TOKEN_HEADER, token.encode()),),
        )
        await outbox.send(record)
        assert documents(await asker.ask(asked, patience_s=PATIENCE_S, token=token)) == ["of-ada"]


async def test_the_command_line_asks_with_a_token_of_a_file(guarded: Guarded, tmp_path: Path) -> None:
    stack = read_stack(guarded.freki.settings.local.state_dir)
    assert stack is not None
    file = tmp_path / "token"
    file.write_text(guarded.token() + "\n")
    environment = {**os.environ, **environment_for(Settings(), stack)}

    words = ("ask", "Wann endet die Frist?", "--tenant", "hr")
    command = [sys.executable, "-m", "freki", *words, "--token-file", str(file)]
    answered = await asyncio.to_thread(
        subprocess.run, command, env=environment, check=False, capture_output=True, text=True, timeout=COMMAND_S
    )
    refused = await asyncio.to_thread(invoke, environment, *words)
    nothing = await asyncio.to_thread(invoke, environment, *words, "--token-file", str(tmp_path / "none"))

    assert answered.returncode == 0, answered.stderr
    assert "of-ada" in answered.stdout
    assert refused.exit_code == 1
    assert "the query is refused: it has no token" in refused.stdout
    assert nothing.exit_code == 2
    assert "cannot be read" in nothing.stderr


async def test_no_token_is_in_a_file_that_the_stack_writes(guarded: Guarded) -> None:
    token = guarded.token()
    await guarded.ask(token)
    await guarded.ask(token)
    signature = token.rpartition(".")[2].encode()

    for path in guarded.freki.settings.local.state_dir.rglob("*"):
        if path.is_file() and path.suffix in {".log", ".jsonl", ".ready", ".json"}:
            assert signature not in path.read_bytes(), path
