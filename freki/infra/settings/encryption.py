"""Settings of encryption at rest."""

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from freki.infra.settings.section import LOOPBACK, ServerUrl, SettingsSection


class EncryptionSettings(SettingsSection):
    """Encryption of what is stored; `docs/security.md` explains it. All processes need the same."""

    keys: Literal["local", "vault"] | None = Field(
        default=None,
        description="Who wraps data keys: `local`, a file; `vault`, HashiCorp Vault or OpenBao; none: no encryption",
    )
    key_file: Path | None = Field(
        default=None, description="Key file of `local`, made by `freki keys make`, the same for all processes"
    )
    vault_url: ServerUrl | None = Field(default=None, description="Address, such as https://vault.example.org:8200")
    vault_mount: str = Field(default="transit", min_length=1, description="Path of the secrets engine transit")
    vault_key: str = Field(default="freki", min_length=1, description="Name of the key in it")
    vault_namespace: str = Field(default="", description="Namespace, where there are several")
    vault_token_file: Path | None = Field(
        default=None, description="File that something keeps a fresh token in, such as Vault's agent"
    )
    vault_timeout_s: float = Field(default=5.0, gt=0, description="Longest wait for a call")
    cache_s: float = Field(
        default=300.0,
        gt=0,
        le=86_400,
        description="How long data keys stay in memory: so long a destroyed or rotated key is still in use",
    )
    cache_keys: int = Field(default=20_000, ge=1, description="Maximum number of data keys of documents in memory")

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        services = {"key_file": "local", "vault_url": "vault", "vault_token_file": "vault"}
        if "keys" not in self.model_fields_set and (given := sorted(services.keys() & self.model_fields_set)):
            raise ValueError(
                f"FREKI_ENCRYPTION__{given[0].upper()} alone encrypts nothing: set "
                f"FREKI_ENCRYPTION__KEYS={services[given[0]]}, or to none"
            )
        if self.keys == "local" and self.key_file is None:
            raise ValueError(
                "FREKI_ENCRYPTION__KEYS=local needs a key: make one with `freki keys make FILE` and set "
                "FREKI_ENCRYPTION__KEY_FILE=FILE"
            )
        if self.keys == "vault" and (self.vault_url is None or self.vault_token_file is None):
            raise ValueError(
                "FREKI_ENCRYPTION__KEYS=vault needs FREKI_ENCRYPTION__VAULT_URL and FREKI_ENCRYPTION__VAULT_TOKEN_FILE"
            )
        if self.vault_url is not None:
            parts = urlsplit(self.vault_url)
            if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
                raise ValueError(
                    f"FREKI_ENCRYPTION__VAULT_URL begins with {parts.scheme}://: data keys would be readable on their "
                    "way; use https"
                )
        return self
