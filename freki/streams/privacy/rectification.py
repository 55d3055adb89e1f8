"""Rectification: once a corrected version is searchable, the content of older ones is removed wherever copies are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from freki.operators.errors import InvalidRequest
from freki.operators.held_by import held_by
from freki.operators.identify import root_id
from freki.schemas import Coverage, DocumentId, ErasureStatus, PlannedErasure, TenantId, Timestamp
from freki.schemas.findings import Findings
from freki.schemas.names import LARGEST_INTEGER
from freki.streams.ports.erasure import DocumentPlaces, HoldBook, IndexedRoots
from freki.streams.privacy.erasure import FORMAT, ErasureOutcome, Record, Sign, remove_late, signed

KIND = "rectification"
_ALL_UNTIL_NOW = Timestamp(LARGEST_INTEGER)
"""A search reads what topics have when it begins; the clock of this process may be behind that of the broker."""


class Rectification:
    """Removes what older versions of documents say from topics, claims and dead letters."""

    def __init__(
        self,
        places: DocumentPlaces,
        index: IndexedRoots,
        holds: HoldBook,
        *,
        sign: Sign,
        record: Record,
        now: Callable[[], Timestamp],
    ) -> None:
        self._places = places
        self._index = index
        self._holds = holds
        self._sign = sign
        self._record = record
        self._now = now

    async def run(
        self, tenant: TenantId, documents: Sequence[DocumentId], *, about: Mapping[str, Any]
    ) -> ErasureOutcome:
        """Remove all versions before the one that is indexed, except of what is held; about: more for the report.

        Raises InvalidRequest for a document that is not indexed, or that has a later version on the topic: nobody can
        tell yet which one is right.
        """
        begun, covers = self._now(), Coverage(documents=tuple(documents))
        # The index first: what it holds then is covered, unless it was deleted since.
        roots = await self._index.roots([root_id(tenant, name) for name in documents])
        known = {each.document_id: each for each in (await self._places.covered(tenant, covers)).documents}
        corrected: dict[DocumentId, int] = {}
        for name in documents:
            root = roots.get(root_id(tenant, name))
            if root is None or root.deleted or name not in known:
                raise InvalidRequest(f"document {name!r} is not indexed: publish its corrected version first")
            if known[name].version > root.version:
                raise InvalidRequest(
                    f"document {name!r}: version {known[name].version} waits to be indexed: try again once its "
                    "receipt is there"
                )
            corrected[name] = root.version
        attributes = {name: known[name].attributes for name in documents}
        held: dict[DocumentId, Sequence[str]] = {}

        async def still_free() -> Sequence[DocumentId]:
            holds = await self._holds.of(tenant)
            for name in documents:
                if name not in held and (names := held_by(holds, tenant, name, attributes[name])):
                    held[name] = names
            return [name for name in documents if name not in held]

        free = await still_free()
        if not free:
            return ErasureOutcome(status=ErasureStatus.HELD, report=None, held=held, body={})
        await self._record(tenant, [PlannedErasure(document_id=name, version=corrected[name]) for name in sorted(free)])
        older = {name: corrected[name] - 1 for name in free}
        async with self._places.alone():
            found = await self._places.find(tenant, older, before_ms=_ALL_UNTIL_NOW)
            # What is there may have later times, by the clock of the broker.
            begun = max(begun, found.latest_ms)
            removal = await self._places.remove(found, still_free=still_free, superseded=True)
        done = await still_free()
        gone = frozenset(done)
        claims = {uri: names for uri, names in found.claimed.items() if uri not in found.shared and names <= gone}

        async def search() -> Findings:
            free_now = await still_free()
            versions = {name: older[name] for name in done if name in free_now}
            return await self._places.find(tenant, versions, claims=claims, before_ms=begun)

        more, left, late = await remove_late(self._places, found, search, still_free=still_free, superseded=True)
        removal = removal.and_then(more)
        body = {
            "format": FORMAT,
            "kind": KIND,
            **about,
            "tenant": tenant,
            "documents": [{"id": name, "version": corrected[name]} for name in sorted(done)],
            "held": {name: list(names) for name, names in sorted(held.items())},
            "begun_ms": begun,
            "finished_ms": self._now(),
            "claims": sorted(claims),
            "found": found.described(),
            "removed": list(removal.removed),
            "remains": list(removal.remains),
            "left": left.described(),
            "late": late.described()["records"],
            "undecodable": [asdict(each) for each in found.undecodable],
        }
        status = ErasureStatus.HELD if held else ErasureStatus.ERASED
        if left.rows or left.claims or left.lasts or late or found.undecodable:
            status = ErasureStatus.INCOMPLETE
        return ErasureOutcome(status=status, report=signed(body, self._sign), held=held, body=body)


def searched_versions(body: Mapping[str, Any]) -> tuple[Mapping[DocumentId, int], Timestamp | None]:
    """Return what a report on an erasure or a rectification is about, as `DocumentPlaces.find` takes it.

    Raises KeyError and TypeError for what is no report.
    """
    named = {DocumentId(each["id"]): int(each["version"]) for each in body["documents"]}
    if body.get("kind") != KIND:
        return named, None
    return {name: version - 1 for name, version in named.items()}, Timestamp(body["begun_ms"])
