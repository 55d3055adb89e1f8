"""What users thought of answers, as far as it moves later ones. The topic of judgements has it, and nothing else."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from freki.operators.identify import root_id
from freki.operators.weigh_judgements import Weighed, likeness, weigh_judgements
from freki.schemas import DocumentId, Judgement, TenantId, Timestamp
from freki.schemas.arrays import Floats
from freki.schemas.names import record
from freki.streams.ports import Embedder

DAY_MS = 86_400_000
WORN_HALF_LIVES = 10
"""After so many, less than a thousandth is left."""
QUESTION_CHARACTERS = 2_000
EMBEDDED_TOGETHER = 16


@record
class JudgementBounds:
    """How much is remembered, and for how long."""

    most: int
    """Judgements of all tenants."""
    most_of_judge: int
    """Of one judge of a tenant, the latest."""
    half_life_days: float
    least_cosine: float
    """Questions that are less alike have nothing to say to each other."""


@dataclass(slots=True)
class _Entry:
    judgement: Judgement
    vector: Floats | None = None


class _Tenant:
    """The judgements of a tenant, oldest arrival first."""

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
        """Give those whose question has a vector; (judgements, dim)."""
        if self._matrix is None:
            ready = [(entry.judgement, entry.vector) for entry in self.entries.values() if entry.vector is not None]
            self._matrix = [judgement for judgement, _ in ready], np.array([vector for _, vector in ready], np.float32)
        return self._matrix


class Judgements:
    """Bounded in number, by judge and in all; verdicts fade. One tenant's never reach another."""

    def __init__(self, embedder: Embedder, bounds: JudgementBounds) -> None:
        self._embedder = embedder
        self._bounds = bounds
        self._tenants: dict[TenantId, _Tenant] = {}
        self._pending: OrderedDict[tuple[TenantId, bytes], None] = OrderedDict()
        self._before: dict[bytes, _Entry] = {}
        """From before the topic was read anew, for their vectors alone."""

    def __len__(self) -> int:
        return sum(len(tenant.entries) for tenant in self._tenants.values())

    def read_anew(self) -> list[TenantId]:
        """Forget all, since the topic comes again from its beginning; give the tenants whose judgements these were.

        What was erased while nobody read, and is no longer on the topic, would stay otherwise.
        """
        tenants = list(self._tenants)
        self._before = {key: entry for tenant in self._tenants.values() for key, entry in tenant.entries.items()}
        self._tenants.clear()
        self._pending.clear()
        return tenants

    def take(self, key: bytes, judgement: Judgement | None, *, now: Timestamp) -> None:
        """Take a record of the topic: the last one of a key counts, and null erases it."""
        tenant_id = TenantId(key_parts(key)[0]) if judgement is None else judgement.tenant
        self._drop(tenant_id, key)
        before = self._before.pop(key, None)
        if judgement is None or self._age(judgement, now) > WORN_HALF_LIVES:
            return
        tenant = self._tenants.setdefault(tenant_id, _Tenant())
        entry = before if before is not None and before.judgement == judgement else _Entry(judgement)
        tenant.put(key, entry)
        if entry.vector is None:
            self._pending[tenant_id, key] = None
        own = tenant.by_judge[judgement.judge]
        if len(own) > self._bounds.most_of_judge:
            self._drop(tenant_id, next(iter(own)))
        if len(self) > self._bounds.most:
            # Of the tenant that has most, so that none can push out another's.
            largest = max(self._tenants, key=lambda each: (len(self._tenants[each].entries), each))
            self._drop(largest, next(iter(self._tenants[largest].entries)))

    def of_document(self, tenant_id: TenantId, document_id: DocumentId) -> list[bytes]:
        """Name the keys of what was said of a document."""
        tenant = self._tenants.get(tenant_id)
        entries = tenant.entries.items() if tenant else ()
        return [key for key, entry in entries if entry.judgement.document_id == document_id]

    async def embed_some(self) -> bool:
        """Give some questions their vectors; tell whether others wait."""
        some = [place for place, _ in zip(list(self._pending), range(EMBEDDED_TOGETHER), strict=False)]
        entries = [self._tenants[tenant_id].entries[key] for tenant_id, key in some]
        if entries:
            texts = [entry.judgement.question[:QUESTION_CHARACTERS] for entry in entries]
            vectors = await self._embedder.embed_queries(texts)
            for place, entry, vector in zip(some, entries, vectors, strict=True):
                # Meanwhile it may have been erased, or judged anew.
                entry.vector = vector / np.linalg.norm(vector)
                tenant = self._tenants.get(place[0])
                if tenant is not None and tenant.entries.get(place[1]) is entry:
                    self._pending.pop(place, None)
                    tenant.stale()
        return bool(self._pending)

    def boosts(self, tenant_id: TenantId, question: Floats, *, now: Timestamp) -> Mapping[str, float]:
        """Give a number in -1..1 for each document (by root) and chunk that alike questions have verdicts on.

        question: its vector, (dim,).
        """
        tenant = self._tenants.get(tenant_id)
        judgements, vectors = tenant.matrix() if tenant else ([], None)
        if vectors is None or not judgements:
            return {}
        least = self._bounds.least_cosine
        # With several embedders a question has a part of length 1 for each.
        cosines = vectors @ (question / np.linalg.norm(question))
        return weigh_judgements(
            Weighed(
                judge=judgements[place].judge,
                target=target_of(judgements[place]),
                verdict=judgements[place].verdict,
                likeness=likeness(float(cosines[place]), least=least),
                age=self._age(judgements[place], now),
            )
            for place in np.flatnonzero(cosines > least)
        )

    def _age(self, judgement: Judgement, now: Timestamp) -> float:
        """In half-lives; what claims to be of the future is of now."""
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
    """Name what is judged as the store does."""
    return judgement.chunk_id or root_id(judgement.tenant, judgement.document_id)


def judgement_key(judgement: Judgement) -> bytes:
    """Give a judgement's record its key."""
    parts = [judgement.tenant, judgement.judge, judgement.query_id, judgement.document_id]
    return json.dumps(parts, ensure_ascii=False).encode()


def key_parts(key: bytes) -> Sequence[str]:
    """Give tenant, judge, query id and document id. Raises ValueError where a key is not of this form."""
    parts = json.loads(key)
    if not (isinstance(parts, list) and len(parts) == 4 and all(isinstance(part, str) for part in parts)):  # noqa: PLR2004
        raise ValueError("the key of a judgement is a JSON array of tenant, judge, query_id and document_id")
    return parts


def keyed(key: bytes, judgement: Judgement) -> Judgement:
    """Give the judgement. Raises ValueError where its record has the key of another one."""
    if key_parts(key) != key_parts(judgement_key(judgement)):
        raise ValueError("the key does not name tenant, judge, query_id and document_id of the value")
    return judgement
