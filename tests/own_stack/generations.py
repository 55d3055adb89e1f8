"""A local stack with documents, and commands that fill another generation with chunks of another size."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from freki.infra.local.children import RestartPolicy
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import environment_for, settings_for
from freki.infra.settings import Settings
from freki.schemas import DocumentChange
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import settings_named
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import upsert

TENANT = "generations"
STABLE = 12
OTHER_CHUNKS = {"FREKI_CHUNKING__MIN_TOKENS": "16", "FREKI_CHUNKING__MAX_TOKENS": "48"}

Held = Mapping[str, tuple[int, bool, frozenset[str]]]
"""Version of each document, whether it is deleted, and its chunks."""


def text_of(name: str, version: int) -> str:
    drawn = random.Random(f"{name} {version}")  # noqa: S311
    return "\n\n".join(
        f"Vorgang {name}-{place} in Fassung {version}: Der Antrag auf Reisekosten Nummer {drawn.randrange(9_999)}"
        f" wurde geprüft. Die zuständige Stelle hat innerhalb von {drawn.randrange(90)} Tagen zu entscheiden und ihn"
        f" schriftlich zu begründen. Gegen ihn kann Widerspruch erhoben werden, über den die Leitung befindet."
        for place in range(6)
    )


def stable_documents() -> list[DocumentChange]:
    return [upsert(TENANT, f"s{number}", text_of(f"s{number}", 1), name=f"s{number}.txt") for number in range(STABLE)]


@asynccontextmanager
async def running(tmp_path: Path, workers: Sequence[Sequence[str]]) -> AsyncIterator[Freki]:
    children = Children()
    settings = Settings(local=Settings().local.elsewhere(tmp_path / "state"))
    quick = RestartPolicy(first_s=0.05, longest_s=0.2)
    stack = LocalStack(settings, report=children.report, prepare=apply_topics, workers=workers, restart=quick)
    async with stack:
        yield Freki(settings_for(settings, stack.state), children, stack.state)


async def command(freki: Freki, *arguments: str) -> asyncio.subprocess.Process:
    assert freki.state is not None
    environment = {**os.environ, **environment_for(freki.settings, freki.state), **OTHER_CHUNKS}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", "generations", *arguments),
        env={**environment, "FREKI_LOCAL__STATE_DIR": str(freki.state.directory), "COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )


async def said(freki: Freki, *arguments: str, code: int = 0) -> str:
    process = await command(freki, *arguments)
    output, _ = await process.communicate()
    assert process.returncode == code, output.decode()
    return output.decode()


async def rows_of(freki: Freki, generation: str) -> Held:
    """Read what a generation holds."""
    async with open_index(settings_named(freki.settings, generation)) as index:
        roots = [root async for root in index.all_roots() if root.tenant == TENANT]
        pages = await index.pages([page for root in roots for page in root.pages])
    return {
        root.document_id: (
            root.version,
            root.deleted,
            frozenset(entry.chunk_id for page in root.pages for entry in pages[page].entries),
        )
        for root in roots
    }
