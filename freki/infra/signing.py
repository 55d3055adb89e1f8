"""Ed25519 keys in PEM files, which sign the audit log and reports of erasures."""

import hashlib
import hmac
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from freki.infra.durable_files import create_private
from freki.schemas.errors import Misconfigured

_TEXT = b"freki audit: hash of texts"
_DIGEST_BYTES = 32


class SigningKey:
    """A private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        # Of the same secret, so that there is one file to keep; a hash without a key could be found by guessing texts.
        self._text_key = HKDF(algorithm=SHA256(), length=_DIGEST_BYTES, salt=None, info=_TEXT).derive(
            key.private_bytes_raw()
        )

    @classmethod
    def read(cls, path: Path) -> "SigningKey":
        """Read a key. Raises Misconfigured if it cannot be read, is none, or others can read it."""
        try:
            mode = path.expanduser().stat().st_mode
            content = path.expanduser().read_bytes()
        except OSError as error:
            raise Misconfigured(
                f"signing key {path} cannot be read: {error.strerror}; `freki audit keys make FILE` makes one"
            ) from error
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Misconfigured(f"signing key {path} is open to others, who could sign with it: chmod 600 {path}")
        try:
            key = load_pem_private_key(content, password=None)
        except (ValueError, TypeError) as error:
            raise Misconfigured(f"signing key {path} is no private key in PEM without a password") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise Misconfigured(f"signing key {path} is no Ed25519 key: `freki audit keys make FILE` makes one")
        return cls(key)

    def sign(self, message: bytes) -> str:
        """Return the signature of a message in hexadecimal."""
        return self._key.sign(message).hex()

    def verify(self, message: bytes, signature: str) -> bool:
        """Return whether a signature in hexadecimal is this key's."""
        return _is_signed(self._key.public_key(), message, signature)

    def hash_text(self, text: str) -> str:
        """Return a keyed hash of a text in hexadecimal, the same for equal texts."""
        return hmac.digest(self._text_key, text.encode(errors="backslashreplace"), hashlib.sha256).hex()

    @property
    def public_pem(self) -> str:
        """The public key, which verifies."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def make_key(path: Path) -> SigningKey:
    """Write a new key to a new file that only its owner can read. Raises Misconfigured if there is one."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        create_private(path, pem)
    except FileExistsError as error:
        raise Misconfigured(f"{path} exists; a lost key cannot be made again, so it is not replaced") from error
    except OSError as error:
        raise Misconfigured(f"{path} cannot be written: {error.strerror}") from error
    return SigningKey(key)


def read_verifier(paths: Sequence[Path]) -> Callable[[bytes, str], bool]:
    """Return a function that tells whether a signature is one of these public keys. Raises Misconfigured."""
    keys = [_read_public(path) for path in paths]

    def verify(message: bytes, signature: str) -> bool:
        return any(_is_signed(key, message, signature) for key in keys)

    return verify


def _read_public(path: Path) -> Ed25519PublicKey:
    try:
        content = path.expanduser().read_bytes()
        key = load_pem_public_key(content)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Misconfigured(f"{path} is no public key in PEM: `freki audit keys show` prints it") from error
    if not isinstance(key, Ed25519PublicKey):
        raise Misconfigured(f"{path} is no Ed25519 key: `freki audit keys show` prints it")
    return key


def _is_signed(key: Ed25519PublicKey, message: bytes, signature: str) -> bool:
    try:
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
