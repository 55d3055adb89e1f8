"""What a source publishes, and a ledger that outlives it."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from freki.schemas import DocumentChange, Operation
from freki.streams.deliver.outbox import Outbox
from freki.streams.feed.ledger import SourceLedger
from freki.streams.messages import Headers
from freki.streams.observe.tracing import UNTRACED

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record as it lies on the ledger's topic."""

    key: bytes | None
    value: bytes | None
    topic: str = "sources"
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = 0
    headers: Headers = ()


class Killed(Exception):
    """The process ended here."""


@dataclass
class World:
    """The topics of a source: what it published, and what it remembers of that."""

    changes: list[DocumentChange] = field(default_factory=list)
    ledger: list[Record] = field(default_factory=list)
    lives: int = 1_000_000
    """How many more records are taken before the process is killed."""

    async def publish(self, changes: Sequence[DocumentChange]) -> None:
        """Take changes, in order."""
        for change in changes:
            self._live()
            self.changes.append(change)

    async def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Awaitable[object]:
        """Take a record of the ledger."""
        assert partition is None
        self._live()
        self.ledger.append(Record(topic=topic, key=key, value=value, headers=headers))
        return _done()

    def _live(self) -> None:
        if not self.lives:
            raise Killed
        self.lives -= 1

    async def open_ledger(self, source: str, kind: type[T]) -> SourceLedger[T]:
        """Read what was remembered."""
        ledger = SourceLedger(source, kind, topic="sources", outbox=Outbox(self, UNTRACED))

        async def records() -> AsyncIterator[Record]:
            for one in tuple(self.ledger):
                yield one

        return await ledger.read(records())

    @property
    def documents(self) -> dict[str, str]:
        """What an index holds that takes a change only if its version is above the last one."""
        versions: dict[str, int] = {}
        contents: dict[str, str] = {}
        for change in self.changes:
            if change.version <= versions.get(change.document_id, 0):
                continue
            versions[change.document_id] = change.version
            contents.pop(change.document_id, None)
            if change.operation is Operation.UPSERT:
                content = change.content
                contents[change.document_id] = content.decode() if isinstance(content, bytes) else str(content)
        return contents


async def _done() -> None:
    return None
