from hypothesis import example, given
from hypothesis import strategies as st

from freki.operators.assign_ids import Assignment, Conflict, IndexedSource, assign_ids
from freki.schemas import DocumentId

A, B, C = "file:///a/doc/x.md", "file:///b/doc/x.md", "file:///c/x.md"
X, Y, Z = DocumentId("doc/x.md"), DocumentId("y"), DocumentId("z")

sources, names = st.sampled_from([A, B, C]), st.sampled_from([X, Y, Z])
documents = st.lists(
    st.builds(IndexedSource, names, st.none() | sources, st.integers(1, 3)), unique_by=lambda each: each.document_id
)


def assigned(wanted: dict[str, DocumentId], *indexed: IndexedSource, **options: object) -> Assignment:
    return assign_ids(wanted, indexed, **options)  # type: ignore[arg-type]


def test_what_is_not_indexed_gets_the_id_that_its_path_gives() -> None:
    assert assigned({A: X, B: Y}) == Assignment({A: X, B: Y}, [], [])


def test_what_is_indexed_keeps_its_id() -> None:
    assert assigned({A: X}, IndexedSource(Y, A, 1)) == Assignment({A: Y}, [], [])


def test_an_id_of_another_source_is_refused_with_both() -> None:
    assert assigned({B: X}, IndexedSource(X, A, 1)).conflicts == [Conflict(X, B, A)]
    assert assigned({B: X}, IndexedSource(X, None, 1)).conflicts == [Conflict(X, B, None)]


def test_a_source_that_is_missing_loses_its_id_only_to_one_that_the_user_chose() -> None:
    known = IndexedSource(X, A, 1)

    assert assigned({B: X}, known, missing={A}).conflicts == [Conflict(X, B, A)]
    assert assigned({B: X}, known, missing={A}, chosen=True) == Assignment({B: X}, [], [])
    assert assigned({B: X}, known, chosen=True).conflicts == [Conflict(X, B, A)]


def test_a_chosen_id_replaces_the_one_of_before() -> None:
    assert assigned({A: X}, IndexedSource(Y, A, 1), chosen=True) == Assignment({A: X}, [], [Y])


def test_two_sources_may_exchange_ids_that_the_user_chose() -> None:
    found = assigned({A: X, B: Y}, IndexedSource(Y, A, 1), IndexedSource(X, B, 1), chosen=True)

    assert found == Assignment({A: X, B: Y}, [], [])


def test_of_several_documents_of_a_source_the_one_that_its_path_gives_is_kept_else_the_newest() -> None:
    assert assigned({A: X}, IndexedSource(X, A, 1), IndexedSource(Y, A, 9)) == Assignment({A: X}, [], [Y])
    assert assigned({A: X}, IndexedSource(Y, A, 1), IndexedSource(Z, A, 2)) == Assignment({A: Z}, [], [Y])


def test_a_source_that_is_refused_an_id_keeps_the_document_that_it_has() -> None:
    mine, other = IndexedSource(Y, A, 1), IndexedSource(X, C, 1)

    assert assigned({A: X}, mine, other, chosen=True) == Assignment({A: Y}, [Conflict(X, A, C)], [])
    # And nobody else gets it, who would have if the first one had got another one.
    refused = [Conflict(X, A, C), Conflict(Y, B, A)]
    assert assigned({A: X, B: Y}, mine, other, chosen=True) == Assignment({A: Y, B: Y}, refused, [])


def test_of_names_that_differ_in_unicode_form_the_composed_one_gets_a_free_id_and_the_other_one_keeps_its_own() -> None:
    decomposed, precomposed = "file:///a/doc/a%CC%88.md", "file:///a/doc/%C3%A4.md"
    both = {decomposed: X, precomposed: X}

    assert assigned(both).conflicts == [Conflict(X, decomposed, precomposed)]
    assert assigned(both, IndexedSource(X, decomposed, 1)).conflicts == [Conflict(X, precomposed, decomposed)]
    assert all(conflict.is_of_twins for conflict in assigned(both).conflicts)


@given(
    wanted=st.dictionaries(sources, names),
    indexed=documents,
    chosen=st.booleans(),
    missing=st.sets(sources),
)
@example(
    wanted={"file:///a/doc/x.md": DocumentId("doc/x.md"), "file:///b/doc/x.md": DocumentId("doc/x.md")},
    indexed=[IndexedSource(DocumentId("doc/x.md"), "file:///b/doc/x.md", 1)],
    chosen=True,
    missing={"file:///b/doc/x.md"},
)
def test_no_two_sources_have_one_id_and_none_takes_that_of_another(
    wanted: dict[str, DocumentId], indexed: list[IndexedSource], *, chosen: bool, missing: set[str]
) -> None:
    found = assign_ids(wanted, indexed, chosen=chosen, missing=missing)

    assert found == assign_ids(wanted, reversed(indexed), chosen=chosen, missing=missing)
    assert found.ids.keys() == wanted.keys()
    assert not set(found.superseded) & set(found.ids.values())
    assert {each.source_uri for each in indexed if each.document_id in found.superseded} <= wanted.keys()
    refused = {conflict.source_uri for conflict in found.conflicts}
    taken = {document_id for source, document_id in found.ids.items() if source not in refused}
    assert not {each.document_id for each in indexed if each.source_uri in refused} & {*taken, *found.superseded}
    if found.conflicts:
        return
    assert len(set(found.ids.values())) == len(found.ids)
    owners = {each.document_id: each.source_uri for each in indexed}
    for source, document_id in found.ids.items():
        owner = owners.get(document_id, source)
        assert owner is not None
        assert owner == source or found.ids.get(owner, document_id) != document_id or (chosen and owner in missing)


@given(wanted=st.dictionaries(sources, names), indexed=documents)
def test_publishing_again_changes_no_id(wanted: dict[str, DocumentId], indexed: list[IndexedSource]) -> None:
    first = assign_ids(wanted, indexed)
    if first.conflicts:
        return
    kept = [each for each in indexed if each.document_id not in {*first.ids.values(), *first.superseded}]

    again = assign_ids(wanted, [*kept, *(IndexedSource(each, source, 5) for source, each in first.ids.items())])

    assert again == Assignment(first.ids, [], [])
