"""Keys in a file that only its owner reads."""

import asyncio
import json
import os
import stat
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from filelock import FileLock

from freki.infra.durable_files import create_private, sync_folder
from freki.infra.keys.envelope import KEY_BYTES, new_secret
from freki.infra.keys.service import version_of
from freki.schemas.errors import Misconfigured, Unavailable

_OWNER_ONLY = 0o600
_NONCE_BYTES = 12
_FORMAT = 1
_SETTING = "FREKI_ENCRYPTION__KEY_FILE"


class _Read(NamedTuple):
    stamp: tuple[int, int, int]
    keys: Mapping[int, bytes]
    """By version; the highest is the current one."""


class LocalKeys:
    """Satisfies KeyService. A changed file is read again, so that a rotation needs no restart."""

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser()
        self._read: _Read | None = None

    async def wrap(self, secrets: Sequence[bytes]) -> list[str]:
        """Return data keys wrapped by the current version, in order."""
        keys = await self._keys()
        version = max(keys)
        return [_wrapped(secret, version, keys[version]) for secret in secrets]

    async def unwrap(self, wrapped: Sequence[str]) -> list[bytes]:
        """Return the data keys, in order. Raises Unavailable for a version that the file does not have yet."""
        keys = await self._keys()
        return [self._unwrapped(each, keys) for each in wrapped]

    async def rewrap(self, wrapped: Sequence[str]) -> list[str]:
        """Return the same data keys wrapped by the current version, in order."""
        return await self.wrap(await self.unwrap(wrapped))

    async def versions(self) -> Sequence[int]:
        """Return the versions in the file, ascending."""
        return sorted(await self._keys())

    async def rotate(self) -> int:
        """Add a new version to the file, and return it."""
        return await asyncio.to_thread(self._rotate)

    def _rotate(self) -> int:
        # Whoever reads the file by its own name must get the version too, not only who follows the same link.
        path = self._path.resolve()
        _stamp(path)
        try:
            with FileLock(path.with_name(f"{path.name}.lock"), mode=_OWNER_ONLY):
                keys = dict(_keys_in(path))
                version = max(keys) + 1
                _replace(path, {**keys, version: new_secret()})
        except OSError as error:
            raise Misconfigured(
                f"{path} ({_SETTING}) cannot be replaced: {error.strerror}; rotate where its folder can be written, and"
                " copy the file here"
            ) from error
        return version

    async def _keys(self) -> Mapping[int, bytes]:
        return await asyncio.to_thread(self._current)

    def _current(self) -> Mapping[int, bytes]:
        stamp = _stamp(self._path)
        if self._read is None or self._read.stamp != stamp:
            self._read = _Read(stamp, _keys_in(self._path))
        return self._read.keys

    def _unwrapped(self, wrapped: str, keys: Mapping[int, bytes]) -> bytes:
        version = version_of(wrapped)
        if not wrapped.startswith("local:") or not version:
            raise Misconfigured(
                f"a data key is wrapped by {wrapped.partition(':')[0][:20]!r}, not by a key file: "
                "FREKI_ENCRYPTION__KEYS names another service than the one that this was written with"
            )
        if version not in keys:
            raise Unavailable(f"version {version} is not in {self._path} ({_SETTING}): copy the file that has it here")
        try:
            raw = b64decode(wrapped.split(":", 2)[2], validate=True)
            return AESGCM(keys[version]).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _associated(version))
        except (InvalidTag, ValueError) as error:
            raise Misconfigured(
                f"{self._path} ({_SETTING}) has another key of version {version} than the one that this was written "
                "with: put that file back"
            ) from error


def make_keys(path: Path) -> LocalKeys:
    """Write a new file with version 1, which only its owner reads. Raises Misconfigured if the file exists."""
    try:
        create_private(path.expanduser(), _content({1: new_secret()}))
    except FileExistsError as error:
        raise Misconfigured(
            f"{path} exists; what a lost key encrypted cannot be read again, so it is not replaced"
        ) from error
    except OSError as error:
        raise Misconfigured(f"{path} cannot be written: {error.strerror}") from error
    return LocalKeys(path)


def _wrapped(secret: bytes, version: int, key: bytes) -> str:
    nonce = os.urandom(_NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, secret, _associated(version))
    return f"local:v{version}:{b64encode(sealed).decode('ascii')}"


def _associated(version: int) -> bytes:
    return f"freki data key, local:v{version}".encode()


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise Misconfigured(
            f"{path} ({_SETTING}) cannot be read: {error.strerror}; `freki keys make FILE` makes one"
        ) from error
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Misconfigured(f"{path} ({_SETTING}) is open to others, who could decrypt with it: chmod 600 {path}")
    return found.st_ino, found.st_mtime_ns, found.st_size


def _keys_in(path: Path) -> Mapping[int, bytes]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        keys = {int(version): b64decode(each["key"], validate=True) for version, each in content["keys"].items()}
    except OSError as error:
        raise Misconfigured(f"{path} ({_SETTING}) cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Misconfigured(f"{path} ({_SETTING}) is no file of `freki keys make`") from error
    if not keys or content.get("format") != _FORMAT or any(len(key) != KEY_BYTES for key in keys.values()):
        raise Misconfigured(f"{path} ({_SETTING}) is no file of `freki keys make`, or of another release")
    return keys


def _content(keys: Mapping[int, bytes]) -> bytes:
    content = {
        "format": _FORMAT,
        "keys": {str(number): {"key": b64encode(key).decode("ascii")} for number, key in sorted(keys.items())},
        "written_at": int(time.time()),
    }
    return json.dumps(content, indent=1).encode("ascii")


def _replace(path: Path, keys: Mapping[int, bytes]) -> None:
    """Replace the file at once and durably; it keeps its owner. Raises OSError. The lock of the file must be held."""
    fresh = path.with_name(f".{path.name}.new")
    # Of a killed rotation.
    fresh.unlink(missing_ok=True)
    try:
        create_private(fresh, _content(keys))
        owner = path.stat()
        if owner.st_uid != os.geteuid():
            # Else workers of another account than who rotates could not read it any more.
            os.chown(fresh, owner.st_uid, owner.st_gid)
        fresh.replace(path)
        sync_folder(path.parent)
    finally:
        fresh.unlink(missing_ok=True)
