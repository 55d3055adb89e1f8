"""Requests, holds, new versions, deletions and crashes in any order: what was planned goes, all else stays."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from freki.schemas import Coverage, DocumentId, ErasureStatus
from freki.schemas.errors import Unavailable
from tests.erasing import TENANT, Kept, World, hold
from tests.unit.test_erasure import asked, request, requests_in

NAMES = [DocumentId(name) for name in "abc"]
COVERAGES = st.one_of(
    st.just(Coverage(whole_tenant=True)),
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(lambda names: Coverage(documents=tuple(names))),
    st.sampled_from(["x", "y"]).map(lambda value: Coverage(attributes={"team": value})),
)
Change = Callable[[World], None]


def publish(name: DocumentId, team: str) -> Change:
    def change(here: World) -> None:
        here.documents[name] = Kept(version=here.documents[name].version + 1, attributes={"team": team})

    return change


def delete(name: DocumentId) -> Change:
    def change(here: World) -> None:
        here.documents[name].indexed = False

    return change


def place(name: str, covers: Coverage) -> Change:
    def change(here: World) -> None:
        here.holds[:] = [each for each in here.holds if each.name != name] + [hold(name, covers)]

    return change


def lift(here: World) -> None:
    here.holds.clear()


def die(_: World) -> None:
    raise Unavailable("killed")


CHANGES = st.one_of(
    st.builds(publish, st.sampled_from(NAMES), st.sampled_from(["x", "y"])),
    st.builds(delete, st.sampled_from(NAMES)),
    st.builds(place, st.sampled_from(["h1", "h2"]), COVERAGES),
    st.sampled_from([lift, die]),
)
REQUESTS = st.none() | st.tuples(st.sampled_from(["r1", "r2"]), COVERAGES)
"""What is asked next; None: a look at what waits."""
MEANWHILE = st.dictionaries(st.integers(1, 60), CHANGES, max_size=3)
"""What happens while that is done, by the number of the step."""


class Watched:
    """A world that is watched at each step, in which changes happen at some."""

    def __init__(self) -> None:
        self.world = World({name: Kept(attributes={"team": "x" if name == NAMES[0] else "y"}) for name in NAMES})
        self.world.meanwhile = self._step
        self.changes = dict[int, Change]()
        self.taken = list[str]()
        self._steps = 0
        self._look()

    async def ask(self, asks: tuple[str, Coverage] | None, changes: dict[int, Change]) -> None:
        """Ask, or look at what waits, by a worker of its own; it may die."""
        self.changes, self._steps = changes, 0
        worker = requests_in(self.world)
        with suppress(Unavailable):
            await (worker.resume() if asks is None else worker.handle([asked(request(asks[1], request_id=asks[0]))]))
        self._compare()
        self._look()

    def _step(self, _: str) -> None:
        self._compare()
        self._steps += 1
        change = self.changes.pop(self._steps, None)
        try:
            if change is not None:
                change(self.world)
        finally:
            self._look()

    def _look(self) -> None:
        self._before = self.world.state()
        self._held = {
            name
            for name, each in self._before.items()
            if any(one.covers.has(name, each.attributes) for one in self.world.holds)
        }

    def _compare(self) -> None:
        """Note whose content went since the last look without being planned, or in spite of a hold."""
        reports = self.world.reports().values()
        planned = {(each.document_id, each.version) for report in reports for each in report.documents}
        for name, before in self._before.items():
            now = self.world.documents[name]
            if before.content and not now.content and (name in self._held or (name, now.version) not in planned):
                self.taken.append(f"{name} of version {now.version}, held: {name in self._held}")


@settings(max_examples=200)
@given(asks=st.lists(st.tuples(REQUESTS, MEANWHILE), min_size=1, max_size=6))
async def test_what_was_planned_goes_and_what_is_held_later_or_of_nobody_stays(
    asks: Sequence[tuple[tuple[str, Coverage] | None, dict[int, Change]]],
) -> None:
    here, requested = Watched(), dict[str, Coverage]()
    for each, changes in asks:
        one = None if each is None else (each[0], requested.setdefault(*each))
        await here.ask(one, changes)
    here.world.holds.clear()
    # Delivered again, as a worker that died has not acknowledged them; then holds are looked at.
    for again in [*requested.items(), None, None]:
        await here.ask(again, {})

    assert here.taken == []
    for request_id in requested:
        report = here.world.reports()[TENANT, request_id]
        assert report.status in {ErasureStatus.ERASED, ErasureStatus.INCOMPLETE}
        assert report.held == ()
        for planned in report.documents:
            kept = here.world.documents[planned.document_id]
            is_later = kept.version > planned.version
            assert is_later or not (kept.indexed or kept.content or kept.key)
