"""Send stored changes again, with a request to reindex their versions, and wait for the receipts."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

from rich.progress import Progress, TaskID

from freki.cli.bars import bars
from freki.cli.context import terminated_as_interrupted
from freki.infra.kafka import Reader
from freki.infra.settings import Settings
from freki.operators.identify import record_key
from freki.schemas import DocumentChange, IndexOutcome
from freki.schemas.avro import Codec
from freki.streams.client import Receipts
from freki.streams.feed.repeat import CHANGED, Advance, ChangeRepeater
from freki.streams.wire.connect import open_outbox, open_receipts, open_registry
from freki.streams.wire.from_settings import topics_of, wall_clock


@dataclass(frozen=True, slots=True)
class Repeated:
    """What became of versions that were to be reindexed."""

    outcomes: Sequence[IndexOutcome]
    missing: int
    """Number of changes that were sent and have no receipt."""
    reasons: Mapping[bytes, str]
    """Why a change was not sent, by key."""

    @property
    def by_key(self) -> Mapping[bytes, IndexOutcome]:
        """Receipts by key."""
        return {record_key(outcome.tenant, outcome.document_id): outcome for outcome in self.outcomes}


async def repeat(
    settings: Settings, wanted: Mapping[bytes, int], *, above: Mapping[bytes, int], patience_s: float
) -> Repeated:
    """Have versions reindexed from the changes on the documents topic; wanted: version by key.

    above: editions of these documents in the index, by key; patience_s: longest wait for the next receipt.
    """
    topic = topics_of(settings).documents.name
    async with (
        open_registry(settings) as registry,
        open_outbox(settings) as (outbox, _),
        open_receipts(settings) as receipts,
    ):
        repeater = ChangeRepeater(
            lambda starts: Reader(settings.kafka, topic, start=starts, registry=registry),
            Codec(DocumentChange, registry=registry).decode,
            outbox,
            topic,
            requested_at=wall_clock(),
            above=above,
        )
        with terminated_as_interrupted(), bars() as progress:

            def track(total: int) -> Advance:
                reading = progress.add_task("changes read", total=total)
                return lambda: progress.advance(reading)

            reasons = await repeater.find(wanted, track=track)
            unsent = wanted.keys() - reasons.keys()
            made = progress.add_task("reindexed", total=len(unsent))
            outcomes: list[IndexOutcome] = []
            sent = missing = 0
            try:
                async with aclosing(repeater.repeat(receipts.expect)) as windows:
                    async for window in windows:
                        sent += len(window)
                        unsent -= {record_key(change.tenant, change.document_id) for change in window}
                        outcomes += await _collect(receipts, sent - len(outcomes), patience_s, progress, made)
                        if missing := sent - len(outcomes):
                            break
            finally:
                await repeater.settle()
    if not missing:
        reasons |= dict.fromkeys(unsent, CHANGED)
    return Repeated(outcomes, missing, reasons)


async def _collect(
    receipts: Receipts, count: int, patience_s: float, progress: Progress, bar: TaskID
) -> list[IndexOutcome]:
    """Return so many receipts; fewer if the next one does not come in time."""
    outcomes: list[IndexOutcome] = []
    with suppress(TimeoutError):
        while len(outcomes) < count:
            outcomes.append(await receipts.next(patience_s=patience_s))
            progress.advance(bar)
    return outcomes
