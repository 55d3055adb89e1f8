"""Tells whether an answer that was true is still true."""

from collections.abc import AsyncIterable, Callable, Sequence

from freki.schemas import IndexOutcome, OutcomeStatus, TenantId
from freki.schemas.avro import UndecodableError
from freki.schemas.index import Watermark
from freki.streams.deliver.intake import Prepare
from freki.streams.messages import Stored

_NOTHING_CHANGED = frozenset({OutcomeStatus.STALE, OutcomeStatus.REJECTED})

_SLOTS = 4096
"""Tenants that share one lose a little of what is remembered, and no more."""

Epoch = tuple[int, int, tuple[Watermark, ...]]


class Epochs:
    """What is remembered for a tenant holds as long as the epoch in which it was begun.

    A commit in the tenant ends it, once its receipt is read. With strong consistency any commit ends it at once, in
    whatever tenant: watermarks are written with it, and every answer reads them. Any document may belong into any
    answer, so there is nothing finer than a tenant.
    """

    def __init__(self, *, strong: bool) -> None:
        self._strong = strong
        self._ended = [0] * _SLOTS
        self._followed = 0
        self._follows = False
        self._watermarks: dict[int, Watermark] = {}

    def now(self, tenant: TenantId) -> Epoch | None:
        """Name the epoch of a tenant; None while nobody would tell that it ends."""
        if self._strong:
            marks = tuple(self._watermarks[partition] for partition in sorted(self._watermarks))
            return (self._followed, self._ended[_slot(tenant)], marks) if marks else None
        return (self._followed, self._ended[_slot(tenant)], ()) if self._follows else None

    def changed(self, tenant: TenantId) -> None:
        """End the epoch of a tenant."""
        self._ended[_slot(tenant)] += 1

    def followed(self, *, follows: bool) -> None:
        """Note whether receipts are being read from now on; whatever was before, some may have been missed."""
        self._follows = follows
        self._followed += 1

    def seen(self, watermarks: Sequence[Watermark]) -> None:
        """Note how far the index is, as was read just now."""
        for mark in watermarks:
            # Of several reads at once, an older one may end last.
            known = self._watermarks.get(mark.partition)
            if known is None or known.commits < mark.commits:
                self._watermarks[mark.partition] = mark


async def follow_outcomes(
    records: AsyncIterable[Stored],
    epochs: Epochs,
    *,
    decode: Callable[[bytes], IndexOutcome],
    prepare: Prepare | None = None,
) -> None:
    """End the epoch of a tenant with each receipt that is read; of what cannot be read, those of all tenants."""
    epochs.followed(follows=True)
    try:
        async for stored in records:
            if stored.value is None:
                continue
            if prepare is not None:
                await prepare([stored.value])
            try:
                outcome = decode(stored.value)
                if outcome.status not in _NOTHING_CHANGED:
                    epochs.changed(outcome.tenant)
            except UndecodableError:
                epochs.followed(follows=True)
    finally:
        epochs.followed(follows=False)


def _slot(tenant: TenantId) -> int:
    return hash(tenant) % _SLOTS
