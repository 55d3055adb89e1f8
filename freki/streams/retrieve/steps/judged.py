"""Judgements of users that move later rankings; the topic of judgements is their only storage."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import structlog

from freki.operators.identify import root_id
from freki.operators.weigh_judgements import WeightedVerdict, likeness, weigh_judgements
from freki.schemas import DocumentId, Judgement, TenantId, Timestamp
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.names import key_of_texts, record, texts_of_key
from freki.streams.ports import Embedder
from freki.streams.topics import DAY_MS

WORN_HALF_LIVES = 10
"""Age in half-lives after which a judgement is ignored: less than a thousandth of its weight is left."""
QUESTION_CHARACTERS = 2_000
"""Maximum characters of a query that are kept and embedded."""
EMBED_BATCH = 16
"""Queries embedded in one call."""

_log = structlog.get_logger(__name__)


@record
class JudgementBounds:
    """Limits of kept judgements."""

    most: int
    """Maximum judgements of all tenants."""
    most_of_judge: int
    """Maximum of one judge of a tenant; the latest are kept."""
    half_life_days: float
    least_cosine: float
    """Minimum cosine of queries whose judgements count for each other."""


@dataclass(slots=True)
class _Entry:
    judgement: Judgement
    vector: Floats | None = None


class _Tenant:
    """Judgements of a tenant, in order of arrival."""

    def __init__(self) -> None:
        self.entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.by_judge: dict[str, OrderedDict[bytes, None]] = {}
        self._matrix: tuple[list[Judgement], Floats] | None = None

    def put(self, key: bytes, entry: _Entry) -> None:
        self.entries[key] = entry
        self.by_judge.setdefault(entry.judgement.judge, OrderedDict())[key] = None
        self._matrix = None

    def drop(self, key: bytes) -> None:
        judge = self.entries.pop(key).judgement.judge
        del self.by_judge[judge][key]
        if not self.by_judge[judge]:
            del self.by_judge[judge]
        self._matrix = None

    def stale(self) -> None:
        self._matrix = None

    def matrix(self) -> tuple[list[Judgement], Floats]:
        """Return the judgements whose query has a vector, and these vectors; (judgements, dim)."""
        if self._matrix is None:
            ready = [(entry.judgement, entry.vector) for entry in self.entries.values() if entry.vector is not None]
            self._matrix = [judgement for judgement, _ in ready], np.array([vector for _, vector in ready], np.float32)
        return self._matrix


class Judgements:
    """Judgements, limited per judge and in all, with weights that fade; tenants never affect each other."""

    def __init__(self, embedder: Embedder, bounds: JudgementBounds) -> None:
        self._embedder = embedder
        self._bounds = bounds
        self._tenants: dict[TenantId, _Tenant] = {}
        self._pending: OrderedDict[tuple[TenantId, bytes], None] = OrderedDict()
        self._before: dict[bytes, _Entry] = {}
        """Entries from before the topic was read again, kept for their vectors."""

    def __len__(self) -> int:
        return sum(len(tenant.entries) for tenant in self._tenants.values())

    def read_anew(self) -> list[TenantId]:
        """Forget all judgements before the topic is read again from its beginning; return their tenants.

        Otherwise judgements would stay that were erased while the topic was not read.
        """
        tenants = list(self._tenants)
        self._before = {key: entry for tenant in self._tenants.values() for key, entry in tenant.entries.items()}
        self._tenants.clear()
        self._pending.clear()
        return tenants

    def take(self, key: bytes, judgement: Judgement | None, *, now: Timestamp) -> None:
        """Take a record of the topic: the last record of a key counts, and null erases."""
        tenant_id = TenantId(key_parts(key)[0]) if judgement is None else judgement.tenant
        self._drop(tenant_id, key)
        before = self._before.pop(key, None)
        if judgement is None or self._age(judgement, now) > WORN_HALF_LIVES:
            return
        judgement = shortened(judgement)
        tenant = self._tenants.setdefault(tenant_id, _Tenant())
        entry = before if before is not None and before.judgement == judgement else _Entry(judgement)
        tenant.put(key, entry)
        if entry.vector is None:
            self._pending[tenant_id, key] = None
        own = tenant.by_judge[judgement.judge]
        if len(own) > self._bounds.most_of_judge:
            self._drop(tenant_id, next(iter(own)))
        if len(self) > self._bounds.most:
            # Of the tenant with the most, so that no tenant can displace the judgements of another.
            largest = max(self._tenants, key=lambda each: (len(self._tenants[each].entries), each))
            self._drop(largest, next(iter(self._tenants[largest].entries)))

    def of_document(self, tenant_id: TenantId, document_id: DocumentId) -> list[bytes]:
        """Return the keys of the judgements on a document."""
        tenant = self._tenants.get(tenant_id)
        entries = tenant.entries.items() if tenant else ()
        return [key for key, entry in entries if entry.judgement.document_id == document_id]

    async def embed_some(self) -> bool:
        """Embed some queries; return whether others wait."""
        some = [place for place, _ in zip(list(self._pending), range(EMBED_BATCH), strict=False)]
        entries = [self._tenants[tenant_id].entries[key] for tenant_id, key in some]
        if entries:
            texts = [entry.judgement.question for entry in entries]
            for place, entry, vector in zip(some, entries, await self._vectors(texts), strict=True):
                # Meanwhile it may have been erased or replaced.
                entry.vector = None if vector is None else vector / np.linalg.norm(vector)
                tenant = self._tenants.get(place[0])
                if tenant is not None and tenant.entries.get(place[1]) is entry:
                    self._pending.pop(place, None)
                    tenant.stale()
        return bool(self._pending)

    async def _vectors(self, texts: Sequence[str]) -> Sequence[Floats | None]:
        """Embed texts; None for one that the embedder refuses, which must not keep others from being embedded."""
        try:
            return list((await self._embedder.embed_queries(texts)).vectors)
        except Misconfigured:
            raise
        except Rejected as error:
            if len(texts) > 1:
                return [vector for text in texts for vector in await self._vectors([text])]
            _log.warning("a judgement does not count: its query cannot be embedded", error=str(error))
            return [None]

    def boosts(self, tenant_id: TenantId, query: Floats, *, now: Timestamp) -> Mapping[str, float]:
        """Return a number in -1..1 for each document (by root) and chunk that was judged on similar queries.

        query: vector of the query, (dim,).
        """
        tenant = self._tenants.get(tenant_id)
        judgements, vectors = tenant.matrix() if tenant else ([], None)
        if vectors is None or not judgements:
            return {}
        least = self._bounds.least_cosine
        # With several embedders, the vector of a query has a part of length 1 for each.
        cosines = vectors @ (query / np.linalg.norm(query))
        return weigh_judgements(
            WeightedVerdict(
                judge=judgements[place].judge,
                target=target_of(judgements[place]),
                verdict=judgements[place].verdict,
                likeness=likeness(float(cosines[place]), least=least),
                age=self._age(judgements[place], now),
            )
            for place in np.flatnonzero(cosines > least)
        )

    def _age(self, judgement: Judgement, now: Timestamp) -> float:
        """Return the age in half-lives; 0 for times in the future."""
        return max(0, now - judgement.at) / (self._bounds.half_life_days * DAY_MS)

    def _drop(self, tenant_id: TenantId, key: bytes) -> None:
        tenant = self._tenants.get(tenant_id)
        if tenant is None or key not in tenant.entries:
            return
        tenant.drop(key)
        self._pending.pop((tenant_id, key), None)
        if not tenant.entries:
            del self._tenants[tenant_id]


def target_of(judgement: Judgement) -> str:
    """Return the chunk or root id of what is judged."""
    return judgement.chunk_id or root_id(judgement.tenant, judgement.document_id)


def shortened(judgement: Judgement) -> Judgement:
    """Return a judgement with as much of its question as counts: each worker that answers keeps all judgements."""
    return replace(judgement, question=judgement.question[:QUESTION_CHARACTERS])


def judgement_key(judgement: Judgement) -> bytes:
    """Return the key of the record of a judgement."""
    return key_of_texts(judgement.tenant, judgement.judge, judgement.query_id, judgement.document_id)


def key_parts(key: bytes) -> Sequence[str]:
    """Return tenant, judge, query id and document id. Raises ValueError for a key of another form."""
    return texts_of_key(key, "tenant", "judge", "query_id", "document_id")


def keyed(key: bytes, judgement: Judgement) -> Judgement:
    """Return the judgement. Raises ValueError if its record has the key of another one."""
    if key_parts(key) != key_parts(judgement_key(judgement)):
        raise ValueError("the key does not name tenant, judge, query_id and document_id of the value")
    return judgement
