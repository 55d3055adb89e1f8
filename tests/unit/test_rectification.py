"""Rectification: older versions go, the corrected one stays, and whoever is too early or held is told."""

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.errors import InvalidRequest
from freki.operators.identify import root_id
from freki.schemas import Coverage, DocumentId, ErasureStatus, PlannedErasure, RootId, TenantId, Timestamp
from freki.schemas.findings import CoveredDocuments
from freki.schemas.index import Root
from freki.streams.privacy.erasure import ErasureOutcome
from freki.streams.privacy.rectification import Rectification, searched_versions
from tests.erasing import TENANT, Kept, World, hold, root_of

A, B = DocumentId("a"), DocumentId("b")


class Indexed:
    """Finds the roots of a world as they were when it was made."""

    def __init__(self, world: World) -> None:
        self._roots = {root_id(TENANT, name): root_of(name, each) for name, each in world.documents.items()}

    async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
        return {key: self._roots[key] for key in root_ids if key in self._roots}


class Changing(World):
    """Has other documents once it was looked at."""

    later: dict[DocumentId, Kept]

    @property
    def index(self) -> Indexed:
        world = self

        class Looked(Indexed):
            async def roots(self, root_ids: Sequence[RootId]) -> Mapping[RootId, Root]:
                found = await Indexed(world).roots(root_ids)
                world.documents = world.later
                return found

        return Looked(self)

    async def covered(self, tenant: TenantId, covers: Coverage) -> CoveredDocuments:
        found = await super().covered(tenant, covers)
        self.documents = self.later
        return found


async def rectified(world: World, *names: DocumentId, index: Indexed | None = None) -> ErasureOutcome:
    async def record(_: TenantId, documents: Sequence[PlannedErasure]) -> None:
        world.recorded += [each.document_id for each in documents]

    rectification = Rectification(
        world, index or Indexed(world), world.book, sign=lambda _: "signed", record=record, now=lambda: Timestamp(7)
    )
    return await rectification.run(TENANT, names, about={})


async def test_a_dead_letter_that_an_erasure_sends_again_meanwhile_goes_too() -> None:
    here = World({A: Kept(version=2, older=True, letter=1)})

    def meanwhile(step: str) -> None:
        if step == "letters":
            here.documents[A].letter = 11
            here.meanwhile = lambda _: None

    here.meanwhile = meanwhile
    done = await rectified(here, A)

    assert here.documents[A].letter is None
    assert done.status is ErasureStatus.ERASED


@given(held=st.sets(st.sampled_from([A, B])), step=st.sampled_from(["holds", "find", "remove"]), at=st.integers(0, 4))
async def test_older_versions_go_unless_they_are_held_and_the_corrected_one_stays(
    held: set[DocumentId], step: str, at: int
) -> None:
    here, seen = World({A: Kept(version=2, older=True), B: Kept(version=5, older=True)}), 0
    kept: set[DocumentId] = set()

    def meanwhile(name: str) -> None:
        nonlocal seen
        if name == step and seen == at and held:
            here.holds.append(hold("h", Coverage(documents=tuple(sorted(held)))))
            kept.update(each for each in held if here.documents[each].older)
        seen += name == step

    here.meanwhile = meanwhile
    done = await rectified(here, A, B)

    assert {name for name, each in here.documents.items() if each.older} == kept
    assert all(each.indexed and each.content and each.key for each in here.documents.values())
    assert done.status is (ErasureStatus.HELD if done.held else ErasureStatus.ERASED)
    assert done.held.keys() >= kept
    if done.report is not None:
        body = json.loads(done.report.report)
        assert {each["id"] for each in body["documents"]} == {A, B} - done.held.keys()
        versions = {A: 2, B: 5}
        older = {name: versions[name] - 1 for name in {A, B} - done.held.keys()}
        assert searched_versions(body) == (older, Timestamp(7))


async def test_what_the_broker_stored_by_a_clock_that_is_hours_ahead_goes_too() -> None:
    here = World({A: Kept(version=2, older=True, older_at=14_400_000)})

    done = await rectified(here, A)

    assert not here.documents[A].older
    assert done.status is ErasureStatus.ERASED
    assert searched_versions(done.body) == ({A: 1}, Timestamp(14_400_000)), "it can be checked"


@pytest.mark.parametrize("is_there_first", [True, False], ids=["is deleted", "is indexed"])
async def test_a_document_that_comes_or_goes_while_it_is_looked_up_is_refused(*, is_there_first: bool) -> None:
    here = Changing({A: Kept(version=2)} if is_there_first else {})
    here.later = {} if is_there_first else {A: Kept(version=2)}

    with pytest.raises(InvalidRequest, match="publish its corrected version first"):
        await rectified(here, A, index=here.index)


async def test_a_claim_of_a_held_document_does_not_make_a_rectification_incomplete() -> None:
    here = World({A: Kept(version=2, older=True), B: Kept(version=5, older=True)})

    def meanwhile(step: str) -> None:
        if step == "remove" and not here.holds:
            here.holds.append(hold("h", Coverage(documents=(A,))))

    here.meanwhile = meanwhile
    done = await rectified(here, A, B)

    assert done.status is ErasureStatus.HELD
    assert done.body["claims"] == ["older:b"]


async def test_a_version_that_waits_to_be_indexed_and_a_deleted_document_are_refused() -> None:
    here = World({A: Kept(version=2, older=True), B: Kept(indexed=False)})
    index = Indexed(here)
    here.documents[A].version = 3

    with pytest.raises(InvalidRequest, match="version 3 waits to be indexed"):
        await rectified(here, A, index=index)
    for name in (B, DocumentId("unknown")):
        with pytest.raises(InvalidRequest, match="publish its corrected version first"):
            await rectified(here, name, index=index)

    assert here.documents[A].older
    assert not here.recorded


def test_a_report_on_an_erasure_is_about_all_versions() -> None:
    body = {"format": 2, "documents": [{"id": "a", "version": 3}]}

    assert searched_versions(body) == ({A: 3}, None)
