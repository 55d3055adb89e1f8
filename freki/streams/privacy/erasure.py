"""Erasure of documents in its steps: hold back, record, delete, remove, search again, sign."""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from freki.operators.held_by import held_by
from freki.operators.identify import root_id
from freki.schemas import (
    Coverage,
    DocumentId,
    ErasureReport,
    ErasureStatus,
    PlannedErasure,
    SignedReport,
    TenantId,
    Timestamp,
)
from freki.schemas.errors import Unavailable
from freki.schemas.findings import Findings, KnownDocument, Removal
from freki.schemas.names import record
from freki.streams.ports.erasure import Deletions, DocumentPlaces, HoldBook, IndexedRoots, StillFree

DELETED_TOGETHER = 50
"""Documents that are deleted at once; before each such batch the holds are read again."""
SEARCHES = 4
"""Most searches for records that came since the first one, each but the last followed by their removal."""
FORMAT = 2

_AROUND_BYTES = 40
"""Of JSON around an id or an address in a signed report."""
_OF_DOCUMENTS = 0.9
"""Share of a report that may be about single documents; the rest names topics and partitions."""

Sign = Callable[[bytes], str]
Record = Callable[[TenantId, Sequence[PlannedErasure]], Awaitable[None]]
"""Writes to the audit log what is about to be erased."""


@record
class ErasurePlan:
    """What an erasure is to remove."""

    tenant: TenantId
    documents: Sequence[PlannedErasure]
    undecided: str = ""
    """Why further documents may be covered, and nobody can tell; empty: none."""

    def claims_of(self, documents: Collection[DocumentId]) -> dict[str, frozenset[DocumentId]]:
        """Return the addresses that records of some documents named, with those documents."""
        claims: dict[str, frozenset[DocumentId]] = {}
        for each in self.documents:
            for uri in each.claims if each.document_id in documents else ():
                claims[uri] = claims.get(uri, frozenset()) | {each.document_id}
        return claims


@record
class ErasureOutcome:
    """How an erasure ended."""

    status: ErasureStatus
    report: SignedReport | None
    """None: nothing was erased."""
    held: Mapping[DocumentId, Sequence[str]]
    """Documents that wait, with the holds that keep them."""
    body: Mapping[str, Any]
    """The report, decoded."""
    is_whole: bool = True
    """Whether nothing is left of what was erased, nor may still come of it."""


class Erasure:
    """Removes all content of documents, as commands and workers ask for it.

    Every step can be repeated: an erasure that broke off is done again from its plan.
    """

    def __init__(
        self,
        places: DocumentPlaces,
        index: IndexedRoots,
        deletions: Deletions,
        holds: HoldBook,
        *,
        sign: Sign,
        record: Record,
        now: Callable[[], Timestamp],
    ) -> None:
        self._places = places
        self._index = index
        self._deletions = deletions
        self._holds = holds
        self._sign = sign
        self._record = record
        self._now = now

    async def plan(self, tenant: TenantId, covers: Coverage, *, with_unpublished: bool = True) -> ErasurePlan:
        """Return what is covered now; it survives the deletion, after which nothing has attributes any more.

        with_unpublished: also later versions of which claims are written, and which no change names: their writer died
        before it published them, or does so yet, and its change is refused then.
        """
        covered = await self._places.covered(tenant, covers)
        known = covered.documents
        versions = {each.document_id: each.version for each in known}
        found = await self._places.find(tenant, versions)
        for name, version in found.unpublished.values() if with_unpublished else ():
            versions[name] = max(version, versions[name])
        documents = [
            PlannedErasure(
                document_id=each.document_id,
                version=versions[each.document_id],
                claims=tuple(sorted(uri for uri, names in found.claimed.items() if each.document_id in names)),
            )
            for each in known
        ]
        return ErasurePlan(tenant=tenant, documents=documents, undecided=undecided_of(covered.undecided))

    async def run(self, plan: ErasurePlan, *, about: Mapping[str, Any]) -> ErasureOutcome:
        """Erase what is planned and not held; about: what else the report says, such as who asked.

        A document that got a later version than planned is left out and named, also in `to_reindex` of the report
        where that came while data keys were destroyed and may have lost its own. Raises Unavailable where workers do
        not confirm the deletions.
        """
        begun = self._now()
        watch = await self._watch(plan)
        free = {each.document_id: each.version for each in plan.documents if each.document_id in await watch.free()}
        if not free:
            status = ErasureStatus.HELD if watch.held else ErasureStatus.ERASED
            status = ErasureStatus.INCOMPLETE if plan.undecided else status
            return ErasureOutcome(status=status, report=None, held=watch.held, body={}, is_whole=not plan.undecided)
        await self._record(plan.tenant, [each for each in plan.documents if each.document_id in free])
        before = await self._places.find(plan.tenant, free, claims=plan.claims_of(free))
        gone, later = await self._delete(plan.tenant, free, watch)
        # Changes may have come between the first search and the deletion, and workers may not have read others yet.
        claims = {uri: names & frozenset(gone) for uri, names in before.claimed.items() if names & frozenset(gone)}

        async def still_free() -> Sequence[DocumentId]:
            allowed = await watch.free()
            return [each for each in gone if each in allowed]

        async with self._places.alone():
            there = await self._places.find(plan.tenant, {name: free[name] for name in gone}, claims=claims, waits=True)
            removal = await self._places.remove(there, still_free=still_free)
        allowed = await still_free()
        # What came since the deletion has its rows under the same data key.
        came = await self._live(plan.tenant, allowed)
        done = [name for name in allowed if name not in came]
        # Copies of rows in files that the store has not removed yet cannot be read from now on.
        destroyed = await self._places.destroy_keys(plan.tenant, done)
        stripped = await self._places.strip(plan.tenant, done)
        claims = {uri: names for uri, names in there.claimed.items() if names <= frozenset(done)}

        async def search() -> Findings:
            free_now = await still_free()
            versions = {name: free[name] for name in done if name in free_now}
            # Workers make records also of the null values that the removal sent.
            return await self._places.find(plan.tenant, versions, claims=claims, waits=bool(there.lasts))

        more, left, late = await remove_late(self._places, there, search, still_free=still_free)
        removal = removal.and_then(more)
        came_last = await self._live(plan.tenant, done)
        later = sorted({*later, *came, *came_last})
        body = {
            "format": FORMAT,
            **about,
            "tenant": plan.tenant,
            "documents": [{"id": name, "version": free[name]} for name in sorted(done)],
            "held": {name: list(names) for name, names in sorted(watch.held.items())},
            "deleted_before_hold": sorted(set(gone) & watch.held.keys()),
            "later_versions": later,
            # Their rows may have been written with a key that was destroyed before they were committed.
            "to_reindex": sorted(came_last) if destroyed else [],
            "begun_ms": begun,
            "finished_ms": self._now(),
            "claims": sorted(claims),
            "found": before.described(),
            "fences": stripped,
            "data_keys": destroyed,
            "removed": list(removal.removed),
            "remains": list(removal.remains),
            "left": left.described(),
            "late": late.described()["records"],
            # Their changes would be later versions, if they come yet.
            "unpublished": [
                {"id": name, "version": version, "claim": uri}
                for uri, (name, version) in sorted(left.unpublished.items())
            ],
            "unread": [asdict(each) for each in there.unread],
            # Those of before: nothing names the claims of a change that compaction has removed since.
            "undecodable": [asdict(each) for each in before.undecodable],
            "undecided": plan.undecided,
        }
        status = ErasureStatus.HELD if watch.held else ErasureStatus.ERASED
        is_whole = not (left.rows or left.claims or left.lasts or left.unpublished or late)
        is_whole = is_whole and not any(each.is_in_use for each in there.unread)
        is_whole = is_whole and not (before.undecodable or plan.undecided)
        if later or not is_whole:
            status = ErasureStatus.INCOMPLETE
        return ErasureOutcome(
            status=status, report=signed(body, self._sign), held=watch.held, body=body, is_whole=is_whole
        )

    async def gone(self, tenant: TenantId, documents: Collection[DocumentId]) -> set[DocumentId]:
        """Return the documents that are no more in the index."""
        return set(documents) - await self._live(tenant, documents)

    async def _live(self, tenant: TenantId, documents: Collection[DocumentId]) -> set[DocumentId]:
        """Return the documents that are in the index now."""
        keys = {root_id(tenant, name): name for name in documents}
        return {keys[key] for key, root in (await self._index.roots(list(keys))).items() if not root.deleted}

    async def _watch(self, plan: ErasurePlan) -> "HoldWatch":
        covers = Coverage(documents=tuple(each.document_id for each in plan.documents))
        known = {each.document_id: each for each in (await self._places.covered(plan.tenant, covers)).documents}
        return HoldWatch(self._holds, plan.tenant, [each.document_id for each in plan.documents], known)

    async def _delete(
        self, tenant: TenantId, versions: Mapping[DocumentId, int], watch: "HoldWatch"
    ) -> tuple[list[DocumentId], list[DocumentId]]:
        """Delete what is still free, batch by batch; return what is deleted, and what got a later version."""
        names, deleted = sorted(versions), dict[DocumentId, bool]()
        for at in range(0, len(names), DELETED_TOGETHER):
            allowed = await watch.free()
            batch = {name: versions[name] for name in names[at : at + DELETED_TOGETHER] if name in allowed}
            answered = await self._deletions.delete(tenant, batch) if batch else {}
            if missing := sorted(batch.keys() - answered.keys()):
                raise Unavailable(
                    f"no receipt of the deletion of {missing[0]}, {len(missing)} in all: do workers run? erase again"
                )
            deleted |= answered
        return [name for name, gone in deleted.items() if gone], [name for name, gone in deleted.items() if not gone]


class HoldWatch:
    """Which of some documents are held, each time that it is asked; who was held once stays so."""

    def __init__(
        self,
        holds: HoldBook,
        tenant: TenantId,
        documents: Sequence[DocumentId],
        known: Mapping[DocumentId, KnownDocument],
    ) -> None:
        """Watch documents; known: with the attributes that they had before they were deleted."""
        self._holds = holds
        self._tenant = tenant
        self._attributes = {name: known[name].attributes if name in known else () for name in documents}
        self.held: dict[DocumentId, Sequence[str]] = {}

    async def free(self) -> frozenset[DocumentId]:
        """Return the documents that no hold covers and none has covered since the first call."""
        holds = await self._holds.of(self._tenant)
        for name, attributes in self._attributes.items():
            if name not in self.held and (names := held_by(holds, self._tenant, name, attributes)):
                self.held[name] = names
        return frozenset(self._attributes.keys() - self.held.keys())


async def remove_late(
    places: DocumentPlaces,
    there: Findings,
    search: Callable[[], Awaitable[Findings]],
    *,
    still_free: StillFree,
    superseded: bool = False,
) -> tuple[Removal, Findings, Findings]:
    """Search again, and remove the records that are not among those that were found before.

    An erasure in another process sends dead letters of other documents again: they are then no more where they were
    found. Returns what was removed, what the last search found, and what of that had just come and is left.
    """
    removal, seen = Removal(), [there]
    while True:
        async with places.alone():
            left = late = await search()
            for before in seen:
                late = late.beyond(before)
            if not late or len(seen) == SEARCHES:
                return removal, left, late
            removal = removal.and_then(await places.remove(late, still_free=still_free, superseded=superseded))
        seen.append(late)


def undecided_of(documents: Mapping[DocumentId, str]) -> str:
    """Return why nobody can tell whether some documents are covered; empty where there are none."""
    if not documents:
        return ""
    name, reason = next(iter(documents.items()))
    return (
        f"nobody can tell whether {name!r} is covered, {len(documents)} such in all, because a version of it cannot be "
        f"decoded: {reason}"
    )


def signed(body: Mapping[str, Any], sign: Sign) -> SignedReport:
    """Return a report with its signature."""
    return SignedReport(report=json.dumps(body, ensure_ascii=False), signature=sign(canonical(body)))


def canonical(body: Any) -> bytes:  # noqa: ANN401 - JSON
    """Return what the signature of a report covers."""
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")


def fits_record(begun: ErasureReport, *, size: int, most: int) -> bool:
    """Return whether the report on an erasure that is begun will fit a record at its end, too; size: so far."""
    return size + sum(map(_described_bytes, begun.documents)) <= most * _OF_DOCUMENTS


def _described_bytes(planned: PlannedErasure) -> int:
    """Return about how much a signed report says of a document: its id, and each claim as found, removed and named."""
    claims = sum(3 * (len(uri.encode()) + _AROUND_BYTES) for uri in planned.claims)
    return len(json.dumps(planned.document_id)) + _AROUND_BYTES + claims
