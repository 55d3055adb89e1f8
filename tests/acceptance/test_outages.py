"""Store or broker do not answer for a while, during ingest and queries; then they do again.

They are suspended, not killed: the local broker holds its records in memory. `FREKI_TEST_OUTAGE_S` sets how long.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from freki.infra.local.specs import BROKER, STORE
from freki.infra.telemetry.endpoint import HEALTH, METRICS
from freki.schemas import ContextResult, NoticeKind, OutcomeStatus, ResultStatus
from freki.schemas.errors import Unavailable
from freki.streams.client import Asker, Publisher, Receipts
from freki.streams.retrieve.budget.attempts import STEP_REST_MS
from freki.streams.wire.connect import open_asker, open_publisher, open_receipts
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import PATIENCE_S, ask, messages, publish, query, upsert

OUTAGE_S = float(os.environ.get("FREKI_TEST_OUTAGE_S", "5"))
DOCUMENTS = 8
DEADLINE_MS = 1500
PATIENT_MS = 60_000
# An answer that is due may still be on its way; machines that run tests are busy.
SLACK_S = 5.0
TEXT = "Die Gebühr für die Ausstellung des Zwischenzeugnisses beträgt {} Euro und wird mit dem Antrag fällig."


@asynccontextmanager
async def suspended(freki: Freki, name: str) -> AsyncIterator[None]:
    """Let a process do nothing for a while, so that whoever asks it waits."""
    pid = freki.children.pids[name]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def endpoint(freki: Freki, worker: str) -> str:
    return (freki.settings.local.state_dir / "run" / f"{worker}.ready").read_text(encoding="utf-8")


def series(freki: Freki, worker: str, start: str) -> float:
    """Add up the series of a worker that begin with a text."""
    lines = httpx.get(endpoint(freki, worker) + METRICS, trust_env=False).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))


async def until(condition: Callable[[], bool], *, patience_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110 - other processes make it true
            await asyncio.sleep(0.1)


async def ask_on(asker: Asker, tenant: str) -> list[ContextResult | Exception]:
    """Ask again and again while the outage lasts; every question ends, with an answer or with the reason."""
    endings: list[ContextResult | Exception] = []
    over_s = time.monotonic() + OUTAGE_S
    while time.monotonic() < over_s:
        asked = query(tenant, "Was kostet ein Zwischenzeugnis?", deadline_ms=DEADLINE_MS)
        async with asyncio.timeout(PATIENCE_S):
            try:
                endings.append(await asker.ask(asked, patience_s=DEADLINE_MS / 1000 + SLACK_S))
            except (TimeoutError, Unavailable) as error:
                endings.append(error)
        await asyncio.sleep(0.2)
    return endings


@asynccontextmanager
async def clients(freki: Freki) -> AsyncIterator[tuple[Receipts, Publisher, Asker]]:
    """Connect while all is well."""
    async with (
        open_receipts(freki.settings) as receipts,
        open_publisher(freki.settings) as publisher,
        open_asker(freki.settings) as asker,
    ):
        yield receipts, publisher, asker


async def test_a_store_that_is_silent_delays_ingest_and_loses_nothing(freki: Freki) -> None:
    # given documents that are indexed, and more that come while the store is silent
    tenant = "silent-store"
    await publish(freki, upsert(tenant, "before", TEXT.format(99)))
    changes = [upsert(tenant, f"d{number}", TEXT.format(number)) for number in range(DOCUMENTS)]
    async with clients(freki) as (receipts, publisher, asker):
        async with suspended(freki, STORE):
            for change in changes:
                receipts.expect(change)
                await publisher.publish(change)
            answers = await ask_on(asker, tenant)
            await until(lambda: series(freki, "embed", "freki_lag_records{") > 0)
            await until(lambda: series(freki, "embed", "freki_lag_age_seconds{") > 0)
            await until(
                lambda: httpx.get(endpoint(freki, "embed") + HEALTH + "ready", trust_env=False).status_code == 503
            )
        # when it answers again
        outcomes = [await receipts.next(patience_s=2 * PATIENCE_S) for _ in changes]

    # then all is indexed, no question waited beyond its deadline, and each answer said what it lacks
    assert {outcome.status for outcome in outcomes} == {OutcomeStatus.INDEXED}
    results = [answer for answer in answers if isinstance(answer, ContextResult)]
    assert results == answers
    # One that a worker of a busy machine takes after its deadline is told that, and nothing else is tried for it.
    taken = [result for result in results if result.status is not ResultStatus.EXPIRED]
    assert {result.status for result in taken} == {ResultStatus.DEGRADED}
    assert all(any(notice.kind is NoticeKind.DEGRADED for notice in result.notices) for result in taken)
    assert "failed" in messages(taken[0])
    await until(lambda: series(freki, "embed", "freki_lag_records{") == 0)
    await asyncio.sleep(STEP_REST_MS / 1000)  # so long it is left alone at most
    after = await ask(freki, tenant, "Was kostet ein Zwischenzeugnis?", top_k=20)
    assert len(after.hits) == DOCUMENTS + 1


async def test_a_broker_that_is_silent_lets_questions_fail_in_time_and_loses_nothing(freki: Freki) -> None:
    tenant = "silent-broker"
    changes = [upsert(tenant, f"d{number}", TEXT.format(number)) for number in range(DOCUMENTS)]
    async with clients(freki) as (receipts, publisher, asker):
        # given changes that are under way when the broker falls silent
        for change in changes:
            receipts.expect(change)
            await publisher.publish(change)
        async with suspended(freki, BROKER):
            answers = await ask_on(asker, tenant)
        # when it answers again
        outcomes = [await receipts.next(patience_s=2 * PATIENCE_S) for _ in changes]

    # then nothing is lost, and whoever asked meanwhile was told in time
    assert {outcome.status for outcome in outcomes} <= {OutcomeStatus.INDEXED, OutcomeStatus.UNCHANGED}
    assert any(isinstance(answer, Exception) for answer in answers)
    # However long the workers take to notice.
    after = await ask(freki, tenant, "Was kostet ein Zwischenzeugnis?", top_k=20, deadline_ms=PATIENT_MS)
    assert len(after.hits) == DOCUMENTS
