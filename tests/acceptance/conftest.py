"""The whole of Freki on this machine: real broker, store, models and worker processes, and clients beside them."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from freki.infra.local.children import Event, Ready, RestartPolicy, Started
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import StackState, settings_for
from freki.infra.settings import Settings
from freki.streams.wire.provision import apply_topics

REPLY_TOPIC = "freki.contexts.v1"
LIMITED = "limited"
"""Tenant with limits."""
DEADLINE_MS = 60_000
"""Deadline of queries that name none: which hits they find is no matter of how busy this machine is."""
ONE_WORKER = (("chunk", "contextualise", "embed", "retrieve"),)
"""All stages in one process, which starts sooner than several: for stacks of tests where the layout does not matter."""


@dataclass
class Children:
    """What runs, by name, and a way to kill it."""

    pids: dict[str, int] = field(default_factory=dict)
    ready: dict[str, asyncio.Event] = field(default_factory=dict)
    kills: int = 0

    def report(self, event: Event) -> None:
        if isinstance(event, Started):
            self.pids[event.name] = event.pid
        elif isinstance(event, Ready):
            self.ready.setdefault(event.name, asyncio.Event()).set()

    async def kill(self, name: str) -> None:
        """Kill a process that is at work; the supervisor starts another."""
        await self.ready[name].wait()
        self.ready[name].clear()
        os.kill(self.pids[name], signal.SIGKILL)
        self.kills += 1


@dataclass
class Freki:
    """A running stack."""

    settings: Settings
    children: Children
    state: StackState | None = None


# It ends with the last test that may use it: its processes poll while they are idle, beside the tests of other folders.
@pytest.fixture(scope="package")
async def freki(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Freki]:
    state: Path = tmp_path_factory.mktemp("state")
    children = Children()
    # With a process for each stage, as on machines of more than two cores: some tests end one of them.
    local = Settings().local.elsewhere(state).model_copy(update={"single_worker": False})
    settings = Settings(local=local)

    # Workers read their settings from the environment.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FREKI_RETRIEVAL__REPLY_TOPICS", json.dumps([REPLY_TOPIC]))
        patch.setenv("FREKI_RETRIEVAL__DEADLINE_MS", str(DEADLINE_MS))
        # They count only for queries that ask for it.
        patch.setenv("FREKI_FEEDBACK__READ", "true")
        patch.setenv("FREKI_LIMITS__TENANTS", json.dumps({LIMITED: {"documents": 2, "queries_per_minute": 3}}))
        (state / "thesaurus.txt").write_text("# Words of one test\nZwischenlager, Hopfenkammer\n", encoding="utf-8")
        patch.setenv("FREKI_RETRIEVAL__THESAURUS", str(state / "thesaurus.txt"))
        quick = RestartPolicy(first_s=0.05, longest_s=0.2)
        async with LocalStack(settings, report=children.report, prepare=apply_topics, restart=quick) as stack:
            yield Freki(settings_for(settings, stack.state), children)
