"""Tokens that must not count."""

import time
from collections.abc import Callable, Mapping

from tests.issuer import Issuer, claims_of, encoded, hs256, public_pem, stranger_to

Make = Callable[[Issuer, Mapping[str, object]], str | None]


def _altered(issuer: Issuer, claims: Mapping[str, object]) -> str:
    header, _, signature = issuer.token(**{**claims, "sub": "nobody"}).split(".")
    return f"{header}.{encoded(claims_of(**claims))}.{signature}"


FORGERIES: Mapping[str, Make] = {
    "missing": lambda _issuer, _claims: None,
    "no JSON Web Token": lambda _issuer, _claims: "none",
    "expired": lambda issuer, claims: issuer.token(**claims, exp=int(time.time()) - 60),
    "not valid yet": lambda issuer, claims: issuer.token(**claims, nbf=int(time.time()) + 120),
    "for another audience": lambda issuer, claims: issuer.token(**claims, aud="another"),
    "of another issuer": lambda issuer, claims: issuer.token(**claims, iss="https://another.example.org"),
    "signed by another key": lambda issuer, claims: stranger_to(issuer).token(**claims),
    "signed by a key of another kind": lambda _issuer, claims: Issuer("RS256").token(**claims),
    "altered": _altered,
    "unsigned": lambda _issuer, claims: f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(claims_of(**claims))}.",
    "signed with the public key": lambda issuer, claims: hs256(
        public_pem(issuer.keys[issuer.key_id]), **claims_of(**claims)
    ).decode(),
    "of another tenant": lambda issuer, claims: issuer.token(**{**claims, "tenant": "another"}),
    "without a tenant": lambda issuer, claims: issuer.token(**{**claims, "tenant": None}),
}
