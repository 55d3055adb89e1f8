import asyncio
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.local.ports import LOOPBACK, choose_port, claim, is_free
from freki.infra.local.state import (
    Ports,
    StackState,
    environment_for,
    forget_stack,
    locked,
    names_in,
    nearest_stack,
    read_ports,
    read_stack,
    settings_for,
    write_ports,
    write_stack,
)
from freki.infra.settings import ClaimSettings, KafkaSettings, MilvusSettings, Settings, TelemetrySettings
from freki.schemas.errors import Misconfigured, Rejected

PORTS = Ports(broker=19092, store=19530)


def stack_on(directory: Path, *, pid: int = os.getpid()) -> StackState:
    return StackState(
        pid=pid,
        started_at=datetime(2026, 1, 2, tzinfo=UTC),
        ports=PORTS,
        versions={"freki": "0.1.0"},
        directory=directory,
    )


class TestStackFile:
    async def test_a_stack_that_runs_is_found_as_it_was_written(self, tmp_path: Path) -> None:
        state = stack_on(tmp_path)

        async with locked(tmp_path):
            write_stack(state)
            found = read_stack(tmp_path)

        assert found == state
        assert found is not None
        assert (found.bootstrap, found.milvus_uri) == ("127.0.0.1:19092", "http://127.0.0.1:19530")

    async def test_a_stack_that_was_stopped_is_not_found(self, tmp_path: Path) -> None:
        async with locked(tmp_path):
            write_stack(stack_on(tmp_path))
            forget_stack(tmp_path)

            assert read_stack(tmp_path) is None

    def test_what_a_lost_machine_left_is_not_taken_for_a_stack(self, tmp_path: Path) -> None:
        # The process id is taken again, by us, but nobody holds the lock.
        (tmp_path / "lock").write_text(str(os.getpid()))
        write_stack(stack_on(tmp_path))

        assert read_stack(tmp_path) is None

    async def test_a_supervisor_that_is_gone_is_no_stack_while_its_guard_tidies_up(self, tmp_path: Path) -> None:
        async with locked(tmp_path):
            write_stack(stack_on(tmp_path, pid=_pid_of_nobody()))

            assert read_stack(tmp_path) is None

    @pytest.mark.parametrize("content", ["", "{", '{"pid": 1}'])
    async def test_an_unreadable_file_is_no_stack(self, tmp_path: Path, content: str) -> None:
        async with locked(tmp_path):
            (tmp_path / "stack.json").write_text(content)

            assert read_stack(tmp_path) is None

    def test_a_directory_that_is_missing_holds_no_stack(self, tmp_path: Path) -> None:
        assert read_stack(tmp_path / "missing") is None


class TestLock:
    async def test_a_second_stack_on_the_directory_is_refused_naming_the_first(self, tmp_path: Path) -> None:
        async with locked(tmp_path):
            with pytest.raises(Rejected, match=rf"process {os.getpid()}\): stop it, or .* FREKI_LOCAL__STATE_DIR"):
                async with locked(tmp_path):
                    pass

    async def test_the_directory_is_free_again_after_a_stack(self, tmp_path: Path) -> None:
        for _ in range(2):
            async with locked(tmp_path / "new" / "directory"):
                pass

    async def test_a_start_waits_for_what_a_killed_stack_left(self, tmp_path: Path) -> None:
        # The lock lives on in a process that inherited it, as the guard does.
        async with locked(tmp_path) as descriptor:
            heir = await asyncio.create_subprocess_exec(
                "/bin/cat", stdin=asyncio.subprocess.PIPE, pass_fds=[descriptor]
            )
        (tmp_path / "lock").write_text(str(_pid_of_nobody()))

        async def start() -> None:
            async with locked(tmp_path):
                pass

        starting = asyncio.create_task(start())
        # Once round the loop is enough for the first attempt.
        await asyncio.sleep(0)
        refused_at_first = not starting.done()
        await heir.communicate(b"")
        await starting

        assert refused_at_first

    async def test_somebody_who_looks_does_not_keep_a_stack_from_starting(self, tmp_path: Path) -> None:
        (tmp_path / "lock").write_text(str(os.getpid()))

        async def look() -> None:
            for _ in range(50):
                read_stack(tmp_path)
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(look())
            async with locked(tmp_path):
                pass

    async def test_a_directory_that_cannot_be_written_is_named_with_the_setting(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()

        with pytest.raises(Misconfigured, match=r"file/state: Not a directory; .* FREKI_LOCAL__STATE_DIR"):
            async with locked(tmp_path / "file" / "state"):
                pass

    async def test_a_disk_that_is_full_before_the_start_is_named_with_the_setting(self, tmp_path: Path) -> None:
        limits = getrlimit(RLIMIT_FSIZE)
        setrlimit(RLIMIT_FSIZE, (0, limits[1]))
        try:
            with pytest.raises(Misconfigured, match=r"File too large; make room .* FREKI_LOCAL__STATE_DIR"):
                async with locked(tmp_path):
                    pass
        finally:
            setrlimit(RLIMIT_FSIZE, limits)

    @pytest.mark.parametrize("content", ["", "{", '{"broker": 65536, "store": 1}', '{"broker": 1, "store": -1}'])
    def test_ports_that_are_none_are_as_good_as_no_file(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "ports.json").write_text(content)
        assert read_ports(tmp_path) is None

    def test_a_full_disk_is_named_with_the_setting_and_the_old_file_kept(self, tmp_path: Path) -> None:
        write_ports(tmp_path, PORTS)
        (tmp_path / "ports.json.partial").symlink_to("/dev/full")

        with pytest.raises(Misconfigured, match=r"No space left on device; make room .* FREKI_LOCAL__STATE_DIR"):
            write_ports(tmp_path, Ports(broker=1, store=2))

        assert read_ports(tmp_path) == PORTS


class TestSettings:
    def test_settings_point_at_the_stack(self, tmp_path: Path) -> None:
        settings = Settings(
            kafka=KafkaSettings(bootstrap="kafka.example:9093", security="SASL_SSL", partitions=12, replication=3)
        )

        local = settings_for(settings, stack_on(tmp_path))

        assert local.kafka == KafkaSettings(bootstrap="127.0.0.1:19092", profile="local", partitions=12)
        assert local.milvus.uri == "http://127.0.0.1:19530"
        assert local.telemetry.trace_dir == tmp_path / "traces"
        assert local.claims.directory == str(tmp_path / "claims")

    def test_topics_and_index_have_the_names_that_the_stack_was_started_with(self, tmp_path: Path) -> None:
        started = Settings(
            kafka=KafkaSettings(topic_prefix="b", topic_version=2), milvus=MilvusSettings(generation="g2")
        )
        stack = stack_on(tmp_path).model_copy(update={"names": names_in(started)})

        found = settings_for(Settings(), stack)
        named = settings_for(Settings(milvus=MilvusSettings(generation="g3")), stack)

        assert (found.kafka.topic_prefix, found.kafka.topic_version, found.milvus.generation) == ("b", 2, "g2")
        assert (named.kafka.topic_prefix, named.milvus.generation) == ("b", "g3")
        assert environment_for(Settings(), stack)["FREKI_MILVUS__GENERATION"] == "g2"

    def test_directories_that_were_set_stay(self, tmp_path: Path) -> None:
        settings = Settings(
            claims=ClaimSettings(directory="s3://bucket/claims"), telemetry=TelemetrySettings(trace_dir=Path("/traces"))
        )

        local = settings_for(settings, stack_on(tmp_path))

        assert local.claims.directory == "s3://bucket/claims"
        assert local.telemetry.trace_dir == Path("/traces")

    def test_a_worker_beside_the_stack_serves_at_its_port_and_those_of_the_stack_at_free_ones(
        self, tmp_path: Path
    ) -> None:
        settings = Settings(telemetry=TelemetrySettings(http_port=9464))

        assert settings_for(settings, stack_on(tmp_path)).telemetry.http_port == 9464
        assert environment_for(settings, stack_on(tmp_path))["FREKI_TELEMETRY__HTTP_PORT"] == "0"

    @given(partitions=st.integers(1, 1000), partition_key=st.booleans())
    def test_a_worker_reads_from_its_environment_what_we_have(self, partitions: int, partition_key: bool) -> None:  # noqa: FBT001
        given = {"FREKI_KAFKA__PARTITIONS": str(partitions), "FREKI_MILVUS__PARTITION_KEY": str(partition_key)}
        with pytest.MonkeyPatch.context() as ours:
            for name, value in given.items():
                ours.setenv(name, value)
            settings = Settings()
            stack = stack_on(Path("/state"))

            for name, value in environment_for(settings, stack).items():
                ours.setenv(name, value)

            assert Settings() == settings_for(settings, stack)


class TestPorts:
    def test_a_free_port_can_be_listened_on(self) -> None:
        port = choose_port("FREKI_LOCAL__BROKER_PORT", 0, last=None, avoid=())

        with socket.create_server((LOOPBACK, port)):
            assert not is_free(port)

    def test_of_those_that_claim_a_port_at_once_one_gets_it(self) -> None:
        port = choose_port("FREKI_LOCAL__STORE_PORT", 0, last=None, avoid=())

        with ThreadPoolExecutor(8) as threads:
            claims = [each for each in threads.map(lambda _: claim(port), range(8)) if each is not None]

        assert len(claims) == 1
        with claims[0]:
            assert not is_free(port)
            with socket.create_server((LOOPBACK, port), reuse_port=True) as server:
                for _ in range(20):
                    socket.create_connection((LOOPBACK, port)).close()
                    server.accept()[0].close()
        assert is_free(port)

    def test_the_port_used_last_is_used_again(self) -> None:
        last = choose_port("FREKI_LOCAL__BROKER_PORT", 0, last=None, avoid=())

        assert choose_port("FREKI_LOCAL__BROKER_PORT", 0, last=last, avoid=()) == last

    def test_another_port_is_chosen_where_the_last_one_is_taken(self, listener: int) -> None:
        port = choose_port("FREKI_LOCAL__BROKER_PORT", 0, last=listener, avoid=())

        assert port != listener
        assert is_free(port)

    def test_the_port_of_another_child_is_avoided(self) -> None:
        last = choose_port("FREKI_LOCAL__BROKER_PORT", 0, last=None, avoid=())

        assert choose_port("FREKI_LOCAL__STORE_PORT", 0, last=last, avoid={last}) != last

    def test_a_port_that_was_set_wins_over_the_last_one(self) -> None:
        wanted = choose_port("FREKI_LOCAL__BROKER_PORT", 0, last=None, avoid=())

        assert choose_port("FREKI_LOCAL__BROKER_PORT", wanted, last=1, avoid=()) == wanted

    def test_a_port_that_was_set_but_is_taken_names_the_setting_and_who_to_stop(self, listener: int) -> None:
        with pytest.raises(Misconfigured) as refused:
            choose_port("FREKI_LOCAL__BROKER_PORT", listener, last=None, avoid=())

        assert f"port {listener} of FREKI_LOCAL__BROKER_PORT is taken by process {os.getpid()} (" in str(refused.value)


def _pid_of_nobody() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


async def test_a_stack_is_found_from_any_folder_below_the_nearest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "project" / "docs"
    inner.mkdir(parents=True)
    outside, near = tmp_path / ".freki", tmp_path / "project" / ".freki"
    monkeypatch.chdir(inner)
    assert nearest_stack(Path(".freki")) is None

    async with locked(outside):
        write_stack(stack_on(outside))
        assert nearest_stack(Path(".freki")) == stack_on(outside)
        async with locked(near):
            write_stack(stack_on(near))
            assert nearest_stack(Path(".freki")) == stack_on(near)
            assert nearest_stack(outside) == stack_on(outside)


async def test_a_stack_of_somebody_else_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with locked(tmp_path / ".freki"):
        write_stack(stack_on(tmp_path / ".freki"))
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert nearest_stack(Path(".freki")) is None
