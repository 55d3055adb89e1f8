"""The state of all parts, as `freki status` and the page for operators show it."""

import asyncio
import importlib
from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import httpx
from prometheus_client.parser import text_string_to_metric_families

from freki.infra.kafka.admin import Admin, PartitionLag
from freki.infra.local.state import StackState, read_stack
from freki.infra.settings import Settings
from freki.infra.telemetry.endpoint import HEALTH, METRICS
from freki.schemas.errors import InfraError
from freki.schemas.index import answering
from freki.schemas.names import record
from freki.schemas.operations import Freshness, GenerationSize, Overview, StageLag, WorkerHealth
from freki.streams.wire.connect import open_generations, open_index
from freki.streams.wire.from_settings import RETRIEVE, StageSource, group_of, ingest_sources, topics_of, wall_clock
from freki.streams.wire.rules import fingerprints_of

T = TypeVar("T")

_ANSWER_S: Final = 2.0
"""Timeout of a request to a worker, in seconds."""
_BROKER_S: Final = 5.0
"""Longest wait for one answer of the broker, in seconds; what is published may wait longer."""
_FRESHNESS: Final = "freki_freshness_seconds_bucket"


@record
class _Worker:
    health: WorkerHealth
    freshness: Mapping[float, float]
    """Cumulative histogram: number of changes by upper bound of the time until searchable, in seconds."""


def stack_of(settings: Settings) -> StackState | None:
    """Return the local stack that the settings find; None if none runs there."""
    return read_stack(settings.local.state_dir.expanduser().absolute())


async def overview(settings: Settings, urls: Sequence[str] = ()) -> Overview:
    """Ask all parts at once; one that does not answer is a problem of the overview, not an error.

    urls: endpoints of workers beside those of the local stack.
    """
    known = [*_local_workers(stack_of(settings)), *(("", url) for url in urls)]
    problems: list[str] = []

    async def part(name: str, asked: Awaitable[T], otherwise: T) -> T:
        try:
            return await asked
        except InfraError as error:
            problems.append(f"{name}: {error}")
            return otherwise

    # It takes seconds of a busy machine; while it loads, the answers of broker and workers would not be heard.
    importlib.import_module("freki.infra.milvus.index")
    async with httpx.AsyncClient(timeout=_ANSWER_S, trust_env=False) as client:
        ((stages, missing), generations, letters), workers = await asyncio.gather(
            asyncio.gather(
                part("broker", _stages(settings), ((), ())),
                part("index", _generations(settings), ()),
                part("dead letters", _letters(settings), None),
            ),
            asyncio.gather(*(_worker(client, name, url) for name, url in known)),
        )
    if missing:
        problems.append(
            f"broker: topics {', '.join(missing)} do not exist, or may not be described: `freki topics apply` creates"
            " them, `freki topics acls` lists the rights; or correct FREKI_KAFKA__TOPIC_PREFIX,"
            " FREKI_KAFKA__TOPIC_VERSION and FREKI_MILVUS__GENERATION"
        )
    return Overview(
        at=wall_clock(),
        stages=stages,
        workers=tuple(each.health for each in workers),
        generations=generations,
        freshness=freshness_of([each.freshness for each in workers]),
        dead_letters=letters,
        problems=tuple(problems),
    )


def _local_workers(stack: StackState | None) -> list[tuple[str, str]]:
    """Return names and endpoints of the local stack's workers; an empty endpoint where one is not ready."""
    return [(name, _read(stack.directory / "run" / f"{name}.ready")) for name in stack.workers] if stack else []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


async def _worker(client: httpx.AsyncClient, name: str, url: str) -> _Worker:
    if not url:
        why = f"not ready: it starts, or died and starts again; see logs/{name}.log in FREKI_LOCAL__STATE_DIR"
        return _Worker(health=WorkerHealth(name=name, url=url, wrong=(why,)), freshness={})
    try:
        probes = [(await client.get(f"{url}{HEALTH}{probe}")).json() for probe in ("live", "ready", "settings")]
        metrics = (await client.get(f"{url}{METRICS}")).text
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return _Worker(health=WorkerHealth(name=name, url=url, wrong=(_unheard(error),)), freshness={})
    wrong = [
        f"{check_name}: {check['why']}"
        for probe in probes
        for check_name, check in probe.get("checks", {}).items()
        if not check["ok"]
    ]
    health = WorkerHealth(name=name, url=url, wrong=tuple(wrong))
    return _Worker(health=health, freshness=_histogram_of(metrics))


def _unheard(error: Exception) -> str:
    """Say why a worker was not heard, and what to look at."""
    match error:
        case httpx.ConnectError():
            return f"no connection ({error}): does the worker run, with this FREKI_TELEMETRY__HTTP_PORT?"
        case httpx.TimeoutException():
            return f"no answer within {_ANSWER_S:g} s: it hangs, is suspended, or its machine is overloaded"
        case httpx.InvalidURL() | httpx.UnsupportedProtocol() | ValueError():
            return f"is no endpoint of a worker, such as http://10.0.0.7:9464: {error}"
    return f"no answer: {error!r}"


def _histogram_of(metrics: str) -> dict[float, float]:
    """Return the end-to-end histogram, summed over all outcomes."""
    counts: dict[float, float] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == _FRESHNESS and sample.labels["section"] == "total":
                bound = float(sample.labels["le"])
                counts[bound] = counts.get(bound, 0.0) + sample.value
    return counts


def freshness_of(histograms: Sequence[Mapping[float, float]]) -> Freshness | None:
    """Return quantiles of the sum of cumulative histograms; None without any value."""
    counts: dict[float, float] = {}
    for histogram in histograms:
        for bound, count in histogram.items():
            counts[bound] = counts.get(bound, 0.0) + count
    total = max(counts.values(), default=0.0)
    if not total:
        return None
    return Freshness(changes=int(total), p50_s=quantile(counts, 0.5), p95_s=quantile(counts, 0.95))


def quantile(counts: Mapping[float, float], share: float) -> float:
    """Estimate a quantile from a cumulative histogram as Prometheus does, by linear interpolation within a bucket.

    counts: by upper bound, the last one infinite; at least one value. In the last bucket, returns its lower bound.
    """
    bounds = sorted(counts)
    rank = share * counts[bounds[-1]]
    place = next(place for place, bound in enumerate(bounds) if counts[bound] >= rank)
    low, below = (bounds[place - 1], counts[bounds[place - 1]]) if place else (0.0, 0.0)
    if bounds[place] == float("inf"):
        return low
    within = counts[bounds[place]] - below
    return low + (bounds[place] - low) * ((rank - below) / within if within else 1.0)


async def _stages(settings: Settings) -> tuple[tuple[StageLag, ...], Sequence[str]]:
    """Return the stages of topics that can be described, and the other topics: nothing is known of what waits there."""
    topics = topics_of(settings)
    sources = [
        *ingest_sources(settings),
        StageSource(RETRIEVE, RETRIEVE, topics.queries.name),
        StageSource("document-queries", RETRIEVE, topics.document_queries.name),
    ]
    read: defaultdict[str, list[str]] = defaultdict(list)
    for _, group, topic in sources:
        read[group].append(topic)
    names = dict.fromkeys([*(source.topic for source in sources), topics.dead_letters.name])
    async with _open_admin(settings) as admin:
        partitions = await admin.partitions(list(names))
        lags = await admin.lags({group_of(settings, group): own for group, own in read.items()})
    stages = tuple(
        _lag_of(stage, topic, [lag for lag in lags[group_of(settings, group)] if lag.topic == topic])
        for stage, group, topic in sources
        if partitions[topic]
    )
    return stages, [name for name in names if not partitions[name]]


def _open_admin(settings: Settings) -> Admin:
    """Return an admin client that soon says if the broker accepts connections and does not answer."""
    longest_s = min(settings.kafka.delivery_timeout_s, _BROKER_S)
    return Admin(settings.kafka.model_copy(update={"delivery_timeout_s": longest_s}))


def _lag_of(stage: str, topic: str, lags: Sequence[PartitionLag]) -> StageLag:
    oldest = min((lag.oldest_ms for lag in lags if lag.oldest_ms is not None), default=None)
    return StageLag(
        stage=stage,
        topic=topic,
        records=sum(lag.held for lag in lags),
        waiting=sum(lag.lag for lag in lags),
        oldest_ms=None if oldest is None else max(0, wall_clock() - oldest),
    )


async def _generations(settings: Settings) -> tuple[GenerationSize, ...]:
    own = settings.milvus.generation
    async with open_index(settings) as index:
        held, watermarks = await index.statistics(), await index.watermarks()
        outdated = await index.count_made_otherwise(fingerprints_of(settings))
    async with open_generations(settings) as log:
        answers = answering(await log.entries(), own=own)
        # Sizes of others would load them into the memory of the store.
        others = [name for name in await log.stored() if name != own]
    return (
        GenerationSize(
            name=own,
            answers=own == answers,
            documents=held.documents,
            chunks=held.chunks,
            deletions=held.deleted,
            outdated=outdated,
            last_commit_at=max((mark.committed_at for mark in watermarks), default=None),
        ),
        *(GenerationSize(name=name, answers=name == answers) for name in others),
    )


async def _letters(settings: Settings) -> int | None:
    async with _open_admin(settings) as admin:
        return await admin.held(topics_of(settings).dead_letters.name)
