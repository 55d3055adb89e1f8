"""Latency as seen by a client, one query at a time, so that no query waits for another."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Q = TypeVar("Q")
V = TypeVar("V")


async def time_in_turn(
    questions: Sequence[Q],
    values: Sequence[V],
    ask: Callable[[Q, V], Awaitable[object]],
    *,
    clock_ns: Callable[[], int],
    advance: Callable[[], None],
) -> dict[V, dict[Q, float]]:
    """Ask each question under every value, in rotating order; return latencies in milliseconds.

    The first question is asked once more beforehand, to warm up.
    """
    found: dict[V, dict[Q, float]] = {value: {} for value in values}
    for place, question in enumerate([*questions[:1], *questions]):
        first = place % len(values)
        for value in (*values[first:], *values[:first]):
            started = clock_ns()
            await ask(question, value)
            found[value][question] = (clock_ns() - started) / 1e6
            advance()
    return found
