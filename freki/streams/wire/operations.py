"""What the page for operators shows and does, beside a running Freki."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from freki.client.exchange import decoded
from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.operators.group_letters import group_letters
from freki.schemas import IndexOutcome
from freki.schemas.avro import Codec
from freki.schemas.errors import Rejected
from freki.schemas.operations import LetterGroup, Overview, ReplayResult
from freki.streams.wire.connect import open_registry
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.overview import overview
from freki.streams.wire.replaying import name_of, read_letters, replay_letters

FRESH_S: Final = 2.0
"""An overview answers all who ask within this time."""


class Operations:
    """Looks at all parts and replays dead letters. Satisfies Operations of `infra.http_server`."""

    def __init__(self, load: Callable[[], Settings]) -> None:
        """Create; load: reads the settings again, since the local stack may have started or moved."""
        self._load = load
        self._looking = asyncio.Lock()
        self._replaying = asyncio.Lock()
        self._seen: tuple[float, Overview] | None = None

    async def overview(self) -> Overview:
        """Return the state of all parts, at most some seconds old."""
        async with self._looking:
            if self._seen is None or time.monotonic() - self._seen[0] > FRESH_S:
                settings = self._load()
                found = await overview(settings, settings.serve.workers)
                self._seen = time.monotonic(), found
            return self._seen[1]

    async def letters(self, *, everything: bool) -> list[LetterGroup]:
        """Return the dead letters by cause; everything: also those sent again or superseded."""
        letters = await read_letters(self._load(), values_of=lambda _: False)
        chosen = letters.by_place if everything else letters.open_ones()
        return group_letters(letters.view(place) for place in chosen)

    async def replay(self, names: Sequence[str], *, by: str) -> list[ReplayResult]:
        """Send the records of these dead letters again. Raises Rejected for one that does not exist."""
        async with self._replaying:
            settings = self._load()
            wanted = set(names)
            letters = await read_letters(settings, values_of=wanted.__contains__)
            # In the order of the topic, whatever that of the names is.
            chosen = {place: letter for place, letter in letters.by_place.items() if name_of(place) in wanted}
            if unknown := wanted - {name_of(place) for place in chosen}:
                raise Rejected(f"there is no dead letter {min(unknown)}")
            return await replay_letters(settings, letters, chosen, by=by, again=False)

    @asynccontextmanager
    async def receipts(self) -> AsyncIterator[AsyncIterator[IndexOutcome]]:
        """Open the receipts of all tenants from now on: once open, none is missed. Raises InfraError."""
        settings = self._load()
        async with (
            open_registry(settings) as registry,
            Reader(settings.kafka, topics_of(settings).outcomes.name, start="latest", registry=registry) as reader,
        ):
            yield decoded(reader, Codec(IndexOutcome, registry=registry).decode)
