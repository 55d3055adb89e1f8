"""Wait until the index holds the versions of documents that a query asks for."""

import asyncio

from freki.operators.identify import root_id
from freki.schemas import NoticeKind, RootId, VersionFloor
from freki.streams.ports import Roots
from freki.streams.retrieve.budget.attempts import FINISHING, LOOKING_UP, Attempts
from freki.streams.retrieve.budget.in_flight import InFlight
from freki.streams.retrieve.parsed_query import ParsedQuery

STEP = "wait"
POLL_S = 0.02
"""Shortest interval between looks at the documents, in seconds."""
_SLOWEST_POLL_S = 0.5
_POLL_SHARE = 0.05
"""Interval as a share of the time waited so far: many that wait for long would slow down all queries of the worker."""


async def wait_for_versions(roots: Roots, attempts: Attempts, in_flight: InFlight, query: ParsedQuery) -> None:
    """Wait as long as the deadline allows; add a notice for each document that is still older."""
    # The highest floor of each document.
    floors = sorted(query.query.at_least, key=lambda floor: floor.version)
    missing = {root_id(query.query.tenant, floor.document_id): floor for floor in floors}
    if not missing:
        return
    started_ns = query.log.clock_ns()
    # A query that only waits takes nothing from others.
    in_flight.end([query])
    # The deadline may come during any look.
    _note_missing(query, missing)
    while missing:
        found = await attempts([query], STEP, roots.roots(list(missing)))
        if found is None:
            break
        # A document that the answer may not have is waited for like one that does not exist.
        missing = {
            key: floor
            for key, floor in missing.items()
            if key not in found or not query.may_show(found[key]) or found[key].version < floor.version
        }
        query.log.retract(STEP)
        _note_missing(query, missing)
        spare_s = attempts.spare_s(query, before=(*LOOKING_UP, *FINISHING))
        if not missing or spare_s < POLL_S:
            break
        waited_s = (query.log.clock_ns() - started_ns) / 1e9
        await asyncio.sleep(min(max(POLL_S, _POLL_SHARE * waited_s), _SLOWEST_POLL_S, spare_s))
    in_flight.begin([query])
    query.log.ran(STEP, started_ns, len(query.query.at_least))


def _note_missing(query: ParsedQuery, missing: dict[RootId, VersionFloor]) -> None:
    for floor in missing.values():
        message = (
            f"document {floor.document_id!r} was not seen at version {floor.version}: ask again, or allow more time"
        )
        query.log.notice(STEP, NoticeKind.FRESHNESS, message)
