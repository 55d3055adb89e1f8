"""What the acceptance tests say to a running Freki."""

import asyncio
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from freki.cli import context, ending
from freki.cli.main import app
from freki.infra.kafka import Reader
from freki.infra.local.state import environment_for, read_stack
from freki.infra.settings import Settings
from freki.schemas import (
    EVERYONE,
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    GroupMembership,
    IndexOutcome,
    Operation,
    QueryId,
    TenantId,
)
from freki.schemas.avro import Codec
from freki.streams.messages import Outgoing
from freki.streams.retrieve.memberships import membership_key
from freki.streams.wire.connect import open_asker, open_publisher, open_receipts
from freki.streams.wire.from_settings import topics_of, wall_clock
from tests.acceptance.conftest import DEADLINE_MS, Freki

PATIENCE_S = 400.0
COMMAND_S = 1200.0
"""Longest that a command may take: less than a test may, so that what it printed is shown."""
_ONE_COMMAND = threading.Lock()


def upsert(tenant: str, document: str, content: str | bytes, *, version: int = 1, **fields: Any) -> DocumentChange:
    """Make a change that puts a document there."""
    return DocumentChange(
        **{
            "tenant": TenantId(tenant),
            "document_id": DocumentId(document),
            "operation": Operation.UPSERT,
            "version": version,
            "occurred_at": wall_clock(),
            "principals": (EVERYONE,),
            "content": content,
            **fields,
        }
    )


def delete(tenant: str, document: str, *, version: int) -> DocumentChange:
    """Make a change that takes a document away."""
    return DocumentChange(
        tenant=TenantId(tenant),
        document_id=DocumentId(document),
        operation=Operation.DELETE,
        version=version,
        occurred_at=wall_clock(),
    )


def query(tenant: str, text: str, *, deadline_ms: int | None = DEADLINE_MS, **options: Any) -> ContextQuery:
    """Make a question; deadline_ms: None: that of the stack."""
    return ContextQuery(
        query_id=QueryId(str(uuid.uuid4())),
        tenant=TenantId(tenant),
        text=text,
        asked_at=wall_clock(),
        deadline_ms=deadline_ms,
        **options,
    )


def membership_record(settings: Settings, tenant: str, user: str, *groups: str) -> Outgoing:
    """Make the record that gives a user these groups and no others; none takes all away."""
    membership = GroupMembership(tenant=TenantId(tenant), principal=user, groups=groups)
    return Outgoing(
        topic=topics_of(settings).groups.name,
        key=membership_key(tenant, user),
        value=Codec(GroupMembership).encode(membership) if groups else None,
    )


async def publish(freki: Freki, *changes: DocumentChange) -> list[IndexOutcome]:
    """Publish changes and wait for the receipt of each, in the order of the changes."""
    async with open_receipts(freki.settings) as receipts, open_publisher(freki.settings) as publisher:
        for change in changes:
            receipts.expect(change)
            await publisher.publish(change)
        outcomes = [await receipts.next(patience_s=PATIENCE_S) for _ in changes]
    found = {(outcome.tenant, outcome.document_id, outcome.version): outcome for outcome in outcomes}
    return [found[change.tenant, change.document_id, change.version] for change in changes]


async def ask(freki: Freki, tenant: str, text: str, *, answers_on: str | None = None, **options: Any) -> ContextResult:
    """Ask a question and wait for its answer."""
    async with open_asker(freki.settings, answers_on=answers_on) as asker:
        return await asker.ask(query(tenant, text, **options), patience_s=PATIENCE_S)


async def all_values(freki: Freki) -> list[bytes]:
    """Read what lies on all topics whose values are records of a contract."""
    values = []
    for topic in topics_of(freki.settings):
        if topic.holds is not None:
            async with Reader(freki.settings.kafka, topic.name, start="earliest") as reader:
                values += [stored.value async for stored in reader.until_end() if stored.value is not None]
    return values


@asynccontextmanager
async def until_asked(freki: Freki, tenant: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Give what waits until a query of a tenant, sent from now on, is on its topic: then it is under way."""
    decode = Codec(ContextQuery).decode
    async with Reader(freki.settings.kafka, topics_of(freki.settings).queries.name, start="latest") as reader:

        async def wait() -> None:
            async with asyncio.timeout(PATIENCE_S):
                async for stored in reader:
                    if stored.value is not None and decode(stored.value).tenant == tenant:
                        return

        yield wait


def messages(result: ContextResult) -> str:
    """All that a result says besides its hits."""
    return " ".join([*(notice.message for notice in result.notices), *result.advice])


def documents(result: ContextResult) -> Sequence[str]:
    """Documents of the hits, best first."""
    return list(dict.fromkeys(hit.document_id for hit in result.hits))


def environment(freki: Freki) -> dict[str, str]:
    """Variables of a command that talks to the stack, in lines of 200 characters."""
    stack = read_stack(freki.settings.local.state_dir)
    assert stack is not None
    return {**os.environ, **environment_for(Settings(), stack), "COLUMNS": "200"}


def invoke(environment: Mapping[str, str], *arguments: str) -> Result:
    """Run a command within this process, in a thread that runs no event loop, and give what it ended with and printed.

    It has all its libraries already, on which a process of its own spends most of its time. An error that no user
    should see is raised. `freki_process` is for what sets signals, for what is to be shown of a process, and for
    variables that workers which start meanwhile are not to inherit.
    """
    # The environment and the standard streams are those of all threads.
    with _ONE_COMMAND, pytest.MonkeyPatch.context() as patch:
        for console in (context.console, context.errors):
            # Else the width that the environment gave when it was made, as in processes of xdist.
            patch.setattr(console, "_width", None)
        # A command whose threads do not end in time ends the process.
        patch.setattr(ending, "LIMIT_S", PATIENCE_S)
        return CliRunner().invoke(app, arguments, env=environment, catch_exceptions=False)


async def freki_command(freki: Freki, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run a command within this process, as `invoke` does; give its exit code and all that it printed."""
    done = await asyncio.to_thread(invoke, {**environment(freki), **variables}, *arguments)
    return done.exit_code, done.output


async def freki_process(freki: Freki, *arguments: str, **variables: str) -> tuple[int, str]:
    """Run a command as a process; give its exit code and all that it printed."""

    def run() -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "freki", *arguments],
            env={**environment(freki), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=COMMAND_S,
        )
        return done.returncode, done.stdout

    return await asyncio.to_thread(run)


async def verify(freki: Freki) -> int:
    """Compare topic and store as an operator would."""
    code, _ = await freki_command(freki, "verify")
    return code
