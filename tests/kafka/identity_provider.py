"""An identity provider that gives signed tokens for client credentials."""

import json
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.http_server import serving_json

AUDIENCE = "kafka"
CLIENT, SECRET, SCOPE = "freki", "wie:es euch beliebt", "kafka.write"


class IdentityProvider:
    """Knows one client."""

    def __init__(self) -> None:
        self.url = ""
        self.given = 0
        """Tokens."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, *, audience: str = AUDIENCE, life_s: float = 300.0) -> str:
        """Sign a token as a JWT."""
        now = time.time()
        claims = {"iss": self.url, "sub": CLIENT, "aud": audience, "iat": int(now), "exp": int(now + life_s)}
        text = f"{_encoded({'alg': 'RS256', 'typ': 'JWT', 'kid': '1'})}.{_encoded(claims)}"
        signature = self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_base64(signature)}"

    def keys(self) -> dict[str, Any]:
        """Return the public key as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        parts = {
            name: _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))
            for name, value in (("n", numbers.n), ("e", numbers.e))
        }
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", **parts}]}

    def grant(self, authorisation: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Answer a request for a token."""
        if b64decode(authorisation.removeprefix("Basic ")).decode() != f"{CLIENT}:{SECRET}":
            return 401, {"error": "invalid_client"}
        if form != {"grant_type": ["client_credentials"], "scope": [SCOPE]}:
            return 400, {"error": "invalid_scope"}
        self.given += 1
        return 200, {"access_token": self.token(), "token_type": "Bearer", "expires_in": 300}


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """Serve one at `/token` and `/keys`."""
    provider = IdentityProvider()

    def grant(authorisation: str, body: bytes) -> tuple[int, dict[str, Any]]:
        return provider.grant(authorisation, parse_qs(body.decode()))

    with serving_json(lambda: (200, provider.keys()), grant) as port:
        provider.url = f"http://127.0.0.1:{port}"
        yield provider


def _encoded(content: dict[str, Any]) -> str:
    return _base64(json.dumps(content).encode())


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")
