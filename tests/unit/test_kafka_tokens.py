from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from freki.infra.kafka.admin import admin_options
from freki.infra.kafka.connection import client_options
from freki.infra.kafka.tokens import NoToken, Tokens
from freki.infra.settings import KafkaSettings, OAuthSettings
from freki.schemas.errors import Misconfigured, Unavailable
from tests.kafka.identity_provider import CLIENT, SCOPE, SECRET, IdentityProvider, identity_provider


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(provider: IdentityProvider, clock: Clock) -> Tokens:
    settings = OAuthSettings(
        token_url=f"{provider.url}/token", client_id=CLIENT, client_secret=SecretStr(SECRET), scope=SCOPE
    )
    return Tokens(settings, clock=clock)


def test_a_token_is_used_until_shortly_before_it_ends(tokens: Tokens, provider: IdentityProvider, clock: Clock) -> None:
    before = provider.given

    first = tokens.get()
    clock.now = 239.0
    assert tokens.get() == first
    assert provider.given == before + 1
    clock.now = 240.0
    tokens.get()
    assert provider.given == before + 2


def test_a_token_that_was_refused_is_asked_for_again(provider: IdentityProvider) -> None:
    tokens = Tokens(OAuthSettings(token_url=f"{provider.url}/token", client_id=CLIENT, client_secret=SecretStr("hush")))

    for _ in range(2):
        with pytest.raises(NoToken) as caught:
            tokens.get()
        assert isinstance(caught.value.reason, Misconfigured)
        assert "invalid_client" in str(caught.value)


def test_a_file_is_read_for_every_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = Tokens(OAuthSettings(token_file=file))

    for content in ("first", "second"):
        file.write_text(f"{content}\n")
        assert tokens.get() == content


def test_a_command_runs_once_a_minute(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "token"
    tokens = Tokens(OAuthSettings(token_command=f"cat '{file}'"), clock=clock)

    file.write_text("first")
    assert tokens.get() == "first"
    file.write_text("second")
    assert tokens.get() == "first"
    clock.now = 60.0
    assert tokens.get() == "second"


def test_a_command_that_hangs_is_ended() -> None:
    tokens = Tokens(OAuthSettings(token_command="sleep 60", timeout_s=0.1))  # noqa: S106 - no password

    with pytest.raises(NoToken, match=r"FREKI_KAFKA__OAUTH__TIMEOUT_S=0\.1") as caught:
        tokens.get()
    assert isinstance(caught.value.reason, Unavailable)


@pytest.mark.parametrize(
    ("oauth", "told"),
    [
        ({"token_file": "a", "token_command": "b"}, "FREKI_KAFKA__OAUTH__TOKEN_FILE and FREKI_KAFKA__OAUTH__TOKEN_C"),
        ({"token_url": "http://host/token", "client_id": "a"}, "FREKI_KAFKA__OAUTH__CLIENT_SECRET"),
    ],
)
def test_places_that_contradict_each_other_are_named(oauth: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        OAuthSettings.model_validate(oauth)


def test_extensions_reach_both_kinds_of_clients(tmp_path: Path) -> None:
    oauth = OAuthSettings(token_file=tmp_path, extensions={"logicalCluster": "lkc-1"})
    settings = KafkaSettings(security="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", oauth=oauth)

    for options in (client_options(settings), admin_options(settings)):
        provider = options["sasl_oauth_token_provider"]
        assert getattr(provider, "extensions")() == {"logicalCluster": "lkc-1"}  # noqa: B009 - of two libraries
