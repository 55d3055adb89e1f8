"""Ed25519 keys in PEM files, which sign reports and check their signatures."""

import os
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from freki.schemas.errors import Misconfigured

_OWNER_ONLY = 0o600


def make_key(path: Path) -> Ed25519PrivateKey:
    """Write a new key to a new file that only its owner can read. Raises Misconfigured if there is one."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise Misconfigured(f"{path} exists; a lost key cannot be made again, so it is not replaced") from error
    except OSError as error:
        raise Misconfigured(f"{path} cannot be written: {error.strerror}") from error
    return key


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key. Raises Misconfigured if it cannot be read, is no such key, or others can read it."""
    try:
        mode, content = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"key {path} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Misconfigured(f"key {path} is open to others, who could sign with it: chmod 600 {path}")
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise Misconfigured(f"{path} is no private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise Misconfigured(f"{path} is no Ed25519 key")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key. Raises Misconfigured if it cannot be read or is no such key."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise Misconfigured(f"key {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Misconfigured(f"{path} is no public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise Misconfigured(f"{path} is no Ed25519 key")
    return key


def public_pem(key: Ed25519PrivateKey) -> str:
    """Return the public key, which checks signatures, in PEM."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def sign(key: Ed25519PrivateKey, message: bytes) -> str:
    """Return the signature of a message in hexadecimal."""
    return key.sign(message).hex()


def is_signed(key: Ed25519PublicKey, message: bytes, signature: str) -> bool:
    """Return whether a signature in hexadecimal is of this key and message."""
    try:
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
