import asyncio
import inspect
import socket
from pathlib import Path
from types import ModuleType
from typing import cast

import aiokafka.errors
import kafka.errors
import pytest
from kafka.admin import KafkaAdminClient
from pydantic import SecretStr

from freki.infra.kafka.admin import CLIENT_ERRORS, Admin
from freki.infra.kafka.connection import client_options, probe, translated
from freki.infra.kafka.reader import open_client
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable

SETTINGS = KafkaSettings(bootstrap="kafka:9092", max_message_bytes=1_234_567)
NEVER_RAISED = aiokafka.errors.BrokerResponseError
"""Only its subclasses have a code."""
OURS_TO_FIX = {"UnknownTopicOrPartitionError", "UnknownTopicIdError"}
"""Retriable for the client, which has done so for as long as it may by the time that we see them."""


def all_errors() -> list[type[Exception]]:
    return [
        kind
        for module in (aiokafka.errors, kafka.errors)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__ == module.__name__ and kind is not NEVER_RAISED
    ]


def made(kind: type[Exception]) -> Exception:
    return Exception.__new__(kind)


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_no_error_of_a_kafka_client_passes_untranslated(kind: type[Exception]) -> None:
    theirs = made(kind)

    with pytest.raises(InfraError) as caught, translated("send", SETTINGS, CLIENT_ERRORS):
        raise theirs

    assert caught.value.__cause__ is theirs
    if getattr(kind, "retriable", False) and kind.__name__ not in OURS_TO_FIX:
        assert isinstance(caught.value, Unavailable)


@pytest.mark.parametrize(
    "error",
    [
        aiokafka.errors.MessageSizeTooLargeError("3000089 bytes, more than max_request_size"),
        aiokafka.errors.MessageSizeTooLargeError(),
        aiokafka.errors.RecordListTooLargeError(),
    ],
)
def test_a_record_that_is_too_large_is_rejected_naming_the_setting(error: Exception) -> None:
    with pytest.raises(Rejected) as caught, translated("send to t", SETTINGS):
        raise error

    assert not isinstance(caught.value, Misconfigured)
    assert str(caught.value) == (
        "send to t: the record is larger than FREKI_KAFKA__MAX_MESSAGE_BYTES=1234567, or than its topic allows"
        " (max.message.bytes)"
    )


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (aiokafka.errors.UnknownTopicOrPartitionError(), "freki topics apply"),
        (aiokafka.errors.TopicAuthorizationFailedError(), "FREKI_KAFKA__USERNAME"),
        (kafka.errors.SaslAuthenticationFailedError(), "FREKI_KAFKA__PASSWORD"),
        (kafka.errors.InvalidReplicationFactorError(), "FREKI_KAFKA__"),
    ],
)
def test_what_a_setting_is_to_blame_for_names_the_setting(error: Exception, fix: str) -> None:
    with pytest.raises(Misconfigured, match=fix), translated("", SETTINGS, CLIENT_ERRORS):
        raise error


def test_a_name_that_kafka_takes_for_that_of_another_topic_is_to_be_changed() -> None:
    error = kafka.errors.InvalidTopicError("Topic 'a_b' collides with existing topics: a.b")

    with pytest.raises(Misconfigured) as caught, translated("create topics", SETTINGS, CLIENT_ERRORS):
        raise error

    assert str(caught.value).startswith("create topics: InvalidTopicError: Topic 'a_b' collides")
    assert "FREKI_KAFKA__TOPIC_PREFIX" in str(caught.value)
    assert "freki topics apply" not in str(caught.value)


@pytest.mark.parametrize("errors", [aiokafka.errors, kafka.errors])
@pytest.mark.parametrize("kind", ["NotEnoughReplicasError", "UnknownError", "PolicyViolationError"])
def test_errors_have_names_and_no_codes(errors: ModuleType, kind: str) -> None:
    with (
        pytest.raises(InfraError, match=rf"^send: {kind}: detail\b") as caught,
        translated("send", SETTINGS, CLIENT_ERRORS),
    ):
        raise getattr(errors, kind)("detail")

    assert "[Error" not in str(caught.value)


def test_an_unreachable_broker_is_named_with_its_setting() -> None:
    with pytest.raises(Unavailable, match="FREKI_KAFKA__BOOTSTRAP=kafka:9092"), translated("connect", SETTINGS):
        raise ConnectionRefusedError


@pytest.mark.parametrize("servers", ["127.0.0.1:1, 127.0.0.1:{}", "[::1]:{}"])
async def test_servers_are_probed_as_clients_read_them(servers: str) -> None:
    # Binds the port, and listens nowhere: whoever finds the host is refused.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        settings = KafkaSettings(bootstrap=servers.format(bound.getsockname()[1]))

        with pytest.raises(OSError, match="Connect call failed"):
            await probe(settings)


def test_where_the_local_broker_lacks_what_kafka_has_the_setting_that_leaves_it_out_is_named() -> None:
    with pytest.raises(Unavailable, match="FREKI_KAFKA__PROFILE=local"), translated("connect", SETTINGS):
        raise aiokafka.errors.UnknownError
    local = SETTINGS.model_copy(update={"profile": "local"})
    with pytest.raises(Unavailable, match="FREKI_KAFKA__BOOTSTRAP"), translated("connect", local):
        raise aiokafka.errors.UnknownError


async def test_a_silent_broker_is_waited_for_once() -> None:
    connections = 0

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.read(-1)
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        silent = KafkaSettings(bootstrap=address, delivery_timeout_s=0.2)
        with pytest.raises(Unavailable, match=f"FREKI_KAFKA__BOOTSTRAP={address}"):
            await open_client(silent, "topic")

    assert connections == 1


def test_sasl_needs_user_and_password() -> None:
    with pytest.raises(Misconfigured, match="FREKI_KAFKA__USERNAME"):
        client_options(KafkaSettings(security="SASL_PLAINTEXT"))


def test_a_missing_certificate_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="FREKI_KAFKA__CA_FILE"):
        client_options(KafkaSettings(security="SSL", ca_file=tmp_path / "none.pem"))


def test_the_secret_reaches_the_client_and_no_message() -> None:
    settings = KafkaSettings(security="SASL_SSL", username="freki", password=SecretStr("hush"))

    login = client_options(settings)["sasl_plain_password"]
    with pytest.raises(InfraError) as caught, translated("connect", settings):
        raise aiokafka.errors.AuthenticationFailedError

    assert login == "hush"
    assert "hush" not in str(caught.value)


async def test_a_controller_that_moves_is_an_outage() -> None:
    """kafka-python has no error of its own for that."""

    def create(_: object) -> None:
        raise RuntimeError("Failed to find active controller id!")

    admin = Admin(SETTINGS)
    admin._client = cast("KafkaAdminClient", object())

    with pytest.raises(Unavailable, match="create topics: Failed to find active controller"):
        await admin._run("create topics", create)
