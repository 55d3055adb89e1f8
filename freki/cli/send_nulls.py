"""Null values after superseded content that compaction keeps, because its document has another partition by now."""

from collections.abc import Collection, Iterator, Mapping

from freki.cli.bars import bars
from freki.cli.stream_state import Stream, Version, read_stream
from freki.infra.settings import Settings
from freki.operators.identify import root_id
from freki.operators.reconcile import Expected
from freki.schemas.names import document_of_key
from freki.streams.messages import VERSION_HEADER, Outgoing, Stored
from freki.streams.wire.connect import open_outbox

_LOWEST = 1
"""Version of a null value that deletes nothing of a document with a higher one; without any it would delete all."""


async def send_nulls(
    settings: Settings, names: Collection[str], *, rejected: Collection[Version]
) -> Mapping[str, Collection[int]]:
    """Send null values after superseded content of documents; return in which partitions, by name.

    rejected: versions that do not count, because no index has them.
    """
    with bars() as progress:
        stream = await read_stream(settings, progress, rejected=rejected, watched=frozenset(names))
    nulls = {name: list(superseding_nulls(stream, name)) for name in names}
    async with open_outbox(settings) as (outbox, _):
        await outbox.send(*(null for some in nulls.values() for null in some))
    return {name: [null.partition for null in some if null.partition is not None] for name, some in nulls.items()}


def superseding_nulls(stream: Stream, name: str) -> Iterator[Outgoing]:
    """Yield a null value for each partition with superseded content of a watched document; it deletes nothing else."""
    named, contents = document_of_key(name.encode()), stream.contents.get(name, {})
    expected = None if named is None else stream.expected.get(root_id(*named))
    if expected is None:
        return
    stays = None if expected.deleted else _standing(expected, contents)
    for partition, (stored, version) in sorted(contents.items()):
        if expected.deleted and version is not None:
            below = max(version, _LOWEST)
        elif version is not None and _is_superseded(stored, version, expected, stays):
            below = _LOWEST
        else:
            continue
        headers = ((VERSION_HEADER, str(below).encode()),)
        yield Outgoing(topic=stored.topic, key=stored.key, value=None, headers=headers, partition=partition)


def _standing(expected: Expected, contents: Mapping[int, tuple[Stored, int | None]]) -> Stored | None:
    """Return the record of the current version, the latest if it was sent again; None: there is none."""
    those = [stored for stored, version in contents.values() if version == expected.version]
    return max(those, key=lambda stored: (stored.timestamp_ms, stored.partition), default=None)


def _is_superseded(stored: Stored, version: int, expected: Expected, stays: Stored | None) -> bool:
    """Return whether the current version stands elsewhere, and a null value can be below it."""
    if expected.version <= _LOWEST or stored is stays:
        return False
    # Of two contents with one version nobody can tell which one the index has.
    is_again = stays is not None and version == expected.version and stored.value == stays.value
    return version < expected.version or is_again
