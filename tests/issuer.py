"""An issuer of tokens: its keys, their public parts, and what it signs."""

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.http_server import serving_json

ISSUER, AUDIENCE = "https://issuer.example.org", "freki"
RULES: Mapping[str, Any] = {
    "issuer": ISSUER,
    "audience": AUDIENCE,
    "leeway_s": 30.0,
    "max_age_s": None,
    "tenant": "tenant",
    "principal": "sub",
    "groups": "groups",
}


@cache
def private_key(algorithm: str, _name: str = "") -> Any:
    """Return a key, the same one for the same name."""
    if algorithm.startswith("ES"):
        return ec.generate_private_key({"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_pem(key: Any) -> bytes:
    """Return the public part of a key as everybody may have it."""
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


class Issuer:
    """Signs with one key at a time, and may rotate it."""

    def __init__(self, algorithm: str = "ES256") -> None:
        self.algorithm = algorithm
        self.keys: dict[str, Any] = {}
        self.key_id = ""
        self.rotate("1")

    def rotate(self, key_id: str, *, keep: bool = True) -> None:
        """Sign with another key from now on; keep: publish the former ones too."""
        self.keys = {**(self.keys if keep else {}), key_id: private_key(self.algorithm, key_id)}
        self.key_id = key_id

    def jwks(self) -> dict[str, Any]:
        """Return the published keys."""
        jwk = jwt.get_algorithm_by_name(self.algorithm).to_jwk
        return {
            "keys": [
                {**json.loads(jwk(key.public_key())), "kid": key_id, "alg": self.algorithm, "use": "sig"}
                for key_id, key in self.keys.items()
            ]
        }

    def token(self, **claims: Any) -> str:
        """Sign a token that is in order, but for these claims; None leaves one out."""
        return self.signed(claims_of(**claims))

    def signed(self, claims: Mapping[str, Any], **headers: Any) -> str:
        """Sign claims."""
        return jwt.encode(
            dict(claims), self.keys[self.key_id], algorithm=self.algorithm, headers={"kid": self.key_id, **headers}
        )


def claims_of(**claims: Any) -> dict[str, Any]:
    """Return claims that are in order, but for these; None leaves one out."""
    now = int(time.time())
    usual = {"iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 300, "sub": "ada", "tenant": "t"}
    return {name: value for name, value in {**usual, **claims}.items() if value is not None}


def hs256(secret: bytes, **claims: Any) -> bytes:
    """Sign claims with a secret, as with the first key of an issuer."""
    text = f"{encoded({'alg': 'HS256', 'kid': '1'})}.{encoded(claims)}".encode()
    return text + b"." + encoded(hmac.new(secret, text, hashlib.sha256).digest()).encode()


def stranger_to(issuer: Issuer) -> Issuer:
    """Return an issuer with another key of the same kind and name."""
    stranger = Issuer(issuer.algorithm)
    stranger.keys = {issuer.key_id: private_key(issuer.algorithm, "stranger")}
    stranger.key_id = issuer.key_id
    return stranger


def encoded(content: Any) -> str:
    """Return a part of a token."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(raw).decode().rstrip("=")


class KeyServer:
    """Serves the keys of an issuer, or fails."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.status = 200
        self.asked = 0
        self.url = ""


@contextmanager
def key_server(issuer: Issuer) -> Iterator[KeyServer]:
    """Serve the keys at `/jwks`."""
    served = KeyServer(issuer)

    def keys() -> tuple[int, Any]:
        served.asked += 1
        return served.status, served.issuer.jwks()

    with serving_json(keys) as port:
        served.url = f"http://127.0.0.1:{port}/jwks"
        yield served
