"""Comparison of the index with the stream of changes."""

import asyncio
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from freki.cli.bars import bars
from freki.cli.slow import message_if_slow
from freki.cli.stream_state import Stream, Version, read_stream
from freki.cli.until_passed import until_passed
from freki.client.exchange import decoded
from freki.infra.kafka import Reader
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.operators.reconcile import Difference, RepairAction, reconcile, reconcile_rows
from freki.schemas import IndexOutcome, OutcomeStatus, RootId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.index import CommitId, Root
from freki.schemas.names import document_of_key
from freki.streams.batches import batched
from freki.streams.feed.repeat import UNDECODABLE
from freki.streams.hash_set import HashSet
from freki.streams.ports import DocumentIndex
from freki.streams.wire.connect import open_registry
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.generations import waiting_of

# Documents per read: enough to save calls, few enough for the progress bar to move.
BATCH = 50
INDEXED_S = 30.0
"""Longest wait for what is being indexed, in seconds; then it counts as a difference."""


State = tuple[object, ...]
"""What stream and index hold of a document: once it changes, differences from before say nothing."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing index and stream."""

    stream: Stream
    roots: Mapping[RootId, Root]
    """Of the documents that differ and are in the index."""
    differences: Sequence[Difference]
    live: int = 0
    """Number of documents in the index."""
    deleted: int = 0
    """Number of deletions that the index remembers."""
    lost: int = 0
    """Number of documents that cannot be compared as their changes were deleted from the topic, or went with it."""
    rejected: Collection[Version] = frozenset()
    """Versions on the topic that do not count, because no index has them."""
    is_behind: bool = False
    """Whether stages still had not passed on what waited when the comparison began."""

    @property
    def states(self) -> Mapping[Difference, State]:
        """The differences, each with what stream and index hold of its document."""
        return {each: self._state(each.name) for each in self.differences}

    def _state(self, name: str) -> State:
        named = document_of_key(name.encode())
        if named is None:
            return ()
        key = root_id(*named)
        return self.stream.expected.get(key), self.roots[key].rank if key in self.roots else None


async def compare(settings: Settings, index: MilvusIndex) -> Comparison:
    """Compare again where there are differences, and keep those that last: changes are being indexed meanwhile."""
    first = await _compared(settings, index)
    if not first.differences:
        return first
    before, is_behind = first.states, True
    # What the stream says of all documents is read again, and is not held twice.
    del first
    with suppress(TimeoutError), message_if_slow("waiting for what is being indexed"):
        async with asyncio.timeout(INDEXED_S):
            await until_passed(partial(waiting_of, settings))
            is_behind = False
    again = await _compared(settings, index)
    return replace(again, differences=lasting(before, again), is_behind=is_behind)


def lasting(before: Mapping[Difference, State], again: Comparison) -> list[Difference]:
    """Return the differences that two comparisons have in common, of documents that did not change between them.

    before: those of the first comparison, with their states.
    """
    now = again.states
    return [each for each in again.differences if each in before and before[each] == now[each]]


async def _compared(settings: Settings, index: MilvusIndex) -> Comparison:
    with bars() as progress:
        # Read the index before the topic: everything in it now is on the topic by the time that is read.
        documents, before = 0, HashSet()
        async for roots in batched(index.all_roots(), BATCH):
            documents += len(roots)
            before.update(root.commit_id for root in roots if not root.deleted)
        rejected = await _rejected(settings, index)
        stream = await read_stream(settings, progress, rejected=rejected)
        bar = progress.add_task("documents checked", total=documents)
        found = await compare_with(stream, index, before, partial(progress.advance, bar))
    return replace(found, rejected=rejected)


async def compare_with(
    stream: Stream, index: DocumentIndex, before: Container[CommitId], advance: Callable[[int], None]
) -> Comparison:
    """Compare an index with a stream; of its roots no more are held at a time than are checked together.

    before: the live roots that the index had before the stream was read. A document that the
    stream lacks and that was written since is on its way.
    """
    missing, lost_before = set(stream.expected), stream.lost_before
    scattered = stream.scattered_differences
    differing = {each.name for each in scattered}
    roots: dict[RootId, Root] = {}
    differences: list[Difference] = []
    damaged: list[Difference] = []
    live = deleted = lost = 0
    async for some in batched(index.all_roots(), BATCH):
        rows = await _row_differences(index, some)
        for root in some:
            expected, name = stream.expected.get(root.root_id), f"{root.tenant}/{root.document_id}"
            missing.discard(root.root_id)
            live, deleted = live + (not root.deleted), deleted + root.deleted
            is_lost = expected is None and _is_lost(root, lost_before)
            lost += is_lost
            is_known = expected is not None or (not is_lost and root.commit_id in before)
            problem = reconcile(expected, root) if is_known else None
            differences += [problem] if problem else []
            damaged += rows[root.root_id]
            if problem or rows[root.root_id] or name in differing:
                roots[root.root_id] = root
        advance(len(some))
    absent = (reconcile(stream.expected[key], None) for key in missing)
    differences = sorted([*differences, *(each for each in absent if each)])
    differences = [withhold_deletion(each, stream) for each in differences]
    return Comparison(stream, roots, [*differences, *scattered, *damaged], live=live, deleted=deleted, lost=lost)


async def _row_differences(index: DocumentIndex, roots: Sequence[Root]) -> Mapping[RootId, Sequence[Difference]]:
    stored = await index.pages([page_id for root in roots for page_id in root.pages])
    rows = await index.rows_of([root.root_id for root in roots])
    found: dict[RootId, Sequence[Difference]] = {}
    for root in roots:
        pages = [stored[page_id] for page_id in root.pages if page_id in stored]
        manifest = [entry.row_id for page in pages for entry in page.entries]
        found[root.root_id] = reconcile_rows(root, manifest, len(pages), [row.row_id for row in rows[root.root_id]])
    return found


def withhold_deletion(difference: Difference, stream: Stream) -> Difference:
    """Return a difference without a deletion where the stream may hold the document in a record that nobody decodes."""
    if difference.repair is not RepairAction.DELETE or difference.name not in stream.undecodable:
        return difference
    problem = f"{difference.problem} as far as that can be read: {UNDECODABLE}"
    return Difference(difference.name, problem)


def _is_lost(root: Root, before: Timestamp | None) -> bool:
    """Return whether changes of a document that the stream lacks may be among those that the topic lost before then.

    Compaction loses none.
    """
    return before is not None and not root.deleted and root.recorded_at < before


async def _rejected(settings: Settings, index: MilvusIndex) -> set[Version]:
    """Return the versions whose last receipt is REJECTED, except those that the index holds.

    A version that is indexed may be rejected later, when it is reindexed: it stays.
    """
    rejected: set[Version] = set()
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).outcomes.name, start="earliest", registry=registry) as reader,
    ):
        async for outcome in decoded(reader.until_end(), Codec(IndexOutcome, registry=registry).decode):
            version = outcome.tenant, outcome.document_id, outcome.version
            # Of all receipts only these are kept: the topic has one of each version for weeks.
            if outcome.status is OutcomeStatus.REJECTED:
                rejected.add(version)
            else:
                rejected.discard(version)
    keys = {change: root_id(change[0], change[1]) for change in rejected}
    roots = await index.roots(sorted(set(keys.values()))) if keys else {}
    return {
        change
        for change, key in keys.items()
        if key not in roots or roots[key].deleted or roots[key].version != change[2]
    }
