"""Encryption of values that carry their own data key, wrapped: claim files and dead letters."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cachetools import TTLCache

from freki.infra.elapsed import elapsed_s
from freki.infra.keys.envelope import Damaged, DataKey, is_sealed, key_name, new_secret, renamed, seal, unseal
from freki.infra.keys.service import KeyService, version_of

_MOST_VALUES = 1 << 24
"""Values that one data key encrypts at most: far below 2^32, where random nonces of 12 bytes may come twice."""
_MOST_KEYS = 4096
_WRAPPED = re.compile(rb"[a-z][a-z0-9]*:v[1-9][0-9]*:(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
"""A wrapped key as of `KeyService`. No setting makes another one of it: what differs was damaged."""

Value = tuple[bytes, bytes]
"""The place that a value belongs to, and the value."""


class _InUse(NamedTuple):
    key: DataKey
    until: float
    values: int


class Cipher:
    """Encrypts by a data key that serves for some minutes, so that not every value costs a call of the key service.

    cache_s: how long a data key is used, and how long others stay in memory once unwrapped.
    """

    def __init__(self, service: KeyService, *, cache_s: float, clock: Callable[[], float] = elapsed_s) -> None:
        self._service = service
        self._cache_s = cache_s
        self._clock = clock
        self._in_use: _InUse | None = None
        self._secrets: TTLCache[bytes, bytes] = TTLCache(_MOST_KEYS, cache_s, timer=clock)
        self._lock = asyncio.Lock()

    async def seal(self, values: Sequence[Value]) -> list[bytes]:
        """Return envelopes of values, in order. Raises Unavailable, Misconfigured."""
        key = await self._key(len(values))
        return [seal(value, key, place, compress=True) for place, value in values]

    async def unseal(self, values: Sequence[Value]) -> list[bytes]:
        """Return the values in envelopes, in order; a value that is no envelope is returned as it is.

        Raises Damaged, Unavailable, Misconfigured; the last also for a wrapped key that looks whole, since it cannot be
        told from one of another key file.
        """
        sealed = [envelope for _, envelope in values if is_sealed(envelope)]
        secrets = await self._unwrapped([key_name(envelope) for envelope in sealed])
        return [
            unseal(value, secrets[key_name(value)], place) if is_sealed(value) else value for place, value in values
        ]

    async def rewrapped(self, values: Sequence[Value]) -> list[bytes | None]:
        """Return envelopes of the same values under the current version of the key, in order; None: nothing to do.

        Plain values become envelopes.
        """
        current = (await self._service.versions())[-1]
        plain = [place for place, value in enumerate(values) if not is_sealed(value[1])]
        old = [
            place
            for place, (_, value) in enumerate(values)
            if is_sealed(value) and version_of(_ascii(key_name(value))) != current
        ]
        found: list[bytes | None] = [None] * len(values)
        for place, envelope in zip(plain, await self.seal([values[place] for place in plain]), strict=True):
            found[place] = envelope
        names = [key_name(values[place][1]) for place in old]
        secrets = await self._unwrapped(names)
        wrapped = await self._service.rewrap([_ascii(name) for name in names])
        for place, name, new in zip(old, names, wrapped, strict=True):
            where, envelope = values[place]
            found[place] = renamed(envelope, DataKey(name, secrets[name]), new.encode("ascii"), where)
        return found

    async def _key(self, values: int) -> DataKey:
        async with self._lock:
            now, used = self._clock(), self._in_use
            if used is None or now >= used.until or used.values + values > _MOST_VALUES:
                secret = new_secret()
                [wrapped] = await self._service.wrap([secret])
                used = _InUse(DataKey(wrapped.encode("ascii"), secret), now + self._cache_s, 0)
                self._secrets[used.key.name] = secret
            self._in_use = used._replace(values=used.values + values)
            return used.key

    async def _unwrapped(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        found = {name: secret for name in names if (secret := self._secrets.get(name)) is not None}
        missing = sorted(set(names) - found.keys())
        if not all(map(_WRAPPED.fullmatch, missing)):
            raise Damaged("the wrapped data key of an encrypted value was damaged: publish it again")
        if missing:
            secrets = await self._service.unwrap([_ascii(name) for name in missing])
            found |= dict(zip(missing, secrets, strict=True))
            for name in missing:
                self._secrets[name] = found[name]
        return found


def _ascii(name: bytes) -> str:
    return name.decode("ascii", errors="replace")
