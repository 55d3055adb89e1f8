"""Comparison of the index with the stream of changes."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from rich.progress import Progress

from freki.cli.bars import bars
from freki.cli.slow import told_if_slow
from freki.cli.stream_state import Stream, Version, read_stream
from freki.cli.until_passed import until_passed
from freki.client.exchange import decoded
from freki.infra.kafka import Reader
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.operators.reconcile import Difference, RepairAction, reconcile, reconcile_rows
from freki.schemas import IndexOutcome, OutcomeStatus, RootId
from freki.schemas.avro import Codec
from freki.schemas.index import Root
from freki.schemas.names import document_of_key
from freki.streams.feed.repeat import UNDECODABLE
from freki.streams.wire.connect import open_registry
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.generations import waiting_of

# Documents per read: enough to save calls, few enough for the progress bar to move.
BATCH = 50
INDEXED_S = 30.0
"""Longest wait for what is being indexed, in seconds; then it counts as a difference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing index and stream."""

    stream: Stream
    roots: Mapping[RootId, Root]
    differences: Sequence[Difference]
    lost: Sequence[Root]
    """Documents that cannot be compared because their changes were deleted from the topic, or went with it."""
    rejected: Collection[Version] = frozenset()
    """Versions on the topic that do not count, because no index has them."""
    is_behind: bool = False
    """Whether stages still had not passed on what waited when the comparison began."""

    def state(self, name: str) -> tuple[object, ...]:
        """Return what stream and index hold of a document: once it changes, differences from before say nothing."""
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
    is_behind = True
    with suppress(TimeoutError), told_if_slow("waiting for what is being indexed"):
        async with asyncio.timeout(INDEXED_S):
            await until_passed(partial(waiting_of, settings))
            is_behind = False
    again = await _compared(settings, index)
    return replace(again, differences=lasting(first, again), is_behind=is_behind)


def lasting(first: Comparison, again: Comparison) -> list[Difference]:
    """Return the differences that two comparisons have in common, of documents that did not change between them."""
    before = set(first.differences)
    return [each for each in again.differences if each in before and first.state(each.name) == again.state(each.name)]


async def _compared(settings: Settings, index: MilvusIndex) -> Comparison:
    with bars() as progress:
        # Read the index before the topic: everything in it now is on the topic by the time that is read.
        before = {root.root_id: root.rank async for root in index.all_roots() if not root.deleted}
        rejected = await _rejected(settings, index)
        stream = await read_stream(settings, progress, rejected=rejected)
        roots = {root.root_id: root async for root in index.all_roots()}
        lost = _lost(stream, roots.values())
        unknown = {root.root_id for root in lost} | {
            key for key in roots if key not in stream.expected and before.get(key) != roots[key].rank
        }
        differences = reconcile(stream.expected, [root for key, root in roots.items() if key not in unknown])
        differences = [withhold_deletion(each, stream) for each in differences]
        differences += stream.scattered_differences
        differences += await _row_differences(index, list(roots.values()), progress)
    return Comparison(stream, roots, differences, lost, rejected)


async def _row_differences(index: MilvusIndex, roots: Sequence[Root], progress: Progress) -> list[Difference]:
    differences = []
    bar = progress.add_task("documents checked", total=len(roots))
    for some in (roots[at : at + BATCH] for at in range(0, len(roots), BATCH)):
        stored = await index.pages([page_id for root in some for page_id in root.pages])
        rows = await index.rows_of([root.root_id for root in some])
        for root in some:
            pages = [stored[page_id] for page_id in root.pages if page_id in stored]
            manifest = [entry.row_id for page in pages for entry in page.entries]
            differences += reconcile_rows(root, manifest, len(pages), [row.row_id for row in rows[root.root_id]])
        progress.advance(bar, len(some))
    return differences


def withhold_deletion(difference: Difference, stream: Stream) -> Difference:
    """Return a difference without a deletion where the stream may hold the document in a record that nobody decodes."""
    if difference.repair is not RepairAction.DELETE or difference.name not in stream.undecodable:
        return difference
    problem = f"{difference.problem} as far as that can be read: {UNDECODABLE}"
    return Difference(difference.name, problem)


def _lost(stream: Stream, roots: Collection[Root]) -> list[Root]:
    """Return the live documents whose changes may be among those that the topic lost; compaction loses none."""
    before = stream.lost_before
    if before is None:
        return []
    return [
        root for root in roots if not root.deleted and root.root_id not in stream.expected and root.recorded_at < before
    ]


async def _rejected(settings: Settings, index: MilvusIndex) -> set[Version]:
    """Return the versions whose last receipt is REJECTED, except those that the index holds.

    A version that is indexed may be rejected later, when it is reindexed: it stays.
    """
    last: dict[Version, OutcomeStatus] = {}
    async with (
        open_registry(settings) as registry,
        Reader(settings.kafka, topics_of(settings).outcomes.name, start="earliest", registry=registry) as reader,
    ):
        async for outcome in decoded(reader.until_end(), Codec(IndexOutcome, registry=registry).decode):
            last[outcome.tenant, outcome.document_id, outcome.version] = outcome.status
    rejected = {change for change, status in last.items() if status is OutcomeStatus.REJECTED}
    keys = {change: root_id(change[0], change[1]) for change in rejected}
    roots = await index.roots(sorted(set(keys.values()))) if keys else {}
    return {
        change
        for change, key in keys.items()
        if key not in roots or roots[key].deleted or roots[key].version != change[2]
    }
