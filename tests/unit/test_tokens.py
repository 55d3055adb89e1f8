"""Forged tokens, and the keys of the issuer."""

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freki.infra.settings import AuthSettings
from freki.infra.tokens import JwtVerifier, KeySet, TokenFile
from freki.infra.tokens.keys import THROTTLE_S
from freki.infra.tokens.verifier import MAX_BYTES
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.identity import RefusalReason
from tests.issuer import AUDIENCE, ISSUER, Issuer, encoded, hs256, key_server, public_pem, stranger_to

ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")


def auth(place: Path | str, **more: Any) -> AuthSettings:
    return AuthSettings(jwks=str(place), issuer=ISSUER, audience=AUDIENCE, **more)


@asynccontextmanager
async def verifying(place: Path | str, *, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[JwtVerifier]:
    given_settings = auth(place)
    async with KeySet(given_settings, clock=clock) as keys:
        yield JwtVerifier(keys, algorithms=given_settings.algorithms)


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    return tmp_path / "jwks.json"


def publish(keys: Issuer | list[Any], path: Path) -> None:
    path.write_text(json.dumps(keys.jwks() if isinstance(keys, Issuer) else {"keys": keys}))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_signed_token_gives_its_claims(algorithm: str, jwks: Path) -> None:
    issuer = Issuer(algorithm)
    publish(issuer, jwks)

    async with verifying(jwks) as verifier:
        claims = await verifier.claims(issuer.token(sub="ada").encode())

    assert not isinstance(claims, RefusalReason)
    assert claims["sub"] == "ada"


def forged(issuer: Issuer) -> dict[str, tuple[bytes, RefusalReason]]:
    """Return tokens that nobody may accept."""
    good = issuer.token()
    header, payload, signature = good.split(".")
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "eve", "tenant": "t", "exp": int(time.time()) + 300}
    other = {"RS256": "ES256"}.get(issuer.algorithm, "RS256")
    swapped = Issuer(other)
    key = issuer.keys["1"]
    own = {**issuer.jwks()["keys"][0], "kid": "2"}
    return {
        "other claims": (f"{header}.{encoded(claims)}.{signature}".encode(), RefusalReason.SIGNATURE),
        "no signature": (f"{header}.{payload}.".encode(), RefusalReason.SIGNATURE),
        "another key": (stranger_to(issuer).token().encode(), RefusalReason.SIGNATURE),
        "none": (f"{encoded({'alg': 'none'})}.{encoded(claims)}.".encode(), RefusalReason.ALGORITHM),
        "None": (f"{encoded({'alg': 'None', 'kid': '1'})}.{payload}.".encode(), RefusalReason.ALGORITHM),
        "public key as secret": (hs256(public_pem(key), **claims), RefusalReason.ALGORITHM),
        "key set as secret": (hs256(json.dumps(issuer.jwks()).encode(), **claims), RefusalReason.ALGORITHM),
        "empty secret": (hs256(b"", **claims), RefusalReason.ALGORITHM),
        "an algorithm of another kind of key": (swapped.token().encode(), RefusalReason.UNKNOWN_KEY),
        "an algorithm that is no word": (
            f"{encoded({'alg': 1})}.{payload}.{signature}".encode(),
            RefusalReason.ALGORITHM,
        ),
        "algorithms": (f"{encoded({'alg': [issuer.algorithm]})}.{payload}.x".encode(), RefusalReason.MALFORMED),
        "an unknown key": (issuer.signed(claims, kid="2").encode(), RefusalReason.UNKNOWN_KEY),
        "its own key": (issuer.signed(claims, kid="2", jwk=own).encode(), RefusalReason.UNKNOWN_KEY),
        "its own place": (issuer.signed(claims, kid="2", jku="http://127.0.0.1/").encode(), RefusalReason.UNKNOWN_KEY),
        "a path as key": (issuer.signed(claims, kid="../../dev/null").encode(), RefusalReason.UNKNOWN_KEY),
        "an extension": (issuer.signed(claims, crit=["exp"], exp=1).encode(), RefusalReason.MALFORMED),
        "oversized": (b"x" * (MAX_BYTES + 1), RefusalReason.OVERSIZED),
        "deep": (f"{encoded(b'[' * 9000)}.{payload}.{signature}".encode(), RefusalReason.MALFORMED),
        "encrypted": (b".".join([header.encode()] * 5), RefusalReason.MALFORMED),
        "no token": (b"x", RefusalReason.MALFORMED),
    }


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("attack", forged(Issuer()))
async def test_a_forged_token_is_refused(algorithm: str, attack: str, jwks: Path) -> None:
    issuer = Issuer(algorithm)
    publish(issuer, jwks)
    token, reason = forged(issuer)[attack]

    async with verifying(jwks) as verifier:
        claims = await verifier.claims(token)

    assert isinstance(claims, RefusalReason)
    assert claims is reason or {claims, reason} <= {RefusalReason.MALFORMED, RefusalReason.ALGORITHM}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(data=st.data())
async def test_no_changed_token_is_accepted(data: st.DataObject, jwks: Path) -> None:
    issuer = Issuer()
    publish(issuer, jwks)
    token = bytearray(issuer.token().encode())
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != token[place]))
    token[place] = other

    async with verifying(jwks) as verifier:
        assert isinstance(await verifier.claims(bytes(token)), RefusalReason)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(token=st.binary(max_size=300) | st.text('eyJ.{}[]"', max_size=300).map(str.encode))
async def test_whatever_the_header_holds_is_judged(token: bytes, jwks: Path) -> None:
    publish(Issuer(), jwks)

    async with verifying(jwks) as verifier:
        assert isinstance(await verifier.claims(token), RefusalReason)


@pytest.mark.parametrize("algorithm", [["ES256"], {"ES256": 1}, 7, None, True])
async def test_an_algorithm_that_is_no_name_is_none(algorithm: object, jwks: Path) -> None:
    publish(Issuer(), jwks)
    token = f"{encoded({'alg': algorithm})}.{encoded({})}.{encoded(b'x')}"

    async with verifying(jwks) as verifier:
        assert await verifier.claims(token.encode()) is RefusalReason.ALGORITHM


async def test_keys_that_are_no_public_keys_for_signatures_are_not_used(jwks: Path) -> None:
    issuer = Issuer("RS256")
    (good,) = issuer.jwks()["keys"]
    secret = {"kty": "oct", "kid": "1", "k": encoded(b"x" * 32)}
    publish([secret, {**good, "use": "enc"}, {**good, "alg": "PS256"}, "no key", {}], jwks)

    async with verifying(jwks) as verifier:
        assert await verifier.claims(hs256(b"x" * 32, sub="eve")) is RefusalReason.ALGORITHM
        assert await verifier.claims(issuer.token().encode()) is RefusalReason.UNKNOWN_KEY


async def test_a_new_key_is_read_once_a_token_names_it() -> None:
    issuer = Issuer()
    now = 0.0
    with key_server(issuer) as server:
        async with verifying(server.url, clock=lambda: now) as verifier:
            now = THROTTLE_S
            issuer.rotate("2")

            claims = await verifier.claims(issuer.token().encode())

            assert not isinstance(claims, RefusalReason)
            assert server.asked == 2


async def test_keys_that_do_not_exist_are_looked_for_once_in_a_while() -> None:
    issuer = Issuer()
    now = 0.0
    with key_server(issuer) as server:
        async with verifying(server.url, clock=lambda: now) as verifier:
            now = THROTTLE_S
            for number in range(20):
                token = issuer.signed({}, kid=f"none-{number}").encode()
                assert await verifier.claims(token) is RefusalReason.UNKNOWN_KEY

    assert server.asked == 2


async def test_known_keys_serve_while_their_place_does_not_answer() -> None:
    issuer = Issuer()
    now = 0.0
    with key_server(issuer) as server:
        async with verifying(server.url, clock=lambda: now) as verifier:
            server.status, now = 503, THROTTLE_S

            unknown = await verifier.claims(issuer.signed({}, kid="2").encode())
            known = await verifier.claims(issuer.token().encode())

    assert unknown is RefusalReason.UNKNOWN_KEY
    assert not isinstance(known, RefusalReason)


async def test_a_key_that_was_taken_back_is_refused_after_the_next_reading() -> None:
    issuer = Issuer()
    now = 0.0
    old = issuer.token().encode()
    with key_server(issuer) as server:
        async with verifying(server.url, clock=lambda: now) as verifier:
            now = THROTTLE_S
            issuer.rotate("2", keep=False)
            await verifier.claims(issuer.token().encode())

            assert await verifier.claims(old) is RefusalReason.UNKNOWN_KEY


async def test_a_place_without_keys_stops_the_start_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no keys")
    with key_server(Issuer()) as server:
        for status, error in ((503, Unavailable), (404, Misconfigured), (302, Misconfigured)):
            server.status = status
            with pytest.raises(error, match="FREKI_AUTH__JWKS"):
                await KeySet(auth(server.url)).__aenter__()
    for place in (tmp_path / "text", tmp_path / "none"):
        with pytest.raises(Misconfigured, match="FREKI_AUTH__JWKS"):
            await KeySet(auth(place)).__aenter__()


def test_the_token_of_a_file_is_read_each_time(tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "token")
    with pytest.raises(Misconfigured, match="FREKI_AUTH__TOKEN_FILE"):
        token()
    for text in ("one\n", "two"):
        (tmp_path / "token").write_text(text)
        assert token() == text.strip()
    (tmp_path / "token").write_text("\n")
    with pytest.raises(Misconfigured, match="empty"):
        token()
