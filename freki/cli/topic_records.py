"""Records of single documents on the topics."""

from collections.abc import AsyncIterator, Collection
from typing import TypeVar

from rich.progress import Progress

from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.schemas.avro import Codec, UndecodableError
from freki.streams.messages import Stored
from freki.streams.wire.connect import open_registry

R = TypeVar("R")


async def records_of(
    settings: Settings, topic: str, kind: type[R], keys: Collection[bytes], progress: Progress, title: str
) -> AsyncIterator[tuple[Stored, R | None]]:
    """Yield the records with these keys up to the end of a topic; None for a null value. Skip undecodable values.

    kind: contract of the values; title: of the progress bar.
    """
    async with open_registry(settings) as registry, Reader(settings.kafka, topic, start="earliest") as reader:
        codec = Codec(kind, registry=registry)
        bar = progress.add_task(title, total=sum(reader.ends.values()))
        async for stored in reader.until_end():
            progress.advance(bar)
            if stored.key not in keys:
                continue
            if registry is not None:
                await registry.prepare([stored.value])
            try:
                value = None if stored.value is None else codec.decode(stored.value)
            except UndecodableError:
                continue
            yield stored, value
