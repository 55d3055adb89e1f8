"""Commands as processes, and what they publish."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from freki.infra.kafka import Reader
from freki.schemas import DocumentChange, Operation
from freki.schemas.avro import Codec
from tests.integration.stages import PATIENCE_S, World

Changes = Sequence[DocumentChange | None]
"""In order; None is a tombstone."""


@asynccontextmanager
async def freki(world: World, *arguments: str, **settings: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command until the end of the block."""
    kafka = world.kafka
    environment = {
        **os.environ,
        "FREKI_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "FREKI_KAFKA__PROFILE": kafka.profile,
        "FREKI_KAFKA__TOPIC_PREFIX": kafka.topic_prefix,
        "FREKI_LOCAL__STATE_DIR": str(world.state),
        **settings,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "freki", *arguments), cwd=world.state, env=environment
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def published(world: World, enough: Callable[[Changes], bool]) -> Changes:
    """Read the changes of documents until there are enough."""
    codec = Codec(DocumentChange)
    changes: list[DocumentChange | None] = []
    async with (
        asyncio.timeout(3 * PATIENCE_S),
        Reader(world.kafka, world.topics.documents.name, start="earliest") as reader,
    ):
        async for record in reader:
            changes.append(None if record.value is None else codec.decode(record.value))
            if enough(changes):
                break
    return changes


def latest(changes: Changes) -> dict[str, DocumentChange]:
    """Give the change of each document that wins."""
    last: dict[str, DocumentChange] = {}
    for one in changes:
        if one is not None and (one.document_id not in last or one.version > last[one.document_id].version):
            last[one.document_id] = one
    return last


def contents(changes: Changes) -> dict[str, str]:
    """Give the text of each document that is there in the end."""
    return {
        name: one.content.decode() if isinstance(one.content, bytes) else str(one.content)
        for name, one in latest(changes).items()
        if one.operation is Operation.UPSERT
    }
