"""Ledger of published items, kept on a topic, from which a source continues after a restart on any machine.

It is on the broker, like the documents: if a local broker loses both, the source publishes everything again.
"""

import json
from collections.abc import AsyncIterable, Iterator, Mapping
from typing import Generic, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from freki.streams.deliver.key_order import KeyOrder
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Outgoing, Stored

T = TypeVar("T")

ITSELF = ""
"""Key of the entry about the source as a whole."""


class SourceLedger(Generic[T]):
    """Entries of one source, one per item, such as a path or a URL.

    A source writes a pending entry, publishes, and writes the final entry: after a crash in between, the item is
    published again, or deleted if it is gone.
    """

    def __init__(self, source: str, kind: type[T], *, topic: str, outbox: Outbox) -> None:
        self._source = source
        self._adapter = TypeAdapter(kind)
        self._topic = topic
        self._outbox = outbox
        self._entries: dict[str, T] = {}

    async def read(self, records: AsyncIterable[Stored]) -> Self:
        """Load the entries of this source from records; ignore entries of another format."""
        order = KeyOrder()
        async for stored in records:
            item = self._item(stored.key)
            if item is None or order.is_outdated(stored):
                continue
            self._entries.pop(item, None)
            if stored.value is not None:
                try:
                    self._entries[item] = self._adapter.validate_json(stored.value)
                except ValidationError:
                    continue
        return self

    def __getitem__(self, item: str) -> T | None:
        return self._entries.get(item)

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter([(item, entry) for item, entry in self._entries.items() if item != ITSELF])

    async def write(self, entries: Mapping[str, T | None]) -> None:
        """Set entries, and delete those that are None; return when the broker has stored them."""
        await self._outbox.send(*(self._record(item, entry) for item, entry in entries.items()))
        for item, entry in entries.items():
            if entry is None:
                self._entries.pop(item, None)
            else:
                self._entries[item] = entry

    def _record(self, item: str, entry: T | None) -> Outgoing:
        key = json.dumps([self._source, item]).encode()
        return Outgoing(topic=self._topic, key=key, value=None if entry is None else self._adapter.dump_json(entry))

    def _item(self, key: bytes | None) -> str | None:
        try:
            source, item = json.loads(key or b"")
        except (ValueError, TypeError, RecursionError):
            return None
        return item if source == self._source else None
