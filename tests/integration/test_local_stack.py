"""The local stack with the real broker and store; workers have tests of their own."""

import asyncio
import os
import re
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pymilvus import DataType, MilvusClient, MilvusException

from freki.infra.kafka import Reader
from freki.infra.local.children import Died, Event, NotReady, Ready, Started, Stopped
from freki.infra.local.ports import is_free
from freki.infra.local.probes import broker_answers, store_answers
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import StackState, read_stack, settings_for
from freki.infra.settings import Settings
from freki.schemas import DocumentChange
from freki.schemas.avro import Codec
from freki.schemas.errors import Misconfigured, Rejected
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics


def on(directory: Path, **local: Any) -> Settings:
    return Settings(local=Settings().local.elsewhere(directory).model_copy(update=local))


def ignore(_event: Event) -> None:
    pass


async def test_broker_and_store_answer_while_the_stack_runs_and_are_gone_afterwards(tmp_path: Path) -> None:
    async with LocalStack(on(tmp_path), report=ignore, workers=()) as stack:
        found = read_stack(tmp_path)
        answers = [await broker_answers(stack.state.ports.broker), await store_answers(stack.state.ports.store)]

    assert found == stack.state
    assert answers == [True, True]
    assert read_stack(tmp_path) is None
    assert is_free(stack.state.ports.broker)
    assert is_free(stack.state.ports.store)


async def test_collections_are_loaded_before_a_worker_starts(tmp_path: Path) -> None:
    settings = on(tmp_path)
    prefix = settings.milvus.collection_prefix
    async with LocalStack(settings, report=ignore, workers=()) as stack:
        with closing(MilvusClient(stack.state.milvus_uri)) as client:
            client.create_collection(f"{prefix}_g1_chunks", dimension=2)
            # Its process ended before it made an index.
            schema = client.create_schema()
            schema.add_field("id", DataType.INT64, is_primary=True)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
            client.create_collection(f"{prefix}_g1_documents", schema=schema)

    async with LocalStack(settings, report=ignore, workers=()) as stack:
        with closing(MilvusClient(stack.state.milvus_uri)) as client:
            state = client.get_load_state(f"{prefix}_g1_chunks")

    assert "NotLoad" not in str(state)


async def test_a_store_whose_disk_refuses_a_write_forgets_it(tmp_path: Path) -> None:
    """Milvus Lite confirms such a write, and serves it until it restarts."""
    events: list[Event] = []
    again = asyncio.Event()

    def report(event: Event) -> None:
        events.append(event)
        if sum(isinstance(each, Ready) and each.name == "store" for each in events) == 2:
            again.set()

    async with LocalStack(on(tmp_path), report=report, workers=()) as stack:
        uri = stack.state.milvus_uri
        with closing(MilvusClient(uri)) as client:
            client.create_collection("notes", dimension=2)
            client.insert("notes", {"id": 1, "vector": [1.0, 0.0]})
            [store] = [event.pid for event in events if isinstance(event, Started) and event.name == "store"]
            resource.prlimit(store, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            with suppress(MilvusException):
                client.insert("notes", {"id": 2, "vector": [0.0, 1.0]})
            await again.wait()
        with closing(MilvusClient(uri)) as client:
            assert [row["id"] for row in client.query("notes", filter="id > 0", output_fields=["id"])] == [1]

    [unready] = [event for event in events if isinstance(event, NotReady)]
    assert unready.reason.startswith(f"it could not read or write {tmp_path / 'store' / 'freki.db'}: free space")


async def test_a_damaged_file_of_the_store_is_named(tmp_path: Path) -> None:
    """Milvus Lite would serve the rows before the damage."""
    settings = on(tmp_path)
    async with LocalStack(settings, report=ignore, workers=()) as stack:
        with closing(MilvusClient(stack.state.milvus_uri)) as client:
            name = f"{settings.milvus.collection_prefix}_g1_chunks"
            client.create_collection(name, dimension=2)
            client.insert(name, [{"id": number, "vector": [1.0, 0.0], "text": "x" * 2000} for number in range(100)])
    file = tmp_path / "store" / "freki.db"
    half = file.stat().st_size // 2
    with file.open("r+b") as damaged:
        damaged.seek(half)
        damaged.write(b"\xff" * half)

    with pytest.raises(Rejected, match=f"could not read or write {file}: .* move the file away"):
        await LocalStack(settings, report=ignore, workers=()).__aenter__()


async def test_the_folders_of_the_settings_are_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "a.md").write_text("Die Kantine öffnet um elf Uhr.")
    (tmp_path / "freki.toml").write_text('[[folders]]\npath = "handbook"\nattributes = { team = "hr" }\n')
    monkeypatch.chdir(tmp_path)
    settings = on(tmp_path / "state")
    events: list[Event] = []

    async with LocalStack(settings, report=events.append, prepare=apply_topics, workers=()) as stack:
        found = settings_for(settings, stack.state)
        async with Reader(found.kafka, topics_of(found).documents.name, start="earliest") as reader:
            record = await anext(aiter(reader))
    change = Codec(DocumentChange).decode(record.value or b"")

    assert (change.document_id, change.attributes) == ("handbook/a.md", {"team": "hr"})
    assert any(isinstance(event, Ready) and event.name == "watch" for event in events)


async def test_nobody_is_sent_to_a_stack_that_is_stopping(tmp_path: Path) -> None:
    found: list[StackState | None] = []

    def report(event: Event) -> None:
        if isinstance(event, Stopped):
            found.append(read_stack(tmp_path))

    async with LocalStack(on(tmp_path), report=report, workers=()):
        pass

    assert found == [None, None]


async def test_a_second_start_finds_the_store_as_it_was_on_the_same_ports(tmp_path: Path) -> None:
    async with LocalStack(on(tmp_path), report=ignore, workers=()) as first:
        with closing(MilvusClient(first.state.milvus_uri)) as client:
            client.create_collection("kept", dimension=4)

    async with LocalStack(on(tmp_path), report=ignore, workers=()) as second:
        with closing(MilvusClient(second.state.milvus_uri)) as client:
            collections = client.list_collections()

    assert collections == ["kept"]
    assert second.state.ports == first.state.ports


async def test_topics_are_prepared_each_time_the_broker_comes_up(tmp_path: Path) -> None:
    prepared: list[str] = []
    again = asyncio.Event()
    brokers: list[int] = []

    async def prepare(settings: Settings) -> None:
        assert await broker_answers(int(settings.kafka.bootstrap.rpartition(":")[2]))
        prepared.append(settings.kafka.profile)

    def report(event: Event) -> None:
        if isinstance(event, Started) and event.name == "broker":
            brokers.append(event.pid)
        if isinstance(event, Ready) and event.name == "broker" and len(brokers) > 1:
            again.set()

    async with LocalStack(on(tmp_path), report=report, prepare=prepare, workers=()):
        os.kill(brokers[0], signal.SIGKILL)
        await again.wait()

    assert prepared == ["kafka" if Settings().local.broker == "kafka" else "local"] * 2


async def test_a_port_that_was_set_but_is_taken_is_named_with_its_setting(tmp_path: Path, listener: int) -> None:
    with pytest.raises(Misconfigured, match=rf"port {listener} of FREKI_LOCAL__STORE_PORT is taken by process "):
        async with LocalStack(on(tmp_path, store_port=listener), report=ignore, workers=()):
            pass


async def test_another_port_is_tried_when_one_is_taken_between_choice_and_use(tmp_path: Path, listener: int) -> None:
    class Unlucky(LocalStack):
        """Chooses a port that is taken at first."""

        choices = 0

        def _new_state(self) -> StackState:
            state = super()._new_state()
            self.choices += 1
            if self.choices > 1:
                return state
            return state.model_copy(update={"ports": state.ports.model_copy(update={"broker": listener})})

    deaths: list[str] = []

    def report(event: Event) -> None:
        if isinstance(event, Died):
            deaths.append(event.name)

    async with Unlucky(on(tmp_path), report=report, workers=()) as stack:
        answers = await broker_answers(stack.state.ports.broker)

    assert answers
    assert stack.choices == 2
    assert set(deaths) == {"broker"}


async def test_a_second_stack_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async with LocalStack(on(tmp_path), report=ignore, workers=()):
        with pytest.raises(Rejected, match=rf"process {os.getpid()}"):
            async with LocalStack(on(tmp_path), report=ignore, workers=()):
                pass

        assert read_stack(tmp_path) is not None


UP = """
import asyncio, dataclasses, pathlib, sys
from freki.infra.local import stack
from freki.infra.settings import LocalSettings, Settings

def say(event):
    print(event, flush=True)

def patient(state, describe=stack.store_spec):
    return dataclasses.replace(describe(state), stop_timeout_s=3600)

stack.store_spec = patient
settings = Settings(local=LocalSettings(state_dir=pathlib.Path(sys.argv[1])))
asyncio.run(stack.up(settings, report=say, on_ready=say, workers=()))
print("ended", flush=True)
"""


class Terminal:
    """Runs a stack as in a terminal: Ctrl-C goes to the whole group in the foreground."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said = ""

    async def until(self, text: str) -> None:
        assert self._process.stdout is not None
        while text not in self.said:
            line = await self._process.stdout.readline()
            assert line, self.said
            self.said += line.decode()

    def child(self, name: str) -> int:
        found = re.search(rf"Started\(name='{name}', pid=(\d+)\)", self.said)
        assert found
        return int(found[1])

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)

    async def ended(self) -> int:
        rest, _ = await self._process.communicate()
        self.said += rest.decode()
        assert self._process.returncode is not None
        return self._process.returncode


@pytest_asyncio.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", UP, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    yield Terminal(process)
    if process.returncode is None:
        process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_to_the_whole_group_stops_everything_cleanly_and_once(
    terminal: Terminal, number: signal.Signals
) -> None:
    await terminal.until("started_at=")

    terminal.signal(number)
    status = await terminal.ended()

    assert status == 0
    assert terminal.said.count(repr(Stopped(name="broker"))) == 1
    assert terminal.said.count(repr(Stopped(name="store"))) == 1
    assert terminal.said.endswith("ended\n")
    assert "Died" not in terminal.said
    assert "Traceback" not in terminal.said


async def test_a_second_signal_kills_at_once(terminal: Terminal) -> None:
    await terminal.until("started_at=")
    # Whoever is halted takes no signal but SIGKILL, and the store may take an hour here.
    os.killpg(terminal.child("store"), signal.SIGSTOP)

    terminal.signal(signal.SIGINT)
    await terminal.until(repr(Stopped(name="broker")))
    terminal.signal(signal.SIGINT)

    assert await terminal.ended() == 0


async def test_a_signal_while_starting_stops_as_well(terminal: Terminal) -> None:
    await terminal.until("Started")

    terminal.signal(signal.SIGINT)

    assert await terminal.ended() == 0
    assert "Traceback" not in terminal.said


async def test_a_start_after_kill_9_takes_over_with_data_and_ports(terminal: Terminal, tmp_path: Path) -> None:
    await terminal.until("started_at=")
    before = read_stack(tmp_path)
    assert before is not None
    with closing(MilvusClient(before.milvus_uri)) as client:
        client.create_collection("kept", dimension=4)
    terminal.signal(signal.SIGKILL)
    await terminal.ended()

    async with LocalStack(on(tmp_path), report=ignore, workers=()) as stack:
        with closing(MilvusClient(stack.state.milvus_uri)) as client:
            collections = client.list_collections()

    assert stack.state.ports == before.ports
    assert collections == ["kept"]
