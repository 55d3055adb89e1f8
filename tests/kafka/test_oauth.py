"""Tokens in place of names and passwords, on Apache Kafka, which asks the identity provider for its keys."""

import secrets
import shlex
from pathlib import Path
from typing import Any

import pytest

from freki.infra.settings import KafkaSettings, OAuthSettings
from freki.schemas.errors import Misconfigured, Unavailable
from tests.integration.stages import a_world, running
from tests.kafka.identity_provider import CLIENT, SCOPE, SECRET, IdentityProvider
from tests.kafka.secured import Secured
from tests.kafka.test_security import refusals
from tests.stack import free_port

WAYS = ("provider", "file", "command")


def settings_for(secured: Secured, **oauth: Any) -> KafkaSettings:
    prefix = f"test-{secrets.token_hex(4)}"
    return secured.sasl("OAUTHBEARER", topic_prefix=prefix, username=None, password=None, oauth=OAuthSettings(**oauth))


def asking(provider: IdentityProvider, **changed: Any) -> dict[str, Any]:
    given = {"token_url": f"{provider.url}/token", "client_id": CLIENT, "client_secret": SECRET, "scope": SCOPE}
    return given | changed


@pytest.mark.parametrize("way", WAYS)
async def test_all_clients_connect_and_a_stage_takes_records_through(
    way: str, secured: Secured, provider: IdentityProvider, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(provider.token() + "\n")
    oauth = {
        "provider": asking(provider),
        "file": {"token_file": file},
        "command": {"token_command": shlex.join(["cat", str(file)])},
    }[way]
    async with (
        a_world(settings_for(secured, **oauth), tmp_path / "state") as world,
        running(world.stage(world.forward)),
    ):
        await world.publish((b"a", b"1"), (b"b", b"2"))

        assert {record.value for record in await world.outputs(2)} == {b"1", b"2"}


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"client_secret": "hush"}, "FREKI_KAFKA__OAUTH__CLIENT_SECRET"),
        ({"scope": "kafka.read"}, "FREKI_KAFKA__OAUTH__SCOPE"),
    ],
)
async def test_a_provider_that_refuses_is_named_with_its_settings(
    changed: dict[str, str], setting: str, secured: Secured, provider: IdentityProvider
) -> None:
    for error in await refusals(settings_for(secured, **asking(provider, **changed))):
        assert isinstance(error, Misconfigured)
        assert setting in str(error)
        assert "hush" not in str(error)


async def test_a_provider_that_is_down_may_come_back(secured: Secured, provider: IdentityProvider) -> None:
    url = f"http://127.0.0.1:{free_port()}/token"

    for error in await refusals(settings_for(secured, **asking(provider, token_url=url))):
        assert isinstance(error, Unavailable)
        assert f"FREKI_KAFKA__OAUTH__TOKEN_URL={url}" in str(error)


async def test_a_token_that_the_broker_refuses_is_named(
    secured: Secured, provider: IdentityProvider, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    for token in (provider.token(audience="other"), provider.token(life_s=-300.0), "none"):
        file.write_text(token)
        for error in await refusals(settings_for(secured, token_file=file)):
            assert isinstance(error, Misconfigured)
            assert "FREKI_KAFKA__OAUTH__" in str(error)


async def test_a_place_without_a_token_is_named(secured: Secured, tmp_path: Path) -> None:
    empty = tmp_path / "token"
    empty.write_text("\n")
    for oauth, told in (
        ({}, "FREKI_KAFKA__OAUTH__TOKEN_URL"),
        ({"token_file": tmp_path / "nowhere"}, "FREKI_KAFKA__OAUTH__TOKEN_FILE="),
        ({"token_file": empty}, "is empty"),
        ({"token_command": "false"}, "FREKI_KAFKA__OAUTH__TOKEN_COMMAND=false ended with 1"),
        ({"token_command": "no-such-program"}, "FREKI_KAFKA__OAUTH__TOKEN_COMMAND=no-such-program cannot be run"),
    ):
        for error in await refusals(settings_for(secured, **oauth)):
            assert told in str(error)
