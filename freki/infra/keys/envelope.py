"""Envelopes: values encrypted by a data key that they name. Pure but for the random nonces.

`FKE1`, flags (1 byte), length of the name (2 bytes, big endian), name of the data key, nonce (12 bytes), ciphertext
with tag, of AES-256-GCM. All before the nonce is authenticated too, and so is the place that the value belongs to:
moved to another place, it does not decrypt. The name is the id of a stored data key, or the data key itself, wrapped by
a key that a `KeyService` holds. As text: `fke1:` and base64.
"""

import os
import zlib
from base64 import b64decode, b64encode
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from freki.schemas.errors import Rejected

KEY_BYTES = 32
"""Length of a data key."""
MAGIC = b"FKE1"
TEXT_MAGIC = "fke1:"
_NONCE_BYTES = 12
_TAG_BYTES = 16
_FIXED = len(MAGIC) + 3
_COMPRESSED = 1
_FAST = 1


class Damaged(Rejected):
    """A value was altered or moved, or belongs to another key."""

    gist = "what is stored was altered"


class DataKey(NamedTuple):
    """A key that encrypts values."""

    name: bytes
    """What envelopes say of it: its id, or the key itself as it is wrapped."""
    secret: bytes


def new_secret() -> bytes:
    """Return a new data key."""
    return os.urandom(KEY_BYTES)


def place_of(*names: str) -> bytes:
    """Return the associated data of a value, from the names of where it belongs; no two lists of names share it."""
    return b"".join(len(encoded).to_bytes(4) + encoded for encoded in (_utf8(name) for name in names))


def seal(value: bytes, key: DataKey, place: bytes, *, compress: bool = False) -> bytes:
    """Return the envelope of a value; compress: make it smaller before, if that helps."""
    flags = 0
    if compress and len(packed := zlib.compress(value, _FAST)) < len(value):
        value, flags = packed, _COMPRESSED
    header = MAGIC + bytes([flags]) + len(key.name).to_bytes(2) + key.name
    nonce = os.urandom(_NONCE_BYTES)
    return header + nonce + AESGCM(key.secret).encrypt(nonce, value, header + place)


def is_sealed(value: bytes | str) -> bool:
    """Return whether a value is an envelope, by how it begins."""
    return value.startswith(TEXT_MAGIC) if isinstance(value, str) else value.startswith(MAGIC)


def key_name(envelope: bytes) -> bytes:
    """Return the name of the data key of an envelope. Raises Damaged if it is none."""
    return envelope[_FIXED : _header_bytes(envelope)]


def unseal(envelope: bytes, secret: bytes, place: bytes) -> bytes:
    """Return the value in an envelope. Raises Damaged if it was altered, moved, or sealed by another data key."""
    end = _header_bytes(envelope)
    nonce, ciphertext = envelope[end : end + _NONCE_BYTES], envelope[end + _NONCE_BYTES :]
    try:
        value = AESGCM(secret).decrypt(nonce, ciphertext, envelope[:end] + place)
    except (InvalidTag, ValueError) as error:
        raise Damaged("an encrypted value was altered, moved to another place, or encrypted by another key") from error
    return zlib.decompress(value) if envelope[len(MAGIC)] & _COMPRESSED else value


def to_text(envelope: bytes) -> str:
    """Return an envelope as ASCII text."""
    return TEXT_MAGIC + b64encode(envelope).decode("ascii")


def from_text(text: str) -> bytes:
    """Return the envelope in a text of `to_text`. Raises Damaged if it is none."""
    try:
        return b64decode(text.removeprefix(TEXT_MAGIC), validate=True)
    except ValueError as error:
        raise Damaged("an encrypted text is not as it was written") from error


def renamed(envelope: bytes, old: DataKey, name: bytes, place: bytes) -> bytes:
    """Return the same value with another name of the same data key. Raises Damaged."""
    value = unseal(envelope, old.secret, place)
    return seal(value, DataKey(name, old.secret), place, compress=bool(envelope[len(MAGIC)] & _COMPRESSED))


def _header_bytes(envelope: bytes) -> int:
    end = _FIXED + int.from_bytes(envelope[len(MAGIC) + 1 : _FIXED])
    if not envelope.startswith(MAGIC) or len(envelope) < end + _NONCE_BYTES + _TAG_BYTES:
        raise Damaged("an encrypted value is not as it was written")
    return end


def _utf8(name: str) -> bytes:
    return name.encode(errors="surrogatepass")
