"""Encryption of what rows say: the one place where content becomes envelopes, and where they are opened again.

Encrypted are text, context, headings and match code of a chunk, the overlaps of a manifest page, and the name of a
root. The terms of BM25 and the name of a chunk are encrypted with its text; the store has keyed hashes of these, by
which it searches and filters, of terms in no order. Vectors, and what else a filter can name, stay as they are.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from freki.infra.keys.envelope import DataKey, from_text, is_sealed, key_name, place_of, seal, to_text, unseal
from freki.infra.milvus.data_keys import DataKeys
from freki.infra.milvus.filters import check_filter
from freki.infra.milvus.layout import TEXT_BYTES, Row
from freki.schemas import Filter, FilterOperator, RootId, TenantId
from freki.schemas.conditions import NO_PREFIX, AllOf, AnyOf, Comparator, Comparison, Condition, Negation
from freki.schemas.errors import Rejected
from freki.schemas.escaping import escaped, unescaped
from freki.schemas.index import Scope

_BUNDLED = "text"
"""Column that also has what the columns `lexical` and `name` have hashes of."""
_OTHERS = {FilterOperator.EQ: FilterOperator.IN, FilterOperator.NE: FilterOperator.NOT_IN}
"""Operators with several values, by those with one."""
_PLAIN = ("context", "heading_path")
_CODE = "match_code"
_OVERLAPS = "overlaps"
_CHUNK = "chunk"
_PAGE = "page"
_ROOT = "root"
_TERM_BYTES = 8
_NAME_BYTES = 16


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
            bundle = json.dumps([row[_BUNDLED], row["lexical"], row["name"]], ensure_ascii=False)
            tenant = unescaped(row["tenant"])
            row["lexical"] = self._hashed_row(tenant, row["lexical"])
            row["name"] = self._hashed_name(tenant, row["name"])
            row[_BUNDLED] = _sealed(bundle, key, _place(_CHUNK, row, "row_id", _BUNDLED))
            for column in (*_PLAIN, _CODE):
                if row[column]:
                    # Of a code compression saves a fifth, and takes most of the time of every candidate.
                    place, compress = _place(_CHUNK, row, "row_id", column), column != _CODE
                    row[column] = _sealed(row[column], key, place, compress=compress)

    async def unseal_chunks(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows decrypted, in order, without those whose keys were destroyed; all rows may lack the same columns.

        The columns row_id and root_id are needed. Raises Damaged if a row was altered or moved.
        """
        every = list(rows)
        columns = [column for column in (_BUNDLED, *_PLAIN, _CODE) if any(column in row for row in every[:1])]
        envelopes = [{column: from_text(row[column]) for column in columns if is_sealed(row[column])} for row in every]
        secrets = await self._secrets(envelope for sealed in envelopes for envelope in sealed.values())
        opened: list[Row] = []
        for row, sealed in zip(every, envelopes, strict=True):
            if any(key_name(envelope) not in secrets for envelope in sealed.values()):
                continue
            found = dict(row)
            for column, envelope in sealed.items():
                place = _place(_CHUNK, row, "row_id", column)
                found[column] = unseal(envelope, secrets[key_name(envelope)], place).decode()
            if _BUNDLED in sealed:
                found[_BUNDLED], found["lexical"], found["name"] = json.loads(found[_BUNDLED])
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
        first_ones = (row[_OVERLAPS][0] for row in rows if row[_OVERLAPS])
        secrets = await self._secrets(from_text(first) for first in first_ones if is_sealed(first))
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

    async def seal_roots(self, rows: Sequence[Row]) -> None:
        """Encrypt rows of `rows.root_row`; those of deleted documents have no name."""
        named = [row for row in rows if row["body"]["name"]]
        keys = await self._keys.for_writing({RootId(row["key"]) for row in named}) if named else {}
        for row in named:
            place = place_of(_ROOT, row["key"], row["id"], "name")
            row["body"] = {**row["body"], "name": _sealed(row["body"]["name"], keys[RootId(row["key"])], place)}

    async def unseal_roots(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows decrypted, in order; of a document whose keys were destroyed without its name.

        Raises Damaged if a row was altered or moved.
        """
        names = (row["body"]["name"] for row in rows)
        secrets = await self._secrets(from_text(name) for name in names if is_sealed(name))
        opened: list[Row] = []
        for row in rows:
            name = row["body"]["name"]
            if is_sealed(name):
                envelope = from_text(name)
                secret = secrets.get(key_name(envelope))
                place = place_of(_ROOT, row["key"], row["id"], "name")
                name = "" if secret is None else unseal(envelope, secret, place).decode()
            opened.append({**row, "body": {**row["body"], "name": name}})
        return opened

    def scope(self, scope: Scope) -> Scope:
        """Return a scope whose filters compare names as rows have them. Raises Rejected for a prefix of a name.

        Searches have the scopes of many queries: whoever takes queries in refuses such a one before.
        """
        return replace(
            scope,
            filters=tuple(self._filter(each, scope.tenant) for each in scope.filters),
            where=None if scope.where is None else self._condition(scope.where, scope.tenant),
        )

    def terms(self, terms: str, tenant: TenantId) -> str:
        """Return the terms of a query as the rows of a tenant have them; also as they are if some rows are plain."""
        hashed = " ".join(self._hashed(tenant, terms))
        return f"{hashed} {terms}" if self.has_plain else hashed

    async def destroy_keys(self, root_ids: Sequence[RootId]) -> int:
        """Destroy the data keys of documents; return their number."""
        return await self._keys.destroy(root_ids)

    async def take_keys(self, root_ids: Sequence[RootId]) -> Sequence[Row]:
        """Destroy the data keys of documents; return their rows."""
        return await self._keys.take(root_ids)

    async def put_back_keys(self, rows: Sequence[Row]) -> None:
        """Write data keys again that were taken."""
        await self._keys.put_back(rows)

    async def rewrap(self) -> int:
        """Wrap all data keys by the current version of the key; return how many were not."""
        return await self._keys.rewrap()

    async def key_versions(self) -> Mapping[int, int]:
        """Return the number of data keys by the version that wraps them."""
        return await self._keys.versions()

    def _filter(self, condition: Filter, tenant: TenantId) -> Filter:
        check_filter(condition)
        if condition.field != "name":
            return condition
        if condition.operator is FilterOperator.PREFIX:
            raise Rejected(NO_PREFIX)
        hashed = tuple(self._hashed_name(tenant, escaped(value)) for value in condition.values)
        operator = _OTHERS.get(condition.operator, condition.operator)
        return replace(condition, operator=operator, values=(*hashed, *(condition.values if self.has_plain else ())))

    def _condition(self, condition: Condition, tenant: TenantId) -> Condition:
        match condition:
            case Negation():
                return Negation(of=self._condition(condition.of, tenant))
            case AllOf() | AnyOf():
                return type(condition)(of=tuple(self._condition(each, tenant) for each in condition.of))
            case Comparison(field="name", comparator=Comparator.EQUAL, value=str(name)):
                stored = (self._hashed_name(tenant, escaped(name)), *((name,) if self.has_plain else ()))
                return AnyOf(of=tuple(replace(condition, value=each) for each in stored))
            case Comparison(field="name"):
                raise Rejected(NO_PREFIX)
            case Comparison():
                return condition

    def _hashed_name(self, tenant: str, name: str) -> str:
        return _hash(self._tenant_key(tenant), f"name {name}", _NAME_BYTES) if name else ""

    def _tenant_key(self, tenant: str) -> bytes:
        return hmac.digest(self._terms_key, tenant.encode(errors="surrogatepass"), hashlib.sha256)

    def _hashed_row(self, tenant: str, terms: str) -> str:
        # Their order would tell the text. As many as fit are kept from its beginning, as the analyser does.
        width = len(next(iter(self._hashed(tenant, "x")))) + 1
        return " ".join(sorted(self._hashed(tenant, terms)[: TEXT_BYTES // width]))

    def _hashed(self, tenant: str, terms: str) -> list[str]:
        key = self._tenant_key(tenant)
        # A text repeats its terms.
        by_term: dict[str, str] = {}
        return [by_term.get(term) or by_term.setdefault(term, _hash(key, term, _TERM_BYTES)) for term in terms.split()]

    async def _secrets(self, envelopes: Iterable[bytes]) -> Mapping[bytes, bytes]:
        names = {key_name(envelope) for envelope in envelopes}
        return await self._keys.for_reading(names) if names else {}


def _hash(key: bytes, text: str, size: int) -> str:
    # Terms have no space in them: a name hashes to none of them.
    digest = hmac.digest(key, text.encode(errors="surrogatepass"), hashlib.sha256)
    return urlsafe_b64encode(digest[:size]).decode("ascii").rstrip("=")


def _sealed(text: str, key: DataKey, place: bytes, *, compress: bool = True) -> str:
    return to_text(seal(text.encode(), key, place, compress=compress))


def _place(kind: str, row: Row, key: str, column: str) -> bytes:
    """Return the associated data: the root id is a hash of tenant and document."""
    return place_of(kind, row["root_id"], row[key], column)
