"""What the commands for generations do: read one, measure its lag, begin and remove one."""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, cast

from opentelemetry.trace import NoOpTracer

from freki.infra.kafka.admin import Admin
from freki.infra.milvus.generations import MilvusGenerations
from freki.infra.settings import Settings
from freki.infra.telemetry.calls import Calls
from freki.schemas.errors import Rejected
from freki.schemas.index import serving
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.retriever import Retriever
from freki.streams.wire.from_settings import group_of, ingest_sources, topics_of, wall_clock
from freki.streams.wire.parts import Parts
from freki.streams.wire.query_parts import QueryParts


@asynccontextmanager
async def open_retriever(settings: Settings) -> AsyncIterator[Retriever]:
    """Open retrieval from the generation of these settings in this process, without caches."""
    uncached = settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update={"cache_mb": 0})})
    async with Parts(uncached, NoOpTracer(), Meters(), Calls()) as parts:
        retriever = await QueryParts(parts).open_retriever()
        await retriever.warm_up()
        yield cast("Retriever", retriever)


LATE_S = 10.0
"""Age of the oldest waiting record from which a generation is late, in seconds: changes always wait for a moment."""


CLOSED_S = 2.0
"""Time for workers to close a generation, in seconds."""


class Waiting(NamedTuple):
    """Records that the stages which fill a generation have not finished."""

    records: int
    oldest_s: float
    """Time that the oldest of them waits, in seconds; infinite where it could not be read."""

    @property
    def is_late(self) -> bool:
        """Whether the generation is behind the stream."""
        return bool(self.records) and self.oldest_s > LATE_S


async def waiting_of(settings: Settings) -> Waiting:
    """Return what waits for a generation."""
    topics: defaultdict[str, list[str]] = defaultdict(list)
    for source in ingest_sources(settings):
        topics[source.group].append(source.topic)
    async with Admin(settings.kafka) as admin:
        lags = await admin.lags({group_of(settings, group): names for group, names in topics.items()})
    waiting = [lag for each in lags.values() for lag in each if lag.lag]
    now = wall_clock()
    ages = [math.inf if lag.oldest_ms is None else max(0, now - lag.oldest_ms) / 1000 for lag in waiting]
    return Waiting(records=sum(lag.lag for lag in waiting), oldest_s=max(ages, default=0.0))


async def read_again(settings: Settings) -> None:
    """Let the stages that fill a generation begin at the first change, also if one of that name was dropped before.

    Raises Rejected, with the group, while a worker fills it.
    """
    sources = _read_by(settings)
    async with Admin(settings.kafka) as admin:
        # Before any is changed: where one stage runs, the others go on where they were.
        for group, names in sources:
            await admin.check_idle(group, names)
        # The last stage first: if an earlier one starts meanwhile, only what waits between stages is read twice.
        for group, names in reversed(sources):
            await admin.rewind(group, names)


async def check_unfilled(settings: Settings) -> None:
    """Raise Rejected, with the group, while a worker fills a generation."""
    async with Admin(settings.kafka) as admin:
        for group, names in _read_by(settings):
            await admin.check_idle(group, names)


def _read_by(settings: Settings) -> list[tuple[str, list[str]]]:
    """Return the topics that each stage which fills a generation reads, by its group."""
    return [(group_of(settings, source.group), [source.topic]) for source in ingest_sources(settings)]


async def remove_generation(log: MilvusGenerations, settings: Settings) -> None:
    """Remove the collections of a generation, once workers have closed it, and the topics that only it has.

    Raises Rejected while a worker fills it, and if somebody switches to it meanwhile.
    """
    name = settings.milvus.generation
    # Refused while workers fill it: they would go on without its collections, and their next start would make an empty
    # generation.
    await read_again(settings)
    await log.remove([entry for entry in await log.entries() if entry.generation == name])
    await asyncio.sleep(CLOSED_S)
    last = serving(await log.entries())
    if last is not None and last.generation == name:
        raise Rejected(f"{name} was not removed: it answers queries since somebody switched to it meanwhile")
    # The collections last: a removal that was interrupted can be repeated as long as the store knows the generation.
    async with Admin(settings.kafka) as admin:
        await admin.delete_topics([topic.name for topic in topics_of(settings).own])
    await log.drop(name)
