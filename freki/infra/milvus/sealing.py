"""Encryption of what rows say: the one place where content becomes envelopes, and where they are opened again.

Encrypted are text, context, headings and match code of a chunk, and the overlaps of a manifest page; with the text, the
terms of BM25. The store searches among keyed hashes of these, in no order. What a filter can name, and the vectors,
stay as they are.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence

from freki.infra.keys.envelope import DataKey, from_text, is_sealed, key_name, place_of, seal, to_text, unseal
from freki.infra.milvus.data_keys import DataKeys
from freki.infra.milvus.escape import unescaped
from freki.infra.milvus.layout import TEXT_BYTES, Row
from freki.schemas import RootId, TenantId

_BUNDLED = "text"
"""Column that also has the terms."""
_PLAIN = ("context", "heading_path")
_CODE = "match_code"
_OVERLAPS = "overlaps"
_CHUNK = "chunk"
_PAGE = "page"
_HASH_BYTES = 8


class Sealer:
    """Encrypts rows of a generation in place, and decrypts them. One look-up of keys per batch.

    has_plain: whether the generation may hold rows from before encryption, which are read as they are.
    """

    def __init__(self, keys: DataKeys) -> None:
        self._keys = keys
        self._terms_key = b""
        self.has_plain = True

    async def open(self) -> None:
        """Read the key of terms."""
        self._terms_key = await self._keys.terms_key()

    async def seal_chunks(self, rows: Sequence[Row]) -> None:
        """Encrypt whole rows of `rows.chunk_row`."""
        keys = await self._keys.for_writing({RootId(row["root_id"]) for row in rows})
        for row in rows:
            key = keys[RootId(row["root_id"])]
            bundle = json.dumps([row[_BUNDLED], row["lexical"]], ensure_ascii=False)
            row["lexical"] = self._hashed_row(unescaped(row["tenant"]), row["lexical"])
            row[_BUNDLED] = _sealed(bundle, key, _place(_CHUNK, row, "row_id", _BUNDLED))
            for column in (*_PLAIN, _CODE):
                if row[column]:
                    row[column] = _sealed(row[column], key, _place(_CHUNK, row, "row_id", column))

    async def unseal_chunks(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows decrypted, in order, without those whose keys were destroyed; rows may lack columns.

        The columns row_id and root_id are needed. Raises Damaged if a row was altered or moved.
        """
        every = list(rows)
        columns = (_BUNDLED, *_PLAIN, _CODE)
        secrets = await self._secrets(row[column] for row in every for column in columns if column in row)
        opened: list[Row] = []
        for row in every:
            sealed = {column: from_text(row[column]) for column in columns if column in row and is_sealed(row[column])}
            if any(key_name(envelope) not in secrets for envelope in sealed.values()):
                continue
            found = dict(row)
            for column, envelope in sealed.items():
                place = _place(_CHUNK, row, "row_id", column)
                found[column] = unseal(envelope, secrets[key_name(envelope)], place).decode()
            if _BUNDLED in sealed:
                found[_BUNDLED], found["lexical"] = json.loads(found[_BUNDLED])
            opened.append(found)
        return opened

    async def seal_pages(self, rows: Sequence[Row]) -> None:
        """Encrypt rows of `rows.page_row`: all overlaps of a page become its first one."""
        written = [row for row in rows if any(row[_OVERLAPS])]
        keys = await self._keys.for_writing({RootId(row["root_id"]) for row in written})
        for row in written:
            overlaps = json.dumps(row[_OVERLAPS], ensure_ascii=False)
            sealed = _sealed(overlaps, keys[RootId(row["root_id"])], _place(_PAGE, row, "id", _OVERLAPS))
            row[_OVERLAPS] = [sealed, *([""] * (len(row[_OVERLAPS]) - 1))]

    async def unseal_pages(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows decrypted, in order; of a document whose keys were destroyed without overlaps.

        The columns id and root_id are needed. Raises Damaged if a row was altered or moved.
        """
        secrets = await self._secrets(row[_OVERLAPS][0] for row in rows if row[_OVERLAPS])
        opened: list[Row] = []
        for row in rows:
            first = next(iter(row[_OVERLAPS]), "")
            found = dict(row)
            if is_sealed(first):
                envelope = from_text(first)
                secret = secrets.get(key_name(envelope))
                place = _place(_PAGE, row, "id", _OVERLAPS)
                found[_OVERLAPS] = (
                    [""] * len(row[_OVERLAPS]) if secret is None else json.loads(unseal(envelope, secret, place))
                )
            opened.append(found)
        return opened

    def terms(self, terms: str, tenant: TenantId) -> str:
        """Return the terms of a query as the rows of a tenant have them; also as they are if some rows are plain."""
        hashed = " ".join(self._hashed(tenant, terms))
        return f"{hashed} {terms}" if self.has_plain else hashed

    async def destroy_keys(self, root_ids: Sequence[RootId]) -> int:
        """Destroy the data keys of documents; return their number."""
        return await self._keys.destroy(root_ids)

    async def rewrap(self) -> int:
        """Wrap all data keys by the current version of the key; return how many were not."""
        return await self._keys.rewrap()

    async def key_versions(self) -> Mapping[int, int]:
        """Return the number of data keys by the version that wraps them."""
        return await self._keys.versions()

    def _hashed_row(self, tenant: str, terms: str) -> str:
        # Their order would tell the text. As many as fit are kept from its beginning, as the analyser does.
        width = len(next(iter(self._hashed(tenant, "x")))) + 1
        return " ".join(sorted(self._hashed(tenant, terms)[: TEXT_BYTES // width]))

    def _hashed(self, tenant: str, terms: str) -> list[str]:
        key = hmac.digest(self._terms_key, tenant.encode(errors="surrogatepass"), hashlib.sha256)
        # A text repeats its terms.
        by_term: dict[str, str] = {}
        return [by_term.get(term) or by_term.setdefault(term, _hash(key, term)) for term in terms.split()]

    async def _secrets(self, values: Iterable[str]) -> Mapping[bytes, bytes]:
        names = {key_name(from_text(value)) for value in values if is_sealed(value)}
        return await self._keys.for_reading(names) if names else {}


def _hash(key: bytes, term: str) -> str:
    digest = hmac.digest(key, term.encode(errors="surrogatepass"), hashlib.sha256)
    return urlsafe_b64encode(digest[:_HASH_BYTES]).decode("ascii").rstrip("=")


def _sealed(text: str, key: DataKey, place: bytes) -> str:
    return to_text(seal(text.encode(), key, place, compress=True))


def _place(kind: str, row: Row, key: str, column: str) -> bytes:
    """Return the associated data: the root id is a hash of tenant and document."""
    return place_of(kind, row["root_id"], row[key], column)
