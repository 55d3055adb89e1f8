"""Ids tell apart whatever differs."""

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.identify import chunk_id, root_id
from freki.schemas import DocumentId, TenantId
from freki.schemas.names import same_keys

# Separators of any naive joining, so that parts could flow into each other.
parts = st.text(alphabet='ab/\x00\x1f|,"\\[] ', max_size=4)
keys = st.tuples(parts, parts, st.integers(0, 2), st.lists(parts, max_size=3), parts, st.integers(0, 2))


def _id(key: tuple[str, str, int, list[str], str, int]) -> str:
    tenant, document_id, level, heading_path, text, occurrence = key
    return chunk_id(
        TenantId(tenant),
        DocumentId(document_id),
        level=level,
        heading_path=heading_path,
        text=text,
        occurrence=occurrence,
    )


@given(one=keys, other=keys)
def test_chunk_ids_are_equal_only_where_all_parts_are(
    one: tuple[str, str, int, list[str], str, int], other: tuple[str, str, int, list[str], str, int]
) -> None:
    assert (_id(one) == _id(other)) == (one == other)


@given(one=st.tuples(parts, parts), other=st.tuples(parts, parts))
def test_root_ids_are_equal_only_where_tenant_and_document_are(one: tuple[str, str], other: tuple[str, str]) -> None:
    ids = [root_id(TenantId(tenant), DocumentId(document_id)) for tenant, document_id in (one, other)]

    assert (ids[0] == ids[1]) == (one == other)


def test_a_record_ends_another_one_under_the_bytes_that_its_producer_wrote() -> None:
    ours, compact, escaped = b'["hr", "Akte \xc3\xbc"]', b'["hr","Akte \xc3\xbc"]', b'["hr", "Akte \\u00fc"]'
    others = [b'["sales", "Akte \xc3\xbc"]', b'["hr"]', b"\xff", b"[" * 100_000]

    assert same_keys([compact, *others, escaped], ours) == [compact, escaped]
    assert same_keys([ours, *others], ours) == [ours]
    assert same_keys(others, ours) == [ours]


def test_an_id_is_32_hexadecimal_digits_and_stays_what_it_was() -> None:
    known = _id(("acme", "bgb.md", 2, ["Buch 2", "§ 535"], "Der Vermieter …", 0))

    assert known == "941b2a08f7a56b30538701ad712fbbec"
    assert root_id(TenantId("acme"), DocumentId("bgb.md")) == "e0e3be33bcd25f196024b86e22b5222f"


def test_half_a_surrogate_pair_has_an_id_too() -> None:
    assert len(_id(("acme", "\ud800", 2, [], "\udfff", 0))) == 32
