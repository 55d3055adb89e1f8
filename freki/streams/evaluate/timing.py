"""What answers take as those who ask see it: one question at a time, so that nothing waits for another."""

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
    """Ask each question with all values in turn, beginning with another one each time; give milliseconds.

    A first round warms up: it asks the first question, whose times are then taken again.
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
