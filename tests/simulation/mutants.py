"""Defects that can be put into the pipeline or its client on purpose: how soon does the simulation find each?

Each takes one mend away; whoever mends something of the protocol adds what takes it away here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast
from unittest.mock import patch

from freki.operators import fence
from freki.operators.fence import Action, Decision
from freki.schemas import Revision
from freki.schemas.index import Root
from freki.streams.app import LANES
from freki.streams.indexing import indexer
from freki.streams.stage import Stage
from freki.streams.turns import Turns
from tests.simulation import nodes
from tests.simulation.consumer import Consumer
from tests.simulation.groups import Coordinator
from tests.simulation.producer import Producer

Mutant = Callable[[], AbstractContextManager[Any]]


@contextmanager
def _acknowledges_first() -> Iterator[None]:
    """Acknowledge a batch before it is delivered."""

    async def take(self: Stage, stream: Any, events: Sequence[Any], delivery: Any, most: int) -> None:
        for event in events:
            await stream.ack(event)
        await whole(self, cast("Any", _Deaf()), events, delivery, most)

    whole = Stage._take
    with patch.object(Stage, "_take", take):
        yield


class _Deaf:
    async def ack(self, event: Any) -> None:
        """Do nothing."""


@contextmanager
def _skips_fence() -> Iterator[None]:
    """Write every upsert, whatever the index holds."""

    def write(root: Root | None, revision: Revision, *, facets: str) -> Decision:
        decided = fence.decide(root, revision, facets=facets)
        return Decision(Action.WRITE) if decided.action is Action.STALE else decided

    with patch.object(indexer, "decide", write):
        yield


@contextmanager
def _shares_turns() -> Iterator[None]:
    """Let all lanes of a worker write at the same time."""

    @contextmanager
    def nothing() -> Iterator[None]:
        yield

    class _Free:
        async def __aenter__(self) -> None:
            """Wait for nobody."""

        async def __aexit__(self, *_: object) -> None:
            """Tell nobody."""

    with patch.object(Turns, "taken", lambda _self, _lane: _Free()), patch.object(Turns, "over", lambda *_: False):
        yield


def _drops_bulk() -> AbstractContextManager[Any]:
    """Give large documents of both lanes to nobody."""
    lanes = {**LANES, "embed": LANES["embed"][:2], "contextualise": LANES["contextualise"][:2]}
    return patch.object(nodes, "LANES", lanes)


MUTANTS: dict[str, Mutant] = {
    "acknowledges-first": _acknowledges_first,
    "skips-fence": _skips_fence,
    "shares-turns": _shares_turns,
    "drops-bulk-lane": _drops_bulk,
    "reads-uncommitted": lambda: patch.object(Consumer, "committed_only", new=False),
    "commits-past-gaps": lambda: patch.object(Consumer, "passes_gaps", new=True),
    "commits-unfenced": lambda: patch.object(Coordinator, "commit", _commit_anyway),
    "confirms-early": lambda: patch.object(Producer, "confirms_early", new=True),
}
"""What is taken away, by the name of the defect."""


def _commit_anyway(self: Coordinator, _name: str, _generation: int, offsets: dict[Any, int]) -> None:
    self.committed.update(offsets)
