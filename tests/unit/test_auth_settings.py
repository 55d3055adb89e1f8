"""Settings of tokens, and what commands demand with them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from freki.cli.main import app
from freki.infra.settings import AuthSettings, RelaySettings, Settings
from freki.infra.settings.read import WrongSettings, read_settings
from freki.operators.check_claims import check_claims
from freki.schemas import Timestamp
from freki.schemas.identity import Identity
from freki.streams.wire.from_settings import claim_rules_of, uses_kept_ms

pytestmark = pytest.mark.usefixtures("folder")

GOOD: dict[str, Any] = {"jwks": "keys.json", "issuer": "https://issuer.example.org", "audience": "freki"}


@pytest.fixture
def on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it takes other settings away first
    for name, value in GOOD.items():
        monkeypatch.setenv(f"FREKI_AUTH__{name.upper()}", value)


def test_queries_are_believed_unless_the_settings_demand_tokens() -> None:
    assert not AuthSettings().required
    assert AuthSettings(**GOOD).required


@pytest.mark.parametrize("named", [("jwks",), ("issuer",), ("audience",), ("jwks", "issuer"), ("issuer", "audience")])
def test_what_is_missing_is_named_at_the_start(named: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in named:
        monkeypatch.setenv(f"FREKI_AUTH__{name.upper()}", GOOD[name])

    with pytest.raises(WrongSettings) as wrong:
        read_settings()

    for name in GOOD.keys() - set(named):
        assert f"FREKI_AUTH__{name.upper()}" in str(wrong.value)


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "ES256K", ""])
def test_signatures_that_everybody_could_make_are_not_allowed(algorithm: str) -> None:
    with pytest.raises(ValidationError, match="algorithms"):
        AuthSettings(**GOOD, algorithms=(algorithm,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "place", ["http://issuer.example.org/keys", "http://127.0.0.1.example.org/keys", "ftp://127.0.0.1/keys"]
)
def test_keys_come_by_https_or_from_this_machine(place: str) -> None:
    with pytest.raises(ValidationError, match="FREKI_AUTH__JWKS begins with"):
        AuthSettings(**{**GOOD, "jwks": place})


@pytest.mark.parametrize(
    "place", ["https://issuer.example.org/keys", "http://127.0.0.1:1/keys", "http://localhost/keys", "/etc/keys.json"]
)
def test_these_places_of_keys_are_allowed(place: str) -> None:
    assert AuthSettings(**{**GOOD, "jwks": place}).jwks == place


@pytest.mark.parametrize("template", ["contexts", "{tenant}{tenant}", "contexts {tenant}", "{Tenant}", "a/{tenant}"])
def test_a_topic_for_answers_is_named_by_the_tenant(template: str) -> None:
    with pytest.raises(ValidationError, match="FREKI_AUTH__REPLY_TOPIC"):
        AuthSettings(**GOOD, reply_topic=template)


@given(
    times=st.tuples(*(st.integers(0, 2_000) for _ in range(3))),
    window_s=st.integers(61, 900),
    leeway_s=st.integers(0, 30),
    max_age_s=st.none() | st.integers(1, 60),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_token_is_too_old_before_its_use_is_forgotten(
    times: tuple[int, int, int], window_s: int, leeway_s: int, max_age_s: int | None
) -> None:
    issued, (first, again) = times[0], sorted(times[1:])
    auth = AuthSettings(**GOOD, replay_window_s=window_s, leeway_s=leeway_s, max_age_s=max_age_s)
    claims = {"iss": GOOD["issuer"], "aud": GOOD["audience"], "sub": "ada", "tenant": "t", "iat": issued, "exp": 10**6}
    rules = claim_rules_of(auth)
    accepted = [isinstance(check_claims(claims, rules, Timestamp(at * 1000)), Identity) for at in (first, again)]

    assert not all(accepted) or 1000 * (again - first) <= uses_kept_ms(auth)


def test_a_topic_by_tenant_needs_tokens() -> None:
    with pytest.raises(ValidationError, match="FREKI_AUTH__JWKS"):
        AuthSettings(reply_topic="contexts-{tenant}")


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize(
    "command", [("publish", "a.md"), ("watch", "."), ("git", "."), ("crawl", "https://example.org/")]
)
def test_documents_name_their_readers_once_queries_need_tokens(command: tuple[str, ...]) -> None:
    Path("a.md").write_text("# A")

    refused = CliRunner().invoke(app, command)

    assert refused.exit_code == 2
    assert "--principal is missing" in " ".join(refused.output.split())


@pytest.mark.usefixtures("on")
def test_the_lines_of_a_stream_may_name_their_readers() -> None:
    line = {"op": "upsert", "document_id": "a", "version": 1, "content": "A"}
    silent, named = Path("silent.jsonl"), Path("named.jsonl")
    deletion = {"op": "delete", "document_id": "b", "version": 2}
    silent.write_text(json.dumps(line) + "\n")
    named.write_text("".join(json.dumps(each) + "\n" for each in ({**line, "principals": []}, deletion)))

    refused = CliRunner().invoke(app, ["publish", "silent.jsonl"])
    allowed = CliRunner().invoke(app, ["publish", "named.jsonl"], env={"FREKI_KAFKA__BOOTSTRAP": "127.0.0.1:1"})

    assert "--principal is missing" in refused.output
    assert "--principal" not in allowed.output
    assert allowed.exit_code == 1, "no broker"


def test_relays_name_readers_once_queries_need_tokens() -> None:
    relay = RelaySettings(topic="shop", format="debezium", document_id="/row/id", content="/row/body")

    with pytest.raises(ValidationError, match="relay of shop: principals are missing"):
        Settings(auth=AuthSettings(**GOOD), relays=(relay,))
    named = relay.model_validate({**relay.model_dump(exclude_unset=True), "principals": ("hr",)})
    assert Settings(auth=AuthSettings(**GOOD), relays=(named,)).relays == (named,)


def test_a_tenant_has_a_topic_only_where_the_settings_say_so() -> None:
    found = CliRunner().invoke(app, ["topics", "apply", "--tenant", "hr"])

    assert found.exit_code == 2
    assert "FREKI_AUTH__REPLY_TOPIC" in found.output


@pytest.mark.parametrize("setting", ["SERVE__PUBLISHERS", "SERVE__OPERATORS", "ERASURE__REQUESTERS"])
@pytest.mark.parametrize("name", ["editors", "acme/", "/editors", ""])
def test_a_group_without_its_tenant_is_refused(setting: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"FREKI_{setting}", json.dumps(["acme/legal", name]))

    with pytest.raises(WrongSettings, match=rf"FREKI_{setting}.*tenant/group, such as acme/editors"):
        read_settings()
