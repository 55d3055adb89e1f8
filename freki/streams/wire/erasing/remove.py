"""Removal of content that was found on topics and in claims."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from freki.infra.claims import ClaimStore
from freki.infra.kafka import Reader
from freki.infra.kafka.admin import Admin
from freki.infra.local.scrub import request_scrub, store_file
from freki.infra.local.state import read_stack
from freki.infra.settings import Settings
from freki.schemas.errors import Rejected
from freki.schemas.findings import Findings, LastRecord, Removal
from freki.streams.deliver.dead_letters import settled_by
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import VERSION_HEADER, Outgoing, Stored
from freki.streams.ports.erasure import StillFree
from freki.streams.topics import DAY_MS
from freki.streams.wire.erasing.consumers import Consumers
from freki.streams.wire.from_settings import topics_of, wall_clock

_CLEANER_MS = 60 * 60 * 1000
"""Margin for what the broker does in the background: it looks for old segments every five minutes."""
_ENDLESS_MS = 1_000 * 365 * DAY_MS
"""Kafka says -1, or the largest number, where something never happens."""
_IN_MEMORY = "the broker stops: it neither compacts topics nor deletes records, and keeps them in memory only"
_UNCERTAIN = (
    "their document is erased, or rectified again once all its changes can be decoded: nobody can tell whether the "
    "last one in this partition is older than the corrected version, which came to another; one with the key of "
    "another document, which a null value would delete: a later record of that key comes"
)
Where = Mapping[str, Any]


class Remover:
    """Removes what was found; each step looks first which documents are still free."""

    def __init__(self, settings: Settings, outbox: Outbox, consumers: Consumers) -> None:
        self._settings = settings
        self._outbox = outbox
        self._consumers = consumers
        self._topics = topics_of(settings)

    async def remove(self, found: Findings, *, still_free: StillFree, superseded: bool = False) -> Removal:
        """Remove claims, then records; superseded: a newer version stays on the topic of documents."""
        claims = await self.remove_claims(found, still_free)
        free = frozenset(await still_free())
        await self._outbox.send(*(null for last in found.lasts if last.document_id in free for null in nulls_of(last)))
        records = await self._records(found, still_free, superseded=superseded)
        return Removal(
            removed=[*claims.removed, *records.removed],
            remains=[*claims.remains, *records.remains, _files_of_store(self._settings)],
        )

    async def remove_claims(self, found: Findings, still_free: StillFree) -> Removal:
        """Remove claims; one that may not be removed remains. Raises Unavailable."""
        store, removed, remains = ClaimStore(self._settings.claims), list[Where](), list[Where]()
        for uri, documents in sorted(found.claimed.items()):
            if uri in found.shared:
                until = "the other documents, or versions, with the same content are erased"
                remains.append({"claim": uri, "until": until})
            elif not store.owns(uri):
                remains.append(
                    {"claim": uri, "until": "its producer removes it: it is outside FREKI_CLAIMS__DIRECTORY"}
                )
            elif not documents <= frozenset(await still_free()):
                remains.append({"claim": uri, "until": "the hold on its documents ends"})
            else:
                try:
                    if await store.remove(uri):
                        removed.append({"claim": uri, "at": wall_clock()})
                    else:
                        remains.append({"claim": uri, "until": "it turns up: nothing is at this address"})
                except Rejected as error:
                    remains.append({"claim": uri, "until": f"the account of this worker may remove it: {error}"})
        return Removal(removed=removed, remains=remains)

    async def _records(self, found: Findings, still_free: StillFree, *, superseded: bool) -> Removal:
        removed, remains = list[Where](), list[Where]()
        compacted = {self._topics.documents.name, self._topics.judgements.name}
        uncertain = {(last.topic, last.partition, last.offset) for last in found.lasts if last.version is None}
        # The local broker keeps records in memory, drops the connection of who deletes some, and does not compact.
        can_delete = self._settings.kafka.profile != "local"
        async with Admin(self._settings.kafka) as admin:
            configs = {
                each.name: each.config for each in await admin.describe(sorted({topic for topic, _ in found.records}))
            }
            for (topic, partition), every in sorted(found.records.items()):
                free = frozenset(await still_free())
                records = [(offset, documents) for offset, documents in every if documents & free]
                if not records:
                    continue
                place = {"topic": topic, "partition": partition, "records": len(records)}
                last = max(offset for offset, _ in records)
                if not can_delete:
                    remains.append({**place, "until": _IN_MEMORY, "until_ms": None})
                elif topic in compacted:
                    by = "the newer version or a null value" if superseded else "the null value"
                    if kept := sum((topic, partition, offset) in uncertain for offset, _ in records):
                        remains.append({**place, "records": kept, "until": _UNCERTAIN, "until_ms": None})
                    if goes := len(records) - kept:
                        until = time_on_disk(configs[topic], f"compaction after {by}")
                        remains.append({**place, "records": goes, **until})
                elif await self._consumers.behind(topic, {partition: last}):
                    remains.append({**place, **time_on_disk(configs[topic], "its consumers have not read it")})
                else:
                    if topic == self._topics.dead_letters.name:
                        erased = {offset for offset, documents in records if documents <= free}
                        await self._rewrite_letters(partition, last, erased)
                    await admin.delete_records(topic, {partition: last + 1})
                    removed.append({**place, "at": wall_clock()})
                    how = "deleted for readers; segments on the broker's disk"
                    remains.append({**place, **time_on_disk(configs[topic], how)})
        return Removal(removed=removed, remains=remains)

    async def _rewrite_letters(self, partition: int, last: int, erased: Collection[int]) -> None:
        """Send the other dead letters of a partition again, so that the records up to the last of ours may go.

        If this is interrupted, a letter is there twice.
        """
        async with Reader(self._settings.kafka, self._topics.dead_letters.name, start="earliest") as reader:
            records = [record async for record in reader.until_end()]
        topic = self._topics.dead_letters.name
        await self._outbox.send(
            *(
                Outgoing(topic=topic, key=each.key, value=each.value, headers=each.headers)
                for each in sent_again(records, partition, last, erased)
            )
        )


def nulls_of(last: LastRecord) -> Iterator[Outgoing]:
    """Yield the null value by which compaction removes a record, in its partition; none where it may be newer.

    The key may be another partition's by now: partitions were added, or its producer had another partitioner.
    """
    if last.version is not None:
        headers = ((VERSION_HEADER, str(last.version).encode()),) if last.version else ()
        yield Outgoing(topic=last.topic, key=last.key, value=None, headers=headers, partition=last.partition)


def sent_again(records: Sequence[Stored], partition: int, last: int, erased: Collection[int]) -> list[Stored]:
    """Return the records of a partition up to an offset that still say something once all up to there are gone.

    That is: letters that are neither erased nor settled, and notes that letters elsewhere were settled.
    """
    notes = [found[0] if (found := settled_by(record)) is not None else None for record in records]
    settled = set(notes)
    return [
        record
        for record, note in zip(records, notes, strict=True)
        if record.partition == partition
        and record.offset <= last
        and record.offset not in erased
        and (record.partition, record.offset) not in settled
        and (note is None or note[0] != partition or note[1] > last)
    ]


def _files_of_store(settings: Settings) -> Where:
    """Return until when deleted rows remain in files of the store; the local one is told to drop them."""
    until = "the store compacts its segments and collects what they leave, by its own settings"
    stack = read_stack(settings.local.state_dir.expanduser().absolute())
    if stack is not None and stack.milvus_uri == settings.milvus.uri and request_scrub(store_file(stack.directory)):
        until = "the local stack is started again, which rewrites the file of its store"
    return {"store": settings.milvus.uri, "until": until, "until_ms": None}


def time_on_disk(config: Mapping[str, str], how: str) -> dict[str, Any]:
    """Return the time by which the broker has removed a record from its disk; none if its topic sets no such time.

    A segment closes at the first record after `segment.ms`; without one, retention closes it.
    """
    limit, days = "retention.ms", 7
    if config.get("cleanup.policy") == "compact":
        limit, days = "max.compaction.lag.ms", 1
        how += ", if a later record comes to this partition after segment.ms"
    waits = {"segment.ms": int(config.get("segment.ms", 7 * DAY_MS)), limit: int(config.get(limit, days * DAY_MS))}
    if endless := [name for name, wait in waits.items() if not 0 <= wait < _ENDLESS_MS]:
        return {"until": f"{how}; by no certain time, as {endless[0]} of the topic sets none", "until_ms": None}
    return {"until": how, "until_ms": wall_clock() + sum(waits.values()) + _CLEANER_MS}
