"""The topics of Freki, declared in one place. `freki topics apply` creates them; nothing else does."""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from freki.schemas import (
    ChunkBatch,
    ContextQuery,
    ContextResult,
    ContextualChunkBatch,
    DocumentChange,
    IndexOutcome,
    Judgement,
)
from freki.schemas.names import record
from freki.streams.deliver.lanes import Lane, in_lane

FIRST_GENERATION = "g1"
DAY_MS = 24 * 60 * 60 * 1000
WORK_MS = 7 * DAY_MS
"""What can be made again from `documents`: long enough to look into last week's trouble."""
_RECEIPT_MS = 30 * DAY_MS
"""What a person may want to look up, or send again."""
_CONVERSATION_MS = DAY_MS
"""Questions and answers may hold personal data, and nobody waits for one for a day."""
TOMBSTONE_MS = 7 * DAY_MS
"""How long a reader that starts at the beginning has for seeing all deletions."""
_SHARED = frozenset({"documents", "judgements", "sources"})
_DEAD_LETTER_MARGIN_BYTES = 32 * 1024
"""Room for the headers that say why, around a record of the largest size."""


@record
class Topic:
    """A topic as it should be."""

    name: str
    partitions: int
    replication: int
    cleanup: Literal["compact", "delete"]
    retention_ms: int
    """Age at which a record, or with `compact` a tombstone, may go."""
    max_message_bytes: int
    holds: type[object] | None
    """The record of its values; None: bytes of any topic, or JSON that only the source reads that wrote it."""

    @property
    def config(self) -> Mapping[str, str]:
        """Topic settings by Kafka's names."""
        retention = "delete.retention.ms" if self.cleanup == "compact" else "retention.ms"
        return {
            "cleanup.policy": self.cleanup,
            # A bare tombstone outdates what was recorded before it: by the broker's clock, not by those of producers.
            "message.timestamp.type": "LogAppendTime",
            retention: str(self.retention_ms),
            "max.message.bytes": str(self.max_message_bytes),
            # A record counts as stored once most replicas have it: the loss of one broker loses none.
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
    judgements: Topic
    dead_letters: Topic
    sources: Topic

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
    ) -> Self:
        """Name and size the topics.

        All generations of the index read the same documents, and sources publish them once for all; each further one
        has the other topics for itself, so that it can be filled beside the one that serves.
        """
        own = "" if generation == FIRST_GENERATION else f".{generation}"

        def topic(
            what: str,
            holds: type[object] | None,
            retention_ms: int,
            *,
            cleanup: Literal["compact", "delete"] = "delete",
            margin_bytes: int = 0,
        ) -> Topic:
            return Topic(
                name=f"{prefix}.{what}.v{version}" + ("" if what in _SHARED else own),
                partitions=partitions,
                replication=replication,
                cleanup=cleanup,
                retention_ms=retention_ms,
                max_message_bytes=max_message_bytes + margin_bytes,
                holds=holds,
            )

        def lanes(what: str, holds: type[object]) -> dict[Lane, Topic]:
            return {lane: topic(in_lane(what, lane), holds, WORK_MS) for lane in Lane}

        return cls(
            documents=topic("documents", DocumentChange, TOMBSTONE_MS, cleanup="compact"),
            chunks=lanes("chunks", ChunkBatch),
            contextual_chunks=lanes("contextual-chunks", ContextualChunkBatch),
            outcomes=topic("outcomes", IndexOutcome, _RECEIPT_MS),
            queries=topic("queries", ContextQuery, _CONVERSATION_MS),
            contexts=topic("contexts", ContextResult, _CONVERSATION_MS),
            judgements=topic("judgements", Judgement, TOMBSTONE_MS, cleanup="compact"),
            dead_letters=topic("dead-letters", None, _RECEIPT_MS, margin_bytes=_DEAD_LETTER_MARGIN_BYTES),
            sources=topic("sources", None, TOMBSTONE_MS, cleanup="compact"),
        )

    def __iter__(self) -> Iterator[Topic]:
        yield self.documents
        yield from self.chunks.values()
        yield from self.contextual_chunks.values()
        yield self.outcomes
        yield self.queries
        yield self.contexts
        yield self.judgements
        yield self.dead_letters
        yield self.sources
