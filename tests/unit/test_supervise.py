import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.local import guard, supervise
from freki.infra.local.children import (
    ChildSpec,
    Died,
    Event,
    NotReady,
    Ready,
    Restarting,
    RestartPolicy,
    Started,
    Stopped,
)
from freki.infra.local.logs import TAIL_LINES, BoundedLog
from freki.infra.local.ports import LOOPBACK, choose_port
from freki.infra.local.supervise import Supervisor
from freki.schemas.errors import Rejected, Unavailable
from tests.unit.presence import Presence

SOON = RestartPolicy(first_s=0.01, longest_s=0.02, healthy_after_s=3600)
BECOME_READY = ': > "$FREKI_READY_FILE"'
RUN = f"{BECOME_READY}; exec sleep 1000"
IGNORE_TERM = f"trap '' TERM; {BECOME_READY}; while :; do sleep 1000; done"


class Events(list[Event]):
    """What was reported, and a way to wait for more."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.append(event)
        self._more.set()

    async def until(self, kind: type[Event], name: str, *, times: int = 1) -> Event:
        while len(found := [event for event in self if isinstance(event, kind) and event.name == name]) < times:
            self._more.clear()
            await self._more.wait()
        return found[times - 1]

    def story(self) -> list[tuple[str, str]]:
        return [(type(event).__name__, event.name) for event in self]


@pytest.fixture
def events() -> Events:
    return Events()


class Children:
    """Specs of shell scripts, and a supervisor for them."""

    def __init__(self, directory: Path, report: Callable[[Event], None]) -> None:
        self._directory = directory
        self._report = report

    def spec(self, name: str, script: str = RUN, **fields: Any) -> ChildSpec:
        patient = ChildSpec(
            name=name,
            command=("/bin/sh", "-c", script),
            ready=self._directory / f"{name}.ready",
            stop_timeout_s=3600.0,
            restart=SOON,
        )
        return replace(patient, **fields)

    def supervisor(self, *specs: ChildSpec) -> Supervisor:
        return Supervisor(specs, log_dir=self._directory, report=self._report)


@pytest.fixture
def children(tmp_path: Path, events: Events) -> Children:
    return Children(tmp_path, events)


async def test_a_child_starts_when_those_it_depends_on_are_ready(children: Children, events: Events) -> None:
    specs = [children.spec("worker", depends_on=("broker", "store")), children.spec("broker"), children.spec("store")]

    async with children.supervisor(*specs):
        story = events.story()

    assert story.index(("Started", "worker")) > story.index(("Ready", "broker"))
    assert story.index(("Started", "worker")) > story.index(("Ready", "store"))
    assert story[-1] == ("Ready", "worker")


async def test_independent_children_start_at_once(children: Children, tmp_path: Path) -> None:
    # Each becomes ready only after the other runs.
    def meeting(own: str, other: str) -> ChildSpec:
        wait = f"while [ ! -e {tmp_path}/{other} ]; do sleep 0.01; done"
        return children.spec(own, f": > {tmp_path}/{own}; {wait}; {RUN}")

    async with children.supervisor(meeting("broker", "store"), meeting("store", "broker")):
        pass


async def test_a_child_that_dies_is_restarted_and_said_so(children: Children, events: Events) -> None:
    async with children.supervisor(children.spec("store")):
        os.kill(_pid(events[0]), signal.SIGKILL)
        await events.until(Ready, "store", times=2)

    assert events.story() == [
        *[("Started", "store"), ("Ready", "store")],
        *[("Died", "store"), ("Restarting", "store")],
        *[("Started", "store"), ("Ready", "store")],
        ("Stopped", "store"),
    ]


async def test_a_death_tells_how_and_quotes_the_last_lines(children: Children, events: Events) -> None:
    many = f"i=0; while [ $i -lt {2 * TAIL_LINES} ]; do i=$((i+1)); echo line $i; done"
    talkative = children.spec("store", on_term(f"{many}; printf oops >&2; exit 3"))

    async with children.supervisor(talkative):
        os.kill(_pid(events[0]), signal.SIGTERM)
        died = await events.until(Died, "store")

    assert isinstance(died, Died)
    assert died.how == "exit status 3"
    assert len(died.last_lines) == TAIL_LINES
    assert died.last_lines[-2:] == (f"line {2 * TAIL_LINES}", "oops")


async def test_what_a_dead_child_started_is_gone_before_the_child_is_restarted(
    children: Children, events: Events, tmp_path: Path
) -> None:
    presence = Presence(tmp_path / "presence")
    parent = children.spec("store", f"[ -e {tmp_path}/again ] || {{ {presence.hold}; sleep 1000 & }}; {RUN}")

    async with children.supervisor(parent):
        (tmp_path / "again").touch()
        os.kill(_pid(events[0]), signal.SIGKILL)
        await events.until(Died, "store")
        await presence.ended()


async def test_a_child_that_was_healthy_is_restarted_as_if_for_the_first_time(
    children: Children, events: Events
) -> None:
    healthy_at_once = RestartPolicy(first_s=0.01, longest_s=0.02, healthy_after_s=0)

    async with children.supervisor(children.spec("store", restart=healthy_at_once)):
        for times in (1, 2, 3):
            os.kill(_pid(await events.until(Started, "store", times=times)), signal.SIGKILL)
            await events.until(Ready, "store", times=times + 1)

    assert [event.failures for event in events if isinstance(event, Restarting)] == [1, 1, 1]


async def test_a_child_that_was_ready_once_is_restarted_for_ever(children: Children, events: Events) -> None:
    async with children.supervisor(children.spec("store")):
        for times in range(1, SOON.attempts + 3):
            os.kill(_pid(await events.until(Started, "store", times=times)), signal.SIGKILL)
            await events.until(Ready, "store", times=times + 1)

    failures = [event.failures for event in events if isinstance(event, Restarting)]
    assert failures == list(range(1, SOON.attempts + 3))


async def test_a_child_that_ends_as_no_restart_mends_fails_the_start_at_once(
    children: Children, events: Events
) -> None:
    wrong = children.spec("worker", "echo no such model; exit 2", final_statuses=frozenset({2}))

    with pytest.raises(Rejected, match=r"worker failed before it was ready: exit status 2\nno such model"):
        async with children.supervisor(wrong):
            pass

    assert [event for event in events.story() if event[0] == "Died"] == [("Died", "worker")]


async def test_a_child_that_never_becomes_ready_fails_the_start_with_its_last_lines(
    children: Children, events: Events
) -> None:
    broken = children.spec("worker", "echo no such model; exit 2", depends_on=("broker",))

    with pytest.raises(Rejected, match=r"worker failed 3 times .* exit status 2\nno such model"):
        async with children.supervisor(broken, children.spec("broker")):
            pass

    assert [event for event in events.story() if event[0] == "Died"] == [("Died", "worker")] * SOON.attempts
    assert events.story()[-1] == ("Stopped", "broker")


async def test_a_program_that_is_missing_fails_the_start(children: Children) -> None:
    with pytest.raises(Rejected, match="not found"):
        async with children.supervisor(children.spec("store", "exec no-such-program")):
            pass


async def test_a_child_that_takes_too_long_to_become_ready_is_stopped(children: Children, events: Events) -> None:
    hanging = children.spec(
        "store", "exec sleep 1000", ready_timeout_s=0.01, restart=RestartPolicy(first_s=0.01, attempts=1)
    )

    with pytest.raises(Rejected, match=r"not ready within 0\.01 s"):
        async with children.supervisor(hanging):
            pass

    assert events.story() == [("Started", "store"), ("NotReady", "store"), ("Stopped", "store")]


async def test_what_was_emptied_is_prepared_before_dependents_start_anew(
    children: Children, events: Events, tmp_path: Path
) -> None:
    async def prepare(name: str) -> None:
        events(Prepared(name=name, pid=0))

    specs = [
        children.spec("broker", is_volatile=True, loss="its records"),
        children.spec("worker", depends_on=("broker",)),
    ]

    async with Supervisor(specs, log_dir=tmp_path, report=events, prepare=prepare):
        os.kill(_pid(events[0]), signal.SIGKILL)
        await events.until(Ready, "worker", times=2)

    up = [("Started", "broker"), ("Prepared", "broker"), ("Ready", "broker")]
    up += [("Started", "worker"), ("Prepared", "worker"), ("Ready", "worker")]
    down = [("Died", "broker"), ("Stopped", "worker"), ("Restarting", "broker")]
    assert events.story() == [*up, *down, *up, ("Stopped", "worker"), ("Stopped", "broker")]
    assert [event.loss for event in events if isinstance(event, Died)] == ["its records"]


async def test_dependents_of_what_was_lost_are_not_waited_for(
    children: Children, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "RECALL_TIMEOUT_S", 0.05)
    once = f"[ ! -e $FREKI_READY_FILE.once ] || {{ {RUN}; }}; : > $FREKI_READY_FILE.once; {IGNORE_TERM}"
    specs = [children.spec("broker", is_volatile=True), children.spec("worker", once, depends_on=("broker",))]

    async with children.supervisor(*specs):
        os.kill(_pid(events[0]), signal.SIGKILL)
        await events.until(Ready, "worker", times=2)

    assert events.story().count(("Stopped", "worker")) == 2


async def test_a_child_that_says_it_lost_data_is_killed_and_its_dependents_start_anew(
    children: Children, events: Events
) -> None:
    once = "[ ! -e $FREKI_READY_FILE.once ] || exec sleep 1000; : > $FREKI_READY_FILE.once"
    losing = (
        f"{BECOME_READY}; {once}; trap '' TERM; sleep 0.1; printf 'E file'; sleep 0.1; echo '.cpp: full'; sleep 1000"
    )
    store = children.spec("store", losing, fatal_output=(b"file.cpp",), fatal_reason="free space")

    async with children.supervisor(store, children.spec("worker", depends_on=("store",))):
        unready = await events.until(NotReady, "store")
        await events.until(Ready, "worker", times=2)

    assert isinstance(unready, NotReady)
    assert unready.reason == "free space"
    down = events.story()[events.story().index(("NotReady", "store")) :]
    # It may be dead by the time that it is stopped.
    assert down[1] in {("Stopped", "store"), ("Died", "store")}
    assert [down[0], *down[2:4]] == [("NotReady", "store"), ("Stopped", "worker"), ("Restarting", "store")]


async def test_a_child_that_lost_data_and_died_at_once_is_told_with_the_reason(children: Children) -> None:
    store = children.spec(
        "store", "echo 'E file.cpp: full'; exit 1", fatal_output=(b"file.cpp",), fatal_reason="free space"
    )

    with pytest.raises(Rejected, match="store failed 3 times before it was ready: free space"):
        await children.supervisor(store).__aenter__()


async def test_dependents_go_on_where_nothing_was_lost(children: Children, events: Events) -> None:
    async with children.supervisor(children.spec("store"), children.spec("worker", depends_on=("store",))):
        os.kill(_pid(events[0]), signal.SIGKILL)
        await events.until(Ready, "store", times=2)
        story = events.story()

    assert story.count(("Started", "worker")) == 1
    assert ("Stopped", "worker") not in story


async def test_a_child_that_dies_while_its_dependency_is_away_waits_for_it(
    children: Children, events: Events, tmp_path: Path
) -> None:
    # The second life of the store is ready only once the worker died.
    slow = f"[ ! -e {tmp_path}/first ] || while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; : > {tmp_path}/first"
    specs = [children.spec("store", f"{slow}; {RUN}"), children.spec("worker", depends_on=("store",))]

    async with children.supervisor(*specs):
        os.kill(_pid(await events.until(Started, "store")), signal.SIGKILL)
        await events.until(Started, "store", times=2)
        os.kill(_pid(await events.until(Started, "worker")), signal.SIGKILL)
        await events.until(Died, "worker")
        (tmp_path / "go").touch()
        await events.until(Ready, "worker", times=2)

    story = events.story()
    second_start = [index for index, event in enumerate(story) if event == ("Started", "worker")][1]
    assert story[:second_start].count(("Ready", "store")) == 2


async def test_a_child_that_cannot_be_prepared_is_started_anew(
    children: Children, events: Events, tmp_path: Path
) -> None:
    answers = [Unavailable("the broker left"), None]

    async def prepare(_name: str) -> None:
        if answer := answers.pop(0):
            raise answer

    async with Supervisor([children.spec("broker")], log_dir=tmp_path, report=events, prepare=prepare):
        story = events.story()

    assert events[1] == NotReady(name="broker", reason="the broker left")
    assert story[-2:] == [("Started", "broker"), ("Ready", "broker")]


_SERVE = "import socket, time; server = socket.create_server(('127.0.0.1', {port})); time.sleep(1000)"


async def test_another_program_at_the_port_of_a_child_does_not_make_it_ready(tmp_path: Path, events: Events) -> None:
    prepared: list[str] = []

    async def prepare(name: str) -> None:
        prepared.append(name)

    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        # It starts as slowly as a server on a busy machine: the other one answers first.
        broker = ChildSpec(
            name="broker", command=("sleep", "1000"), ready=partial(_connects, port), port=port, restart=SOON
        )
        with pytest.raises(Rejected, match=rf"process {os.getpid()} \(.*\) listens on its port {port}"):
            async with Supervisor([broker], log_dir=tmp_path, report=events, prepare=prepare):
                pass

    assert prepared == []
    assert events.story() == [
        *[("Started", "broker"), ("NotReady", "broker"), ("Stopped", "broker"), ("Restarting", "broker")] * 2,
        *[("Started", "broker"), ("NotReady", "broker"), ("Stopped", "broker")],
    ]


async def test_a_child_that_listens_on_its_port_is_ready(tmp_path: Path, events: Events) -> None:
    port = choose_port("", 0, last=None, avoid=())
    command = ("/bin/sh", "-c", f'{sys.executable} -c "{_SERVE.format(port=port)}"; exit 1')
    broker = ChildSpec(name="broker", command=command, ready=partial(_connects, port), port=port, restart=SOON)

    async with Supervisor([broker], log_dir=tmp_path, report=events):
        story = events.story()

    assert story == [("Started", "broker"), ("Ready", "broker")]


async def _connects(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except OSError:
        return False
    writer.close()
    return True


async def test_children_are_stopped_before_those_they_depend_on(children: Children, events: Events) -> None:
    chain = [children.spec("broker"), children.spec("embed", depends_on=("broker",))]

    async with children.supervisor(*chain, children.spec("watch", depends_on=("embed",))):
        events.clear()

    assert events == [Stopped(name="watch"), Stopped(name="embed"), Stopped(name="broker")]


async def test_a_child_may_finish_its_work_before_it_ends(children: Children, tmp_path: Path) -> None:
    async with children.supervisor(children.spec("worker", on_term(f"echo committed > {tmp_path}/work; exit 0"))):
        pass

    assert (tmp_path / "work").read_text() == "committed\n"


async def test_a_child_that_does_not_stop_in_time_is_killed_with_all_that_it_started(
    children: Children, events: Events, tmp_path: Path
) -> None:
    presence = Presence(tmp_path / "presence")
    stubborn = f"trap '' TERM; {presence.hold}; sleep 1000 & {BECOME_READY}; while :; do sleep 1000; done"

    async with children.supervisor(children.spec("worker", stubborn, stop_timeout_s=0.05)):
        pass

    await presence.ended()
    assert events[-1] == Stopped(name="worker")


async def test_being_cancelled_while_stopping_kills_at_once(children: Children, tmp_path: Path) -> None:
    presence = Presence(tmp_path / "presence")
    stopping = asyncio.Event()

    async def serve() -> None:
        async with children.supervisor(children.spec("worker", f"{presence.hold}; {IGNORE_TERM}")):
            asyncio.get_running_loop().call_soon(stopping.set)

    serving = asyncio.create_task(serve())
    await stopping.wait()
    serving.cancel()

    with pytest.raises(asyncio.CancelledError):
        await serving
    await presence.ended()


async def test_a_start_that_is_cancelled_leaves_nothing_behind(
    children: Children, events: Events, tmp_path: Path
) -> None:
    presence = Presence(tmp_path / "presence")
    supervisor = children.supervisor(children.spec("store", f"{presence.hold}; exec sleep 1000"))
    starting = asyncio.create_task(supervisor.__aenter__())
    await events.until(Started, "store")

    starting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await starting
    await presence.ended()


SUPERVISING = """
import asyncio, pathlib, sys
from freki.infra.local.supervise import ChildSpec, Supervisor

async def main(directory, *scripts):
    specs = [
        ChildSpec(name=f"child-{n}", command=("/bin/sh", "-c", script), ready=directory / f"{n}.ready")
        for n, script in enumerate(scripts)
    ]
    async with Supervisor(specs, log_dir=directory, report=lambda event: None):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(pathlib.Path(sys.argv[1]), *sys.argv[2:]))
"""


async def supervising(directory: Path, *scripts: str) -> asyncio.subprocess.Process:
    """Start a process that supervises the scripts."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SUPERVISING, str(directory), *scripts),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def test_nothing_is_left_behind_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    presence = Presence(tmp_path / "presence")
    process = await supervising(tmp_path, f"{presence.hold}; {RUN}", f"{presence.hold}; sleep 1000 & {RUN}")

    process.kill()
    await process.communicate()

    await presence.ended()


async def test_nothing_is_left_behind_when_the_guard_was_killed_before(tmp_path: Path) -> None:
    presence = Presence(tmp_path / "presence")
    process = await supervising(tmp_path, f"{presence.hold}; {RUN}")

    first = await guard_of(process.pid, other_than=None)
    os.kill(first, signal.SIGKILL)
    await guard_of(process.pid, other_than=first)
    process.kill()
    await process.communicate()

    await presence.ended()


async def guard_of(supervisor: int, *, other_than: int | None) -> int:
    """Find the guard that a supervisor started, or wait for its next one."""
    while not (guards := _guards_of(supervisor) - {other_than}):  # noqa: ASYNC110 - other process
        await asyncio.sleep(0.01)
    return guards.pop()


def _guards_of(supervisor: int) -> set[int]:
    started = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return {int(child) for child in started if guard.__file__.encode() in _command_of(child)}


def _command_of(process: str) -> list[bytes]:
    """Return the words of a process; none if it has gone since it was listed."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    return []


def test_the_guard_kills_what_does_not_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "GRACE_S", 0.05)
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    command = ("/bin/sh", "-c", f"trap '' TERM; echo > {ready}; while :; do sleep 1000; done")

    with subprocess.Popen(command, start_new_session=True) as stubborn:
        ready.read_bytes()
        guard.end({stubborn.pid})

    assert stubborn.returncode == -signal.SIGKILL


def test_a_group_of_which_only_a_zombie_is_left_is_not_alive() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "exit 0"], start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert not guard.is_alive(process.pid)


policies = st.builds(
    RestartPolicy, first_s=st.floats(min_value=0.001, max_value=10), longest_s=st.floats(min_value=10, max_value=100)
)


@given(policy=policies, failures=st.integers(min_value=1, max_value=10_000), jitter=st.floats(0, 1))
def test_a_delay_lies_between_half_and_all_of_its_step(policy: RestartPolicy, failures: int, jitter: float) -> None:
    step = policy.delay_s(failures, 0.0)

    assert policy.delay_s(failures, 1.0) == step / 2
    assert step / 2 <= policy.delay_s(failures, jitter) <= step <= policy.longest_s


@given(policy=policies, failures=st.integers(min_value=1, max_value=10_000))
def test_each_step_doubles_the_one_before_until_the_longest(policy: RestartPolicy, failures: int) -> None:
    step, following = policy.delay_s(failures, 0.0), policy.delay_s(failures + 1, 0.0)

    assert following == min(2 * step, policy.longest_s)
    assert policy.delay_s(1, 0.0) == policy.first_s


@pytest.mark.parametrize(
    ("dependencies", "complaint"),
    [({"worker": ["brokr"]}, "worker depends on unknown children: brokr"), ({"a": ["b"], "b": ["a"]}, "cycle")],
)
def test_dependencies_must_make_sense(children: Children, dependencies: dict[str, list[str]], complaint: str) -> None:
    specs = [children.spec(name, depends_on=needed) for name, needed in dependencies.items()]

    with pytest.raises(ValueError, match=complaint):
        children.supervisor(*specs)


def test_two_children_cannot_share_a_name(children: Children) -> None:
    with pytest.raises(ValueError, match="names of children must differ"):
        children.supervisor(children.spec("embed"), children.spec("embed"))


@given(writes=st.lists(st.binary(max_size=60), max_size=30))
def test_a_log_stays_within_twice_its_limit_and_ends_with_what_came_last(
    tmp_path_factory: pytest.TempPathFactory, writes: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("logs") / "store.log"
    log = BoundedLog(path, limit_bytes=50)

    for data in writes:
        log.write(data)

    kept = b"".join(part.read_bytes() for part in (path.with_name("store.log.1"), path) if part.exists())
    everything = b"".join(writes)
    assert len(kept) < 2 * (50 + 60)
    assert everything.endswith(kept)
    assert len(kept) >= min(50, len(everything))


def test_a_full_disk_costs_the_log_file_but_not_the_last_lines(tmp_path: Path) -> None:
    (tmp_path / "store.log").symlink_to("/dev/full")
    log = BoundedLog(tmp_path / "store.log")

    log.write(b"opened\nfailed: no ")
    log.write(b"space\n")

    assert log.tail() == ("opened", f"[{tmp_path}/store.log: No space left on device]", "failed: no space")


async def test_the_log_of_a_child_is_kept_across_restarts(children: Children, events: Events, tmp_path: Path) -> None:
    async with children.supervisor(children.spec("store", f"echo born; {RUN}")):
        os.kill(_pid(events[0]), signal.SIGKILL)
        await events.until(Ready, "store", times=2)

    assert (tmp_path / "store.log").read_text() == "born\nborn\n"


class Prepared(Started):
    """Marks in the story when a child was prepared."""


def on_term(action: str) -> str:
    """Write a script that runs until SIGTERM, and then the action."""
    # A shell that is forking loses the signal: the sleeper starts before the child is ready, and is killed by name.
    return f"trap 'kill -9 $!; {action}' TERM; sleep 1000 & {BECOME_READY}; while :; do wait; sleep 1000 & done"


def _pid(event: Event) -> int:
    assert isinstance(event, Started)
    return event.pid
