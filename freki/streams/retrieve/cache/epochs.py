"""Epochs: whether a cached answer still holds."""

from collections.abc import AsyncIterable, Callable, Sequence

from freki.schemas import IndexOutcome, OutcomeStatus, TenantId
from freki.schemas.avro import UndecodableError
from freki.schemas.index import Watermark
from freki.streams.messages import Stored

_NOTHING_CHANGED = frozenset({OutcomeStatus.STALE, OutcomeStatus.REJECTED})

_SLOTS = 4096
"""Number of counters; tenants that share one lose a few cached answers, and nothing else."""

Epoch = tuple[int, int, tuple[Watermark, ...]]


class Epochs:
    """A cached value of a tenant holds as long as the epoch in which its computation began.

    A commit of the tenant ends the epoch once its receipt is read. With strong consistency, any commit of any tenant
    ends it at once: watermarks are written with commits, and every answer reads them. Any document may belong to any
    answer, so that a tenant is the finest scope.
    """

    def __init__(self, *, strong: bool) -> None:
        self._strong = strong
        self._ended = [0] * _SLOTS
        self._followed = 0
        self._follows = False
        self._watermarks: dict[int, Watermark] = {}

    def now(self, tenant: TenantId) -> Epoch | None:
        """Return the epoch of a tenant, or None while its end would not be noticed."""
        if self._strong:
            marks = tuple(self._watermarks[partition] for partition in sorted(self._watermarks))
            return (self._followed, self._ended[_slot(tenant)], marks) if marks else None
        return (self._followed, self._ended[_slot(tenant)], ()) if self._follows else None

    def changed(self, tenant: TenantId) -> None:
        """End the epoch of a tenant."""
        self._ended[_slot(tenant)] += 1

    def followed(self, *, follows: bool) -> None:
        """Note whether receipts are read from now on; receipts before may have been missed."""
        self._follows = follows
        self._followed += 1

    def seen(self, watermarks: Sequence[Watermark]) -> None:
        """Note watermarks that were just read."""
        for mark in watermarks:
            # Of concurrent reads, an older one may end last.
            known = self._watermarks.get(mark.partition)
            if known is None or known.commits < mark.commits:
                self._watermarks[mark.partition] = mark


async def follow_outcomes(
    records: AsyncIterable[Stored],
    epochs: Epochs,
    *,
    decode: Callable[[bytes], IndexOutcome],
) -> None:
    """End the epoch of a tenant at each receipt, and the epochs of all tenants at a receipt that cannot be decoded."""
    epochs.followed(follows=True)
    try:
        async for stored in records:
            if stored.value is None:
                continue
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
