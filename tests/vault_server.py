"""The part of Vault's transit engine that Freki calls, as its documentation describes it, on the loopback interface."""

import os
from base64 import b64decode, b64encode
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.scripted_server import Reply, ScriptedServer

TOKEN = "hvs.test"  # noqa: S105 - of the test


class VaultServer(ScriptedServer):
    """One key named `freki`, whose versions are real AES keys."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.keys = {1: os.urandom(32)}
        self.least = 1
        """Minimum version that decrypts."""
        self.status = 200
        """Status of all replies; others than 200 have no content of use."""

    @property
    def operations(self) -> list[str]:
        """The operations that were called, in order."""
        return [request.path.removeprefix("/v1/transit/") for request in self.requests]

    def _reply(self, body: dict[str, Any]) -> Reply:  # noqa: PLR0911 - one for each operation
        request = self.requests[-1]
        if self.status != 200:
            return Reply({"errors": ["permission denied"]}, status=self.status)
        match request.path.removeprefix("/v1/transit/").split("/"):
            case ["keys", "freki"]:
                return Reply({"data": {"latest_version": max(self.keys), "min_decryption_version": self.least}})
            case ["keys", "freki", "rotate"]:
                self.keys[max(self.keys) + 1] = os.urandom(32)
                return Reply({"data": None})
            case ["encrypt", "freki"]:
                return self._batch(body, lambda one: {"ciphertext": self._wrapped(b64decode(one["plaintext"]))})
            case ["decrypt", "freki"]:
                return self._batch(
                    body, lambda one: {"plaintext": b64encode(self._unwrapped(one["ciphertext"])).decode()}
                )
            case ["rewrap", "freki"]:
                return self._batch(body, lambda one: {"ciphertext": self._wrapped(self._unwrapped(one["ciphertext"]))})
        return Reply({"errors": []}, status=404)

    def _batch(self, body: dict[str, Any], do: Any) -> Reply:
        results: list[dict[str, str]] = []
        for one in body["batch_input"]:
            try:
                results.append(do(one))
            except (InvalidTag, KeyError, ValueError):
                results.append({"error": "cipher: message authentication failed"})
        return Reply(
            {"data": {"batch_results": results}}, status=400 if any("error" in one for one in results) else 200
        )

    def _wrapped(self, secret: bytes) -> str:
        version, nonce = max(self.keys), os.urandom(12)
        sealed = nonce + AESGCM(self.keys[version]).encrypt(nonce, secret, None)
        return f"vault:v{version}:{b64encode(sealed).decode()}"

    def _unwrapped(self, ciphertext: str) -> bytes:
        _, version, sealed = ciphertext.split(":")
        if int(version[1:]) < self.least:
            raise ValueError(version)
        raw = b64decode(sealed)
        return AESGCM(self.keys[int(version[1:])]).decrypt(raw[:12], raw[12:], None)
