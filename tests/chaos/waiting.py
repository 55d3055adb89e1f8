"""How far the stages are: what waits before each of them, and how much all have finished."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from freki.infra.kafka.admin import Admin
from freki.infra.settings import Settings
from freki.streams.wire.from_settings import group_of, ingest_sources


@dataclass(frozen=True, slots=True)
class Waiting:
    """What consumer groups say of the topics that they read."""

    records: Mapping[str, int] = field(default_factory=dict)
    """By stage and lane; those where none waits are left out."""
    finished: int = 0
    """By all stages together: it grows as long as any of them gets on."""

    def __str__(self) -> str:
        waiting = ", ".join(f"{stage} {records}" for stage, records in self.records.items())
        return f"waiting: {waiting}" if waiting else "nothing waits"


async def waiting(settings: Settings) -> Waiting:
    """Ask the broker; raises InfraError where it does not answer."""
    of_group: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for source in ingest_sources(settings):
        of_group[source.group][source.topic] = source.stage
    records: dict[str, int] = {}
    finished = 0
    async with Admin(settings.kafka) as admin:
        lags = await admin.lags({group_of(settings, group): list(stages) for group, stages in of_group.items()})
    for group, stages in of_group.items():
        for place in lags[group_of(settings, group)]:
            stage = stages[place.topic]
            records[stage] = records.get(stage, 0) + place.lag
            finished += place.committed or 0
    return Waiting({stage: count for stage, count in records.items() if count}, finished)
