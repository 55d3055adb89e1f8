"""Data keys of documents, in a collection beside their rows.

A document has one data key, seldom more; its rows name it by its id. Rotation rewraps the keys and leaves the rows
alone, and a document whose keys are gone cannot be read, wherever copies of its rows are.
"""

import json
import secrets
from collections.abc import Collection, Mapping, Sequence

from cachetools import TTLCache

from freki.infra.keys.envelope import DataKey, new_secret
from freki.infra.keys.service import KeyService, version_of
from freki.infra.milvus.filters import listed
from freki.infra.milvus.keys import checked_key
from freki.infra.milvus.layout import KEYS, PLACEHOLDER, Layout, Row
from freki.infra.milvus.store import BATCH_KEYS, MilvusStore, batched
from freki.schemas import RootId
from freki.schemas.errors import Misconfigured

TERMS = "terms"
"""Id of the key of the terms of BM25, which all rows share; also what the description calls it."""
_NAME_BYTES = 8
_FIELDS = ["id", "root_id", "key_id", "wrapped"]
_SCANNED_KEYS = 5_000
"""Keys per read: about 2 MB, and wrapped by one call."""


class DataKeys:
    """The data keys of a generation; those in use stay in memory for a while.

    At most one call of the key service for each batch. All methods also raise Unavailable and Misconfigured of it.
    """

    def __init__(self, store: MilvusStore, service: KeyService, *, cache_s: float, most: int) -> None:
        self._store = store
        self._service = service
        self._secrets: TTLCache[str, bytes] = TTLCache(most, cache_s)

    async def new_terms_key(self) -> str:
        """Return a new wrapped key for terms."""
        [wrapped] = await self._service.wrap([new_secret()])
        return wrapped

    async def terms_key(self) -> bytes:
        """Return the key of terms: as wrapped last, else as wrapped when the collection was made."""
        rows = await self._rows("key_id", [TERMS])
        wrapped = max((row["wrapped"] for row in rows), key=version_of, default=None)
        if wrapped is None:
            wrapped = json.loads(await self._store.description(KEYS)).get(TERMS)
        if not wrapped:
            name = self._store.name(KEYS)
            raise Misconfigured(f"{name} was not made by Freki: set FREKI_MILVUS__GENERATION to a new name")
        [secret] = await self._service.unwrap([wrapped])
        return secret

    async def for_writing(self, root_ids: Collection[RootId]) -> Mapping[RootId, DataKey]:
        """Return a key of each document that the store holds, made where there is none."""
        wanted = sorted(set(map(checked_key, root_ids)))
        # Not from memory: a key that was destroyed must not encrypt anything more.
        rows = await self._rows("root_id", wanted)
        chosen: dict[RootId, str] = {}
        for row in sorted(rows, key=lambda row: str(row["key_id"])):
            chosen.setdefault(RootId(row["root_id"]), row["key_id"])
        secrets_of = await self._unwrapped([row for row in rows if row["key_id"] in chosen.values()])
        found = {root_id: DataKey(_name(key_id), secrets_of[key_id]) for root_id, key_id in chosen.items()}
        return found | await self._made([root_id for root_id in wanted if root_id not in found])

    async def for_reading(self, names: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Return the secrets of data keys by name; those that were destroyed are absent."""
        ids = {name.hex() for name in names}
        found = {key_id: secret for key_id in ids if (secret := self._secrets.get(key_id)) is not None}
        if missing := ids - found.keys():
            found |= await self._unwrapped(await self._rows("key_id", sorted(missing)))
        return {_name(key_id): secret for key_id, secret in found.items()}

    async def destroy(self, root_ids: Collection[RootId]) -> int:
        """Delete the keys of documents, whose rows then cannot be read; return the number of keys.

        Processes that have used them forget them after FREKI_ENCRYPTION__CACHE_S.
        """
        return len({row["key_id"] for row in await self.take(root_ids)})

    async def take(self, root_ids: Collection[RootId]) -> Sequence[Row]:
        """Delete the keys of documents; return their rows."""
        taken = await take_keys(self._store, KEYS, root_ids)
        for row in taken:
            self._secrets.pop(row["key_id"], None)
        return taken

    async def put_back(self, rows: Sequence[Row]) -> None:
        """Write rows again that were taken."""
        await self._store.upsert(KEYS, [_row(row["root_id"], row["key_id"], row["wrapped"]) for row in rows])

    async def rewrap(self) -> int:
        """Wrap all keys by the current version of the service; return the number of those that were not.

        Readers find each key all the time: the new row is written before the old ones are deleted. A key that is
        destroyed meanwhile stays so, also beside somebody else who wraps it: a new row counts only if one
        that it replaces is still there.
        """
        current = (await self._service.versions())[-1]
        if not await self._rows("key_id", [TERMS]):
            wrapped = json.loads(await self._store.description(KEYS))[TERMS]
            await self._store.upsert(KEYS, [_row("", TERMS, wrapped)])
        done = 0
        async for page in self._store.scan(KEYS, 'id != ""', _FIELDS, by="id", size=_SCANNED_KEYS):
            if old := {row["key_id"] for row in page if version_of(row["wrapped"]) != current}:
                done += await self._wrap_anew(old, current)
        return done

    async def _wrap_anew(self, key_ids: Collection[str], current: int) -> int:
        """Replace the old rows of each key that has any by another one; return the number of keys."""
        # A row of the current version may be of somebody else who wraps the key, and belong to one that was destroyed.
        old = [row for row in await self._rows("key_id", sorted(key_ids)) if version_of(row["wrapped"]) != current]
        there = {row["key_id"]: row for row in old}
        wrapped = await self._service.rewrap([row["wrapped"] for row in there.values()])
        new = [_row(row["root_id"], key_id, each) for (key_id, row), each in zip(there.items(), wrapped, strict=True)]
        await self._store.upsert(KEYS, new)
        replaced = {row["id"] for row in old}
        standing = {row["key_id"] for row in await self._rows("key_id", sorted(there)) if row["id"] in replaced}
        await self._store.delete(KEYS, [row["id"] for row in new if row["key_id"] not in standing])
        await self._store.delete(KEYS, sorted(replaced))
        return len(there)

    async def versions(self) -> Mapping[int, int]:
        """Return the number of keys by the version that wraps them."""
        counts: dict[int, int] = {}
        # A key that was rewrapped twice at once, or not to the end, has several rows, which share a page.
        async for page in self._store.scan(KEYS, 'id != ""', _FIELDS, by="key_id", size=_SCANNED_KEYS):
            for _, version in {(row["key_id"], version_of(row["wrapped"])) for row in page}:
                counts[version] = counts.get(version, 0) + 1
        if not await self._rows("key_id", [TERMS]):
            version = version_of(json.loads(await self._store.description(KEYS))[TERMS])
            counts[version] = counts.get(version, 0) + 1
        return dict(sorted(counts.items()))

    async def _made(self, root_ids: Sequence[RootId]) -> dict[RootId, DataKey]:
        if not root_ids:
            return {}
        made = [(root_id, secrets.token_hex(_NAME_BYTES), new_secret()) for root_id in root_ids]
        wrapped = await self._service.wrap([secret for _, _, secret in made])
        # Before any row that names them.
        rows = [_row(root_id, key_id, each) for (root_id, key_id, _), each in zip(made, wrapped, strict=True)]
        await self._store.upsert(KEYS, rows)
        self._secrets.update({key_id: secret for _, key_id, secret in made})
        return {root_id: DataKey(_name(key_id), secret) for root_id, key_id, secret in made}

    async def _unwrapped(self, rows: Sequence[Row]) -> dict[str, bytes]:
        """Return the secrets of keys by id, whichever of their rows is taken."""
        by_id = {str(row["key_id"]): str(row["wrapped"]) for row in sorted(rows, key=lambda row: str(row["id"]))}
        found = {key_id: secret for key_id in by_id if (secret := self._secrets.get(key_id)) is not None}
        missing = sorted(by_id.keys() - found.keys())
        if missing:
            unwrapped = await self._service.unwrap([by_id[key_id] for key_id in missing])
            found |= dict(zip(missing, unwrapped, strict=True))
            self._secrets.update({key_id: found[key_id] for key_id in missing})
        return found

    async def _rows(self, column: str, values: Sequence[str]) -> list[Row]:
        return await _rows(self._store, KEYS, column, values)


async def take_keys(store: MilvusStore, layout: Layout, root_ids: Collection[RootId]) -> list[Row]:
    """Delete the keys of documents from a collection of keys, also while they are rewrapped; return their rows."""
    taken: list[Row] = []
    rows = await _rows(store, layout, "root_id", sorted(set(map(checked_key, root_ids))))
    while rows:
        await store.delete(layout, [row["id"] for row in rows])
        taken += rows
        # What was rewrapped meanwhile.
        rows = await _rows(store, layout, "key_id", sorted({row["key_id"] for row in taken}))
    return taken


async def _rows(store: MilvusStore, layout: Layout, column: str, values: Sequence[str]) -> list[Row]:
    found: list[Row] = []
    for batch in batched(values, BATCH_KEYS):
        async for page in store.scan(layout, f"{column} in {listed(batch)}", _FIELDS, by="id"):
            found += page
    return found


def _row(root_id: str, key_id: str, wrapped: str) -> Row:
    return {
        "id": f"{key_id}:{secrets.token_hex(_NAME_BYTES)}",
        "root_id": root_id,
        "key_id": key_id,
        "wrapped": wrapped,
        "placeholder": PLACEHOLDER,
    }


def _name(key_id: str) -> bytes:
    return bytes.fromhex(key_id)
