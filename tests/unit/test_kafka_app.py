import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import faust
import pytest
from faust.types import TP
from mode.threads import ServiceThread
from pydantic import SecretStr

from freki.infra.kafka.app import look_behind, make_app
from freki.infra.kafka.consumer import _ConsumerThread
from freki.infra.settings import KafkaSettings


class ConsumerWithRequest:
    """Has one partition, and asks for its end by a request that others answer or cancel."""

    def __init__(self) -> None:
        self.request: asyncio.Future[dict[TP, int]] = asyncio.get_running_loop().create_future()
        self.is_asked = asyncio.Event()

    def assignment(self) -> set[TP]:
        return {TP("documents", 0)}

    async def highwaters(self, *_: TP) -> dict[TP, int]:
        self.is_asked.set()
        return await self.request


def test_a_poll_fills_a_fifth_of_the_buffer_at_most(tmp_path: Path) -> None:
    conf = make_app(KafkaSettings(), "stage", state_dir=tmp_path).conf

    assert conf.broker_max_poll_records <= 0.2 * conf.stream_buffer_maxsize


def test_the_local_broker_gets_short_sessions_and_kafka_ones_that_it_accepts(tmp_path: Path) -> None:
    local = make_app(KafkaSettings(profile="local"), "a", state_dir=tmp_path).conf
    kafka = make_app(KafkaSettings(profile="kafka"), "b", state_dir=tmp_path).conf

    assert local.broker_session_timeout == 2.0
    assert kafka.broker_session_timeout >= 6.0
    assert kafka.broker_heartbeat_interval <= kafka.broker_session_timeout / 3


def test_all_servers_of_the_setting_are_known(tmp_path: Path) -> None:
    conf = make_app(KafkaSettings(bootstrap="a:1,b:2"), "stage", state_dir=tmp_path).conf

    assert [str(url) for url in conf.broker] == ["kafka://a:1", "kafka://b:2"]


@pytest.mark.parametrize(
    ("security", "protocol"),
    [("PLAINTEXT", None), ("SSL", "SSL"), ("SASL_PLAINTEXT", "SASL_PLAINTEXT"), ("SASL_SSL", "SASL_SSL")],
)
def test_every_way_to_secure_a_connection_reaches_faust(security: str, protocol: str | None, tmp_path: Path) -> None:
    login = {"username": "freki"} if security.startswith("SASL") else {}
    settings = KafkaSettings.model_validate(
        {"security": security, "password": SecretStr("hush"), "sasl_mechanism": "SCRAM-SHA-256", **login}
    )

    credentials = make_app(settings, "stage", state_dir=tmp_path).conf.broker_credentials

    assert (credentials and credentials.protocol.value) == protocol


def test_faust_leaves_nothing_in_the_working_directory(tmp_path: Path) -> None:
    conf = make_app(KafkaSettings(), "stage", state_dir=tmp_path / "state").conf

    assert conf.tabledir.is_relative_to(tmp_path)


async def test_the_backlog_is_unknown_when_the_reading_thread_crashes_and_cancels_its_requests() -> None:
    consumer = ConsumerWithRequest()
    consumer.request.cancel()

    assert await look_behind(cast("faust.App", SimpleNamespace(consumer=consumer))) is None


async def test_who_looks_at_the_backlog_can_be_cancelled() -> None:
    consumer = ConsumerWithRequest()
    look = asyncio.create_task(look_behind(cast("faust.App", SimpleNamespace(consumer=consumer))))
    await consumer.is_asked.wait()

    look.cancel()

    with pytest.raises(asyncio.CancelledError):
        await look


async def test_a_reading_thread_that_waits_for_a_silent_broker_does_not_keep_the_process() -> None:
    assert _ConsumerThread.Worker(cast("ServiceThread", None)).daemon
