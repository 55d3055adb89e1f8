"""Tokens that must not count."""

import time
from collections.abc import Callable, Mapping

import jwt

from tests.issuer import ISSUER, Issuer, encoded, public_pem

Make = Callable[[Issuer, Mapping[str, object]], str | None]


def _another_key(issuer: Issuer, claims: Mapping[str, object]) -> str:
    stranger = Issuer("RS256")
    stranger.rotate(issuer.key_id)
    return stranger.token(**claims)


def _altered(issuer: Issuer, claims: Mapping[str, object]) -> str:
    head, _, signature = issuer.token(**{**claims, "sub": "nobody"}).split(".")
    now = int(time.time())
    return f"{head}.{encoded({'iss': ISSUER, 'aud': 'freki', 'iat': now, 'exp': now + 300, **claims})}.{signature}"


def _unsigned(issuer: Issuer, claims: Mapping[str, object]) -> str:
    _, payload, _ = issuer.token(**claims).split(".")
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{payload}."


def _public_key_as_secret(issuer: Issuer, claims: Mapping[str, object]) -> str:
    _, payload, _ = issuer.token(**claims).split(".")
    head = encoded({"alg": "HS256", "typ": "JWT", "kid": issuer.key_id})
    secret = public_pem(issuer.keys[issuer.key_id])
    signature = jwt.get_algorithm_by_name("HS256").sign(f"{head}.{payload}".encode(), secret)
    return f"{head}.{payload}.{encoded(signature)}"


FORGERIES: Mapping[str, Make] = {
    "missing": lambda _issuer, _claims: None,
    "no token at all": lambda _issuer, _claims: "none",
    "expired": lambda issuer, claims: issuer.token(**claims, exp=int(time.time()) - 60),
    "not valid yet": lambda issuer, claims: issuer.token(**claims, nbf=int(time.time()) + 120),
    "for another audience": lambda issuer, claims: issuer.token(**claims, aud="another"),
    "of another issuer": lambda issuer, claims: issuer.token(**claims, iss="https://another.example.org"),
    "signed by another key": _another_key,
    "altered": _altered,
    "unsigned": _unsigned,
    "signed with the public key": _public_key_as_secret,
    "of another tenant": lambda issuer, claims: issuer.token(**{**claims, "tenant": "another"}),
    "without a tenant": lambda issuer, claims: issuer.token(**{**claims, "tenant": None}),
}
