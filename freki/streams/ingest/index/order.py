"""Order of overlapping calls that change the same documents."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from freki.schemas import RootId


class Ticket:
    """Place of one call in the queues of the documents that it changes."""

    def __init__(self, order: "DocumentOrder", root_ids: Iterable[RootId]) -> None:
        self._order = order
        self._left = Counter(root_ids)
        for key in self._left:
            order.queues[key].append(self)

    async def first(self, root_ids: Collection[RootId]) -> list[RootId]:
        """Return those of some documents that no earlier call has; wait until there is one."""
        while not (ready := [key for key in root_ids if self._order.queues[key][0] is self]):
            await self._order.changed.wait()
        return ready

    def done(self, root_ids: Iterable[RootId]) -> None:
        """Count one change of each of some documents as done; the last one lets the next call go on."""
        self._left.subtract(root_ids)
        self._leave([key for key, left in self._left.items() if left <= 0])

    def end(self) -> None:
        """Leave all documents."""
        self._leave(list(self._left))

    def _leave(self, root_ids: Iterable[RootId]) -> None:
        for key in root_ids:
            del self._left[key]
            self._order.queues[key].remove(self)
            if not self._order.queues[key]:
                del self._order.queues[key]
        self._order.notify()


class DocumentOrder:
    """Queues of calls, by document."""

    def __init__(self) -> None:
        self.queues: defaultdict[RootId, deque[Ticket]] = defaultdict(deque)
        self.changed = asyncio.Event()

    @contextmanager
    def ticket(self, root_ids: Iterable[RootId]) -> Iterator[Ticket]:
        """Queue for documents, each named once per change, until the end of the block."""
        ticket = Ticket(self, root_ids)
        try:
            yield ticket
        finally:
            ticket.end()

    def notify(self) -> None:
        """Wake the calls that wait."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
