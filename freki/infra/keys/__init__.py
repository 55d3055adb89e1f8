"""Encryption at rest: services that hold keys, data keys, and envelopes of values."""

from freki.infra.keys.cipher import Cipher
from freki.infra.keys.local import LocalKeys, make_keys
from freki.infra.keys.service import KeyService, version_of
from freki.infra.keys.vault import VaultKeys
from freki.infra.settings import EncryptionSettings
from freki.schemas.errors import Misconfigured

__all__ = ["Cipher", "KeyService", "LocalKeys", "VaultKeys", "cipher_of", "key_service", "make_keys", "version_of"]


def key_service(settings: EncryptionSettings) -> KeyService | None:
    """Return the service that the settings name, not yet called; None if they want no encryption."""
    match settings.keys:
        case None:
            return None
        case "local":
            if settings.key_file is None:
                raise Misconfigured("FREKI_ENCRYPTION__KEY_FILE is missing: `freki keys make FILE` makes one")
            return LocalKeys(settings.key_file)
        case "vault":
            return VaultKeys(settings)


def cipher_of(settings: EncryptionSettings) -> Cipher | None:
    """Return what encrypts claim files and dead letters; None if the settings want no encryption."""
    service = key_service(settings)
    return None if service is None else Cipher(service, cache_s=settings.cache_s)
