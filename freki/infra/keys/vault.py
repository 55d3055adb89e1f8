"""Keys in HashiCorp Vault or OpenBao, by the HTTP interface of the secrets engine `transit`.

A call has all data keys of a batch (`batch_input`). Source: https://developer.hashicorp.com/vault/api-docs/secret/transit
"""

import ssl
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from freki.infra.http.errors import gist_of, refusal
from freki.infra.keys.envelope import KEY_BYTES
from freki.infra.keys.service import version_of
from freki.infra.settings import EncryptionSettings
from freki.schemas.errors import Misconfigured, Unavailable

_HINT = "see the settings FREKI_ENCRYPTION__VAULT_…: address, key, token and what its policy allows"


class _Answer(BaseModel):
    # What an error quotes could be a data key.
    model_config = ConfigDict(hide_input_in_errors=True)


class _One(_Answer):
    ciphertext: str = ""
    plaintext: str = ""
    error: str = ""


class _Batch(_Answer):
    batch_results: list[_One]


class _Key(_Answer):
    latest_version: int
    min_decryption_version: int


class VaultKeys:
    """Satisfies KeyService. No connection stays open between calls, of which there is one per batch at most."""

    def __init__(self, settings: EncryptionSettings) -> None:
        if settings.vault_url is None or settings.vault_token_file is None:
            raise Misconfigured("FREKI_ENCRYPTION__VAULT_URL and FREKI_ENCRYPTION__VAULT_TOKEN_FILE are missing")
        self._url = f"{settings.vault_url.rstrip('/')}/v1/{quote(settings.vault_mount)}"
        self._key = quote(settings.vault_key, safe="")
        self._token_file = settings.vault_token_file
        self._namespace = settings.vault_namespace
        self._timeout_s = settings.vault_timeout_s

    async def wrap(self, secrets: Sequence[bytes]) -> list[str]:
        """Return data keys wrapped by the current version, in order."""
        batch = [{"plaintext": b64encode(secret).decode("ascii")} for secret in secrets]
        return self._wrapped(await self._batch("encrypt", batch))

    async def unwrap(self, wrapped: Sequence[str]) -> list[bytes]:
        """Return the data keys, in order."""
        found = await self._batch("decrypt", self._ciphertexts(wrapped))
        try:
            secrets = [b64decode(each.plaintext, validate=True) for each in found]
        except ValueError as error:
            self._strange(error)
        return secrets if all(len(secret) == KEY_BYTES for secret in secrets) else self._strange()

    async def rewrap(self, wrapped: Sequence[str]) -> list[str]:
        """Return the same data keys wrapped by the current version, in order; Vault alone sees them."""
        return self._wrapped(await self._batch("rewrap", self._ciphertexts(wrapped)))

    async def versions(self) -> Sequence[int]:
        """Return the versions that Vault decrypts with, ascending."""
        try:
            key = _Key.model_validate(await self._call("GET", f"keys/{self._key}"))
        except ValidationError as error:
            self._strange(error)
        return range(max(1, key.min_decryption_version), key.latest_version + 1) or self._strange()

    async def rotate(self) -> int:
        """Make a new version in Vault, and return it."""
        await self._call("POST", f"keys/{self._key}/rotate", {})
        return (await self.versions())[-1]

    def _ciphertexts(self, wrapped: Sequence[str]) -> list[dict[str, str]]:
        for each in wrapped:
            if not each.startswith("vault:"):
                raise Misconfigured(
                    f"a data key is wrapped by {each.partition(':')[0][:20]!r}, not by Vault: FREKI_ENCRYPTION__KEYS "
                    "names another service than the one that this was written with"
                )
        return [{"ciphertext": each} for each in wrapped]

    async def _batch(self, operation: str, batch: Sequence[dict[str, str]]) -> list[_One]:
        if not batch:
            return []
        data = await self._call("POST", f"{operation}/{self._key}", {"batch_input": batch})
        try:
            found = _Batch.model_validate(data).batch_results
        except ValidationError as error:
            self._strange(error)
        if len(found) != len(batch):
            self._strange()
        if errors := [each.error for each in found if each.error]:
            raise Misconfigured(f"{self._url}/{operation}/{self._key} refuses a data key: {errors[0][:200]}; {_HINT}")
        return found

    async def _call(self, method: str, path: str, body: Any = None) -> Any:  # noqa: ANN401 - JSON
        url = f"{self._url}/{path}"
        headers = {"X-Vault-Token": self._token(), "X-Vault-Request": "true"}
        if self._namespace:
            headers["X-Vault-Namespace"] = self._namespace
        try:
            async with httpx.AsyncClient(timeout=self._timeout_s, verify=_certificates()) as client:
                response = await client.request(method, url, json=body, headers=headers)
            if not response.is_success:
                # The answer may repeat what was sent: only Vault's own list of errors is told.
                message = f"{url} answered {response.status_code}{_errors(response)}"
                error = refusal(response, message, hint=_HINT)
                # Never of the document: it would become a dead letter, where only its key or Vault is to blame.
                raise error if isinstance(error, Unavailable) else Misconfigured(f"{message}; {_HINT}")
            return (response.json() or {}).get("data") if response.content else None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Misconfigured(f"FREKI_ENCRYPTION__VAULT_URL: {url} is not a URL: {error}") from error
        except httpx.HTTPError as error:
            raise Unavailable(f"{url} does not answer: {type(error).__name__} {error}", gist=gist_of(error)) from error
        except (ValueError, AttributeError, RecursionError) as error:
            self._strange(error)

    def _token(self) -> str:
        # Read for each call: Vault's agent puts a fresh one there.
        try:
            token = self._token_file.expanduser().read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(
                f"FREKI_ENCRYPTION__VAULT_TOKEN_FILE={self._token_file} cannot be read: {type(error).__name__}"
            ) from error
        if not token:
            raise Misconfigured(f"FREKI_ENCRYPTION__VAULT_TOKEN_FILE={self._token_file} is empty")
        return token

    def _wrapped(self, found: Sequence[_One]) -> list[str]:
        """Return wrapped keys as envelopes can name them."""
        keys = [each.ciphertext for each in found]
        is_right = all(
            each.startswith("vault:") and version_of(each) and each.isascii() and each.isprintable() for each in keys
        )
        return keys if is_right else self._strange()

    def _strange(self, error: Exception | None = None) -> NoReturn:
        raise Misconfigured(f"{self._url} does not answer as Vault's transit does; {_HINT}") from error


@cache
def _certificates() -> ssl.SSLContext:
    # Loading them takes longer than a call.
    return httpx.create_ssl_context()


def _errors(response: httpx.Response) -> str:
    try:
        body = response.json()
        listed = body.get("errors") or [each["error"] for each in body["data"]["batch_results"] if each.get("error")]
        return f": {'; '.join(sorted(set(map(str, listed))))[:200]}" if listed else ""
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
