"""What a source has published, kept on a topic: it goes on from there after a restart, on any machine.

On the broker and not in a file, because what was published is there too: where a local broker forgets the documents,
it forgets what the sources know of them, and they publish again.
"""

import json
from collections.abc import AsyncIterable, Iterator, Mapping
from typing import Generic, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Outgoing, Stored

T = TypeVar("T")

ITSELF = ""
"""The item under which a source keeps how far it is as a whole."""


class SourceLedger(Generic[T]):
    """The entries of one source, one for each item, such as a path or an address.

    A source writes what it is about to publish, publishes, and writes that it did: a change that a crash cut in two is
    published again, or taken back, whatever has become of its item meanwhile.
    """

    def __init__(self, source: str, kind: type[T], *, topic: str, outbox: Outbox) -> None:
        self._source = source
        self._form = TypeAdapter(kind)
        self._topic = topic
        self._outbox = outbox
        self._entries: dict[str, T] = {}

    async def read(self, records: AsyncIterable[Stored]) -> Self:
        """Take over what was written; entries of another form are as if there were none."""
        async for stored in records:
            item = self._item(stored.key)
            if item is None:
                continue
            self._entries.pop(item, None)
            if stored.value is not None:
                try:
                    self._entries[item] = self._form.validate_json(stored.value)
                except ValidationError:
                    continue
        return self

    def __getitem__(self, item: str) -> T | None:
        return self._entries.get(item)

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter([(item, entry) for item, entry in self._entries.items() if item != ITSELF])

    async def write(self, entries: Mapping[str, T | None]) -> None:
        """Remember entries, forget those that are None; returns when the broker has them."""
        await self._outbox.send(*(self._record(item, entry) for item, entry in entries.items()))
        for item, entry in entries.items():
            if entry is None:
                self._entries.pop(item, None)
            else:
                self._entries[item] = entry

    def _record(self, item: str, entry: T | None) -> Outgoing:
        key = json.dumps([self._source, item]).encode()
        return Outgoing(topic=self._topic, key=key, value=None if entry is None else self._form.dump_json(entry))

    def _item(self, key: bytes | None) -> str | None:
        try:
            source, item = json.loads(key or b"")
        except (ValueError, TypeError):
            return None
        return item if source == self._source else None
