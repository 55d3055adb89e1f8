"""Topics and consumer groups: created, and checked before stages wait for them."""

from collections.abc import Collection, Sequence
from contextlib import suppress

from freki.infra.kafka.admin import Admin
from freki.infra.settings import Settings
from freki.schemas.errors import Misconfigured, Unavailable
from freki.streams.wire.from_settings import reply_topics_of, topics_of


async def apply_topics(settings: Settings, *, tenants: Sequence[str] = ()) -> tuple[str, ...]:
    """Create missing topics, and those of the answers to tenants; return their names."""
    topics = [*topics_of(settings), *reply_topics_of(settings, tenants)]
    async with Admin(settings.kafka) as admin:
        return await admin.ensure_topics(topics)


async def apply_own_topics(settings: Settings) -> tuple[str, ...]:
    """Create missing topics that only the generation in use has; return their names."""
    async with Admin(settings.kafka) as admin:
        return await admin.ensure_topics(topics_of(settings).own)


async def check_sources(settings: Settings, stages: Collection[tuple[str, str]]) -> None:
    """Raise Misconfigured unless these consumer groups and topics are accessible, for which Faust waits silently.

    stages: consumer group and topic of each stage.
    """
    async with Admin(settings.kafka) as admin:
        partitions = await admin.partitions([topic for _, topic in stages])
        for _, topic in stages:
            if not partitions[topic]:
                raise _inaccessible(topic)
        # Lanes share groups.
        for group in dict.fromkeys(group for group, _ in stages):
            # Faust waits for the group's broker; a missing right is an error.
            with suppress(Unavailable):
                await admin.check_group(group)


async def check_shares(settings: Settings) -> None:
    """Raise Misconfigured unless all lanes have equally many partitions, so that one worker gets the same of each."""
    names = [topic.name for topic in topics_of(settings).contextual_chunks.values()]
    async with Admin(settings.kafka) as admin:
        partitions = await admin.partitions(names)
    if missing := [name for name in names if not partitions[name]]:
        raise _inaccessible(missing[0])
    if len(set(partitions.values())) > 1:
        found = ", ".join(f"{name} has {count}" for name, count in partitions.items())
        raise Misconfigured(
            f"these topics must have equally many partitions, or two workers may write one document: {found};"
            " add partitions to the others"
        )


def _inaccessible(topic: str) -> Misconfigured:
    """Return the error for a topic that is missing, or may not be described: Kafka does not tell which."""
    return Misconfigured(
        f"topic {topic} does not exist, or access is denied; create it with `freki topics apply`, or grant the rights"
        " that `freki topics acls` lists"
    )
