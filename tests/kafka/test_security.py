"""Every way to prove who one is, on Apache Kafka; and what is said where that fails."""

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from freki.infra.kafka import KafkaProducer, Reader
from freki.infra.kafka.admin import Admin
from freki.infra.settings import KafkaSettings
from freki.schemas.errors import InfraError, Misconfigured, Unavailable
from tests.integration.stages import a_world, running
from tests.kafka.certificates import Authority
from tests.kafka.secured import Secured

WAYS = ("mutual TLS", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


def settings_for(secured: Secured, way: str) -> KafkaSettings:
    found = secured.mutual_tls() if way == "mutual TLS" else secured.sasl(way)
    return found.model_copy(update={"topic_prefix": f"test-{secrets.token_hex(4)}"})


async def refusals(settings: KafkaSettings) -> list[InfraError]:
    """Return what each client of ours says that cannot connect."""
    told = []
    for client in (KafkaProducer(settings), Reader(settings, "topic", start="latest"), Admin(settings)):
        with pytest.raises(InfraError) as caught:
            await client.__aenter__()
        told.append(caught.value)
    return told


@pytest.mark.parametrize("way", WAYS)
async def test_all_clients_connect_and_a_stage_takes_records_through(
    way: str, secured: Secured, tmp_path: Path
) -> None:
    async with a_world(settings_for(secured, way), tmp_path) as world, running(world.stage(world.forward)):
        await world.publish((b"a", b"1"), (b"b", b"2"))

        assert {record.value for record in await world.outputs(2)} == {b"1", b"2"}


async def test_a_stage_goes_on_where_logins_end_after_a_second(secured: Secured, tmp_path: Path) -> None:
    settings = settings_for(secured, "SCRAM-SHA-512").model_copy(
        update={"bootstrap": f"127.0.0.1:{secured.ports['SHORT']}"}
    )
    async with a_world(settings, tmp_path) as world, running(world.stage(world.forward)):
        for number in range(6):
            await world.publish((b"a", b"%d" % number))
            await asyncio.sleep(0.6)

        assert {record.value for record in await world.outputs(6)} == {b"%d" % number for number in range(6)}


@pytest.mark.parametrize("mechanism", [way for way in WAYS if way != "mutual TLS"])
async def test_a_wrong_password_is_named_with_its_setting(mechanism: str, secured: Secured) -> None:
    for error in await refusals(secured.sasl(mechanism, password=SecretStr("hush"))):
        assert isinstance(error, Misconfigured)
        assert "FREKI_KAFKA__PASSWORD" in str(error)
        assert "hush" not in str(error)


async def test_a_user_that_the_broker_does_not_know_is_named_with_its_setting(secured: Secured) -> None:
    for error in await refusals(secured.sasl("SCRAM-SHA-512", "nobody")):
        assert isinstance(error, Misconfigured)
        assert "FREKI_KAFKA__USERNAME" in str(error)


async def test_brokers_of_an_authority_that_is_not_trusted_are_refused(secured: Secured, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").file

    for settings in (secured.mutual_tls(ca_file=other), secured.sasl("PLAIN", ca_file=other)):
        for error in await refusals(settings):
            assert isinstance(error, Misconfigured)
            assert "FREKI_KAFKA__CA_FILE" in str(error)


async def test_a_host_that_is_not_in_the_certificate_is_named(secured: Secured) -> None:
    port = secured.ports["SASL"]

    for error in await refusals(secured.sasl("PLAIN", bootstrap=f"localhost:{port}")):
        assert isinstance(error, Misconfigured)
        assert f"FREKI_KAFKA__BOOTSTRAP=localhost:{port}" in str(error)


async def test_a_client_certificate_that_is_missing_or_not_trusted_is_named(secured: Secured, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "other").pair("stranger")
    untrusted = secured.mutual_tls(cert_file=stranger.certificate, key_file=stranger.key)

    for settings in (secured.mutual_tls(cert_file=None, key_file=None), untrusted):
        for error in await refusals(settings):
            assert isinstance(error, Misconfigured)
            assert "FREKI_KAFKA__CERT_FILE" in str(error)


async def test_a_key_may_be_encrypted(secured: Secured) -> None:
    pair = secured.authority.pair("locked", password="hush")  # noqa: S106 - of a key that ends with the test
    settings = secured.mutual_tls(cert_file=pair.certificate, key_file=pair.key)

    async with KafkaProducer(settings.model_copy(update={"key_password": SecretStr("hush")})):
        pass
    for password in (None, SecretStr("hash")):
        for error in await refusals(settings.model_copy(update={"key_password": password})):
            assert isinstance(error, Misconfigured)
            assert "FREKI_KAFKA__KEY_PASSWORD" in str(error)


@pytest.mark.parametrize("security", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def test_the_wrong_way_to_speak_is_named(security: str, secured: Secured) -> None:
    bootstrap = {"PLAINTEXT": "SASL", "SSL": "SASL", "SASL_PLAINTEXT": "SASL", "SASL_SSL": "MTLS"}[security]
    # What the way to speak does not use is refused with it.
    unused: dict[str, Any] = {} if "SSL" in security else {"ca_file": None}
    unused |= {} if "SASL" in security else {"username": None}
    address = f"127.0.0.1:{secured.ports[bootstrap]}"
    settings = secured.sasl("PLAIN", security=security, bootstrap=address, **unused)

    for error in await refusals(settings.model_copy(update={"delivery_timeout_s": 2.0})):
        assert isinstance(error, (Misconfigured, Unavailable))
        assert "FREKI_KAFKA__SECURITY" in str(error)
