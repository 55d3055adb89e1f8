"""Every interleaving of two and three owners of one document, by the model of the commit protocol."""

from collections.abc import Sequence

import pytest

from tests.unit.commit_model import (
    Content,
    Job,
    Model,
    Owner,
    first_store,
    violations,
    without_editions,
    without_pages_in_flight,
)

BEFORE = frozenset("cu")


def v(version: int, chunks: str | None, edition: int = 0) -> Job:
    content: Content = None if chunks is None else frozenset(chunks)
    return Job(version, content, edition)


TWO: dict[str, Sequence[Sequence[Job]]] = {
    "edit; edit, undo": [[v(2, "u")], [v(2, "u"), v(3, "cu")]],
    "edit; undo": [[v(2, "u")], [v(3, "cu")]],
    "edit, undo twice": [[v(2, "u"), v(3, "cu")], [v(2, "u"), v(3, "cu")]],
    "edit; undo, edit": [[v(2, "u")], [v(3, "cu"), v(4, "c")]],
    "each skips a version": [[v(2, "u"), v(4, "cu")], [v(3, "cu"), v(4, "cu")]],
    "deletion; deletion, again": [[v(2, None)], [v(2, None), v(3, "cu")]],
    "edit; edit, deletion": [[v(2, "cu")], [v(2, "cu"), v(3, None)]],
    "deletion; again": [[v(2, None)], [v(3, "cu")]],
    "edit, undo; undo": [[v(2, "u"), v(3, "cu")], [v(3, "cu")]],
    "deletion of the same version": [[v(2, "cu")], [v(2, None)]],
    "anew; edit, undo": [[v(1, "u", 7)], [v(2, "u"), v(3, "cu")]],
    "anew; anew later, edit": [[v(1, "cx", 7)], [v(1, "cu", 8), v(2, "c")]],
    "anew twice": [[v(1, "cx", 7), v(1, "cu", 8)], [v(1, "cx", 7), v(1, "cu", 8)]],
    "anew; deletion": [[v(1, "cx", 7)], [v(1, None)]],
    "edit; its request before it": [[v(2, "u")], [v(2, "cu", 7)]],
}
THREE: dict[str, Sequence[Sequence[Job]]] = {
    "edit; undo; edit": [[v(2, "u")], [v(3, "cu")], [v(4, "c")]],
    "deletion; again; edit": [[v(2, None)], [v(3, "cu")], [v(4, "u")]],
    "anew; anew later; edit": [[v(1, "u", 7)], [v(1, "cu", 8)], [v(2, "u")]],
}


def owners(jobs: Sequence[Sequence[Job]], clocks: Sequence[int]) -> list[Owner]:
    return [Owner(tuple(each), clock) for each, clock in zip(jobs, clocks, strict=True)]


@pytest.mark.parametrize("clocks", [(1, 2), (2, 1)], ids=["first is slow", "first is fast"])
@pytest.mark.parametrize("case", TWO)
def test_two_owners_never_make_a_hole_nor_go_back_and_end_at_the_newest(case: str, clocks: tuple[int, int]) -> None:
    assert not any(violations(Model(), owners(TWO[case], clocks), first_store(BEFORE)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", THREE)
def test_three_owners_never_make_a_hole_nor_go_back_and_end_at_the_newest(case: str) -> None:
    assert not any(violations(Model(), owners(THREE[case], (2, 3, 1)), first_store(BEFORE)))


@pytest.mark.parametrize(
    "model",
    [Model(checks=False), Model(supersede=without_pages_in_flight), Model(supersede=without_editions)],
    ids=["no check", "sweep takes what is in flight", "sweep takes a later edition"],
)
def test_the_model_finds_holes_where_a_rule_is_left_out(model: Model) -> None:
    assert any(
        any(violations(model, owners(jobs, clocks), first_store(BEFORE)))
        for jobs in TWO.values()
        for clocks in ((1, 2), (2, 1))
    )
