"""Objections that a worker follows."""

from typing import TYPE_CHECKING

from freki.infra.kafka import Reader
from freki.schemas import Objection
from freki.streams.privacy.objections import Objections, follow_objections
from freki.streams.wire.background import follow

if TYPE_CHECKING:
    from freki.streams.wire.parts import Parts


async def open_objections(parts: "Parts") -> Objections:
    """Read all objections, so that the first answer respects them; then follow them."""
    objections, topic = Objections(), parts.topics.objections.name
    decode, prepare = parts.codec(Objection).decode, parts.prepare
    async with Reader(parts.settings.kafka, topic, start="earliest") as reader:
        await follow_objections(reader.until_end(), objections, decode=decode, prepare=prepare)

    async def take(reader: Reader) -> None:
        objections.opened(reader.ends)
        await follow_objections(reader, objections, decode=decode, prepare=prepare)

    parts.background.spawn(follow(parts.settings.kafka, topic, "earliest", take))
    return objections
