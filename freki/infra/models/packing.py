"""Packing of texts of different lengths into batches with little padding."""

from collections.abc import Iterator, Sequence


def pack(lengths: Sequence[int], *, budget: int) -> Iterator[list[int]]:
    """Yield the indices of each batch: longest first, so that longest x count stays within the budget.

    A text longer than the budget is a batch of its own. Equal lengths keep their order.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        rows = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + rows]
        start += rows
