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
        lock = self._path.with_name(f"{self._path.name}.lock")
        with FileLock(lock, mode=_OWNER_ONLY):
            keys = dict(_keys_in(self._path))
            version = max(keys) + 1
            _write(self._path, {**keys, version: new_secret()}, replace=True)
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
    _write(path.expanduser(), {1: new_secret()}, replace=False)
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


def _write(path: Path, keys: Mapping[int, bytes], *, replace: bool) -> None:
    """Write the file durably; with `replace`, at once in place of another."""
    made_at = int(time.time())
    content = {
        "format": _FORMAT,
        "keys": {str(number): {"key": b64encode(key).decode("ascii")} for number, key in sorted(keys.items())},
        "written_at": made_at,
    }
    target = path.with_name(f".{path.name}.{os.getpid()}.new") if replace else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY), "w") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            target.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError as error:
        raise Misconfigured(
            f"{target} exists; what a lost key encrypted cannot be read again, so it is not replaced"
        ) from error
    except OSError as error:
        raise Misconfigured(f"{target} cannot be written: {error.strerror}") from error
