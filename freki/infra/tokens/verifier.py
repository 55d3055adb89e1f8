"""Verification of the signature of JSON Web Tokens (RFC 7519, with the advice of RFC 8725)."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from jwt import InvalidSignatureError, PyJWK, PyJWS, PyJWTError

from freki.infra.tokens.keys import KeySet
from freki.schemas.identity import RefusalReason

MAX_BYTES = 16_384
"""Longest token, in bytes; longer ones are not even parsed."""


class JwtVerifier:
    """Verifies tokens with the keys of their issuer. What a token says of keys or their places is ignored."""

    def __init__(self, keys: KeySet, *, algorithms: Collection[str]) -> None:
        self._keys = keys
        self._algorithms = frozenset(algorithms)
        self._jws = PyJWS(algorithms=sorted(algorithms), options={"enforce_minimum_key_length": True})

    async def claims(self, token: bytes) -> Mapping[str, Any] | RefusalReason:
        """Return the claims of a token with a valid signature, or why it is refused; times are not judged."""
        named = self._named(token)
        if isinstance(named, RefusalReason):
            return named
        algorithm, key_id = named
        judged: Mapping[str, Any] | RefusalReason = RefusalReason.UNKNOWN_KEY
        for key in await self._keys.find(key_id, algorithm):
            judged = self._verified(token, key)
            if not isinstance(judged, RefusalReason):
                break
        return judged

    def _named(self, token: bytes) -> tuple[str, str | None] | RefusalReason:
        """Return the algorithm and the id of the key that a token names."""
        if len(token) > MAX_BYTES:
            return RefusalReason.OVERSIZED
        try:
            header = self._jws.get_unverified_header(token)
        except PyJWTError:
            return RefusalReason.MALFORMED
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            return RefusalReason.ALGORITHM
        # Extensions that must be understood: none is.
        if "crit" in header or not isinstance(key_id, str | None):
            return RefusalReason.MALFORMED
        return algorithm, key_id

    def _verified(self, token: bytes, key: PyJWK) -> Mapping[str, Any] | RefusalReason:
        try:
            claims = json.loads(self._jws.decode(token, key, algorithms=[key.algorithm_name]))
        except InvalidSignatureError:
            return RefusalReason.SIGNATURE
        except (PyJWTError, ValueError, RecursionError):
            return RefusalReason.MALFORMED
        return claims if isinstance(claims, dict) else RefusalReason.MALFORMED
