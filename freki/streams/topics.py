"""Declaration of all topics. Only `freki topics apply` creates them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal, Self

from freki.schemas import (
    AuditEntry,
    ChunkBatch,
    ContextQuery,
    ContextResult,
    ContextualChunkBatch,
    DocumentChange,
    DocumentQuery,
    DocumentReport,
    ErasureReport,
    ErasureRequest,
    GroupMembership,
    Hold,
    IndexOutcome,
    Judgement,
    Objection,
)
from freki.schemas.names import record
from freki.streams.deliver.lanes import Lane, in_lane

FIRST_GENERATION = "g1"
DAY_MS = 24 * 60 * 60 * 1000
"""One day, in milliseconds."""
WORK_MS = 7 * DAY_MS
"""Retention of intermediate topics, in milliseconds: they can be rebuilt from `documents`, a week helps to debug."""
_RECEIPT_MS = 30 * DAY_MS
"""Retention of receipts and dead letters, in milliseconds, for inspection and replay."""
_QUERY_MS = DAY_MS
"""Retention of queries and results, in milliseconds: they may hold personal data, and no client waits for a day."""
AUDIT_MS = 365 * DAY_MS
"""Retention of the audit log unless the settings say otherwise, in milliseconds."""
USAGE_MS = 2 * DAY_MS
"""Retention of what was let through by limits, in milliseconds: the day that counts, and what is under way."""
TOMBSTONE_MS = 7 * DAY_MS
"""Retention of tombstones, in milliseconds: the time in which a reader from the beginning sees all deletions."""
_SHARED = frozenset(
    {
        "documents",
        "queries",
        "contexts",
        "document-queries",
        "document-reports",
        "judgements",
        "groups",
        "holds",
        "objections",
        "erasure-requests",
        "erasure-reports",
        "audit",
        "dead-letters",
        "sources",
    }
)
"""Topics shared by all generations."""
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DEAD_LETTER_MARGIN_BYTES = 32 * 1024
"""Space for the error headers of a dead letter beside a record of the maximum size, in bytes."""


@record
class Topic:
    """Name, size and retention of a topic."""

    name: str
    partitions: int
    replication: int
    cleanup: Literal["compact", "delete"]
    retention_ms: int
    """Minimum age at which Kafka deletes records, or with `compact` tombstones, in milliseconds."""
    max_message_bytes: int
    holds: type[object] | None
    """Record type of the values; None: bytes of any topic, or JSON that is private to its writer."""

    @property
    def config(self) -> Mapping[str, str]:
        """Topic settings by their Kafka names."""
        retention = "delete.retention.ms" if self.cleanup == "compact" else "retention.ms"
        # An erasure names the time by which the last remains are off the disk: segments in use are never cleaned.
        bounds = {"segment.ms": str(DAY_MS)}
        if self.cleanup == "compact":
            bounds["max.compaction.lag.ms"] = str(DAY_MS)
        return {
            "cleanup.policy": self.cleanup,
            **bounds,
            # A bare tombstone outdates what was recorded before it, by the clock of the broker, not of producers.
            "message.timestamp.type": "LogAppendTime",
            retention: str(self.retention_ms),
            "max.message.bytes": str(self.max_message_bytes),
            # A record is acknowledged once most replicas have it, so that losing one broker loses no record.
            "min.insync.replicas": str(self.replication // 2 + 1 if self.replication >= 3 else 1),  # noqa: PLR2004
        }


@record
class Topics:
    """All topics, in the order of the flow."""

    documents: Topic
    chunks: Mapping[Lane, Topic]
    contextual_chunks: Mapping[Lane, Topic]
    outcomes: Topic
    queries: Topic
    contexts: Topic
    document_queries: Topic
    document_reports: Topic
    judgements: Topic
    groups: Topic
    holds: Topic
    objections: Topic
    erasure_requests: Topic
    erasure_reports: Topic
    audit: Topic
    dead_letters: Topic
    sources: Topic
    usage: Topic
    suffix: str
    """End of the names of topics that this generation does not share."""

    @classmethod
    def from_settings(
        cls,
        *,
        prefix: str,
        version: int,
        partitions: int,
        replication: int,
        max_message_bytes: int,
        generation: str = FIRST_GENERATION,
        audit_ms: int = AUDIT_MS,
    ) -> Self:
        """Return the topics of a generation.

        All generations of the index share the topics in `_SHARED`: sources publish documents once, and clients ask
        without knowing which generation answers. Each later generation has its own other topics, so that it can be
        filled while another one serves.
        """
        own = "" if generation == FIRST_GENERATION else f".{generation}"

        def topic(
            base: str,
            holds: type[object] | None,
            retention_ms: int,
            *,
            cleanup: Literal["compact", "delete"] = "delete",
            margin_bytes: int = 0,
        ) -> Topic:
            return Topic(
                name=f"{prefix}.{base}.v{version}" + ("" if base in _SHARED else own),
                partitions=partitions,
                replication=replication,
                cleanup=cleanup,
                retention_ms=retention_ms,
                max_message_bytes=max_message_bytes + margin_bytes,
                holds=holds,
            )

        def lanes(base: str, holds: type[object]) -> dict[Lane, Topic]:
            return {lane: topic(in_lane(base, lane), holds, WORK_MS) for lane in Lane}

        return cls(
            documents=topic("documents", DocumentChange, TOMBSTONE_MS, cleanup="compact"),
            chunks=lanes("chunks", ChunkBatch),
            contextual_chunks=lanes("contextual-chunks", ContextualChunkBatch),
            outcomes=topic("outcomes", IndexOutcome, _RECEIPT_MS),
            queries=topic("queries", ContextQuery, _QUERY_MS),
            contexts=topic("contexts", ContextResult, _QUERY_MS),
            document_queries=topic("document-queries", DocumentQuery, _QUERY_MS),
            document_reports=topic("document-reports", DocumentReport, _QUERY_MS),
            judgements=topic("judgements", Judgement, TOMBSTONE_MS, cleanup="compact"),
            groups=topic("groups", GroupMembership, TOMBSTONE_MS, cleanup="compact"),
            holds=topic("holds", Hold, TOMBSTONE_MS, cleanup="compact"),
            objections=topic("objections", Objection, TOMBSTONE_MS, cleanup="compact"),
            erasure_requests=topic("erasure-requests", ErasureRequest, _RECEIPT_MS),
            # The proof of an erasure stays: the last report of each request.
            erasure_reports=topic("erasure-reports", ErasureReport, TOMBSTONE_MS, cleanup="compact"),
            audit=topic("audit", AuditEntry, audit_ms),
            dead_letters=topic("dead-letters", None, _RECEIPT_MS, margin_bytes=_DEAD_LETTER_MARGIN_BYTES),
            sources=topic("sources", None, TOMBSTONE_MS, cleanup="compact"),
            usage=topic("usage", None, USAGE_MS),
            suffix=own,
        )

    def reply_topic(self, template: str, tenant: str) -> str | None:
        """Return the topic of the answers to a tenant; None if no topic can have that name, or it is for others.

        template: its name with `{tenant}`. A tenant cannot be named so that answers go to topics of Freki or Kafka.
        """
        name = template.replace("{tenant}", tenant)
        is_legal = _LEGAL_NAME.fullmatch(name) and _LEGAL_NAME.fullmatch(tenant) and not name.startswith("__")
        return name if is_legal and not self.is_own(name) else None

    def is_own(self, name: str) -> bool:
        """Return whether a topic is Freki's, in this or another generation."""
        stems = [each.name.removesuffix(self.suffix) for each in self.own]
        return name in {*stems, *(each.name for each in self)} or name.startswith(tuple(f"{stem}." for stem in stems))

    def answers_to(self, template: str, tenant: str) -> Topic | None:
        """Return the topic of the answers to a tenant, of the size of `contexts`; None as for `reply_topic`."""
        name = self.reply_topic(template, tenant)
        return None if name is None else replace(self.contexts, name=name)

    @property
    def own(self) -> list[Topic]:
        """Topics that this generation does not share with others."""
        return [*self.chunks.values(), *self.contextual_chunks.values(), self.outcomes, self.usage]

    def __iter__(self) -> Iterator[Topic]:
        yield self.documents
        yield from self.chunks.values()
        yield from self.contextual_chunks.values()
        yield self.outcomes
        yield self.queries
        yield self.contexts
        yield self.document_queries
        yield self.document_reports
        yield self.judgements
        yield self.groups
        yield self.holds
        yield self.objections
        yield self.erasure_requests
        yield self.erasure_reports
        yield self.audit
        yield self.dead_letters
        yield self.sources
        yield self.usage
