from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.errors import InvalidChange
from freki.operators.validate_change import validate_change
from freki.schemas import ClaimCheck, DocumentChange, DocumentId, Operation, TenantId, Timestamp

CLAIM = ClaimCheck(uri="s3://bucket/a.pdf", size=10, sha256="ab" * 32)


def change(**fields: Any) -> DocumentChange:
    return replace(
        DocumentChange(
            tenant=TenantId("acme"),
            document_id=DocumentId("handbuch/1.md"),
            operation=Operation.UPSERT,
            version=1,
            occurred_at=Timestamp(1_700_000_000_000),
            content="Text",
        ),
        **fields,
    )


def key(candidate: DocumentChange) -> str:
    return f"{candidate.tenant}/{candidate.document_id}"


@pytest.mark.parametrize(
    "valid",
    [
        change(),
        change(content=""),
        change(content=b"%PDF\x00", media_type="application/pdf"),
        change(content=None, claim=CLAIM),
        change(operation=Operation.DELETE, content=None),
        change(document_id="ä" * 256),
        change(language="de", media_type="text/html; charset=utf-8", source_uri="https://example.org/a b"),
        change(principals=("everyone", "grp:Vertrieb"), attributes={"Jahr": "2024", "leer": ""}),
        change(content="Zeile\n\tTab\r\n"),
    ],
)
def test_what_keeps_the_contract_passes(valid: DocumentChange) -> None:
    validate_change(valid, key=key(valid))


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (change(tenant=""), "tenant"),
        (change(tenant="a/b"), "tenant"),
        (change(tenant="a\x00b"), "tenant"),
        (change(document_id="  "), "document_id"),
        (change(document_id="x" * 513), "document_id"),
        (change(document_id="ä" * 257), "document_id"),
        (change(document_id="a\nb"), "document_id"),
        (change(document_id="a\ud800"), "document_id"),
        (change(version=0), "version"),
        (change(version=-1), "version"),
        (change(version=2**63), "version"),
        (change(occurred_at=-1), "occurred_at"),
        (change(occurred_at=1_700_000_000_000_000), "occurred_at"),
        (change(name=""), "name"),
        (change(name="a\u2028b"), "name"),
        (change(source_uri="javascript:alert(1)"), "source_uri"),
        (change(source_uri=" JavaScript :alert(1)"), "source_uri"),
        (change(media_type="markdown"), "media_type"),
        (change(language="Deutsch"), "language"),
        (change(principals=("",)), "principals"),
        (change(principals=("p" * 129,)), "principals"),
        (change(principals=tuple(f"p{i}" for i in range(257))), "principals"),
        (change(attributes={"": "x"}), "attributes"),
        (change(attributes={"k": "a\x00"}), "attributes"),
        (change(attributes={"k": "x" * 65_536}), "attributes"),
        (change(attributes={"k": "\x01" * 11_000}), "attributes"),
        (change(content=None), "content"),
        (change(claim=CLAIM), "content"),
        (change(operation=Operation.DELETE), "content"),
        (change(operation=Operation.DELETE, content=None, claim=CLAIM), "content"),
        (change(content="a\x00b"), "content"),
        (change(content=None, claim=replace(CLAIM, uri="")), "claim.uri"),
        (change(content=None, claim=replace(CLAIM, size=-1)), "claim.size"),
        (change(content=None, claim=replace(CLAIM, sha256="ab")), "claim.sha256"),
    ],
)
def test_a_broken_rule_names_its_field(broken: DocumentChange, field: str) -> None:
    with pytest.raises(InvalidChange, match=f"^{field}: "):
        validate_change(broken, key=key(broken))


@pytest.mark.parametrize(("name", "wrong"), [("", "is empty"), ("a\n", "U\\+000A"), ("a" * 129, "129 bytes")])
def test_the_name_of_an_attribute_is_told_from_its_value(name: str, wrong: str) -> None:
    broken = change(attributes={name: "3"})

    with pytest.raises(InvalidChange, match=f"^attributes: the name of an attribute .*{wrong}"):
        validate_change(broken, key=key(broken))


def test_attributes_count_as_the_store_has_them() -> None:
    # 47 kB as JSON: the store has the name of each three times.
    broken = change(attributes={f"{number:05}": "3" for number in range(3_500)})

    with pytest.raises(InvalidChange, match=r"^attributes: 3500 of them take \d{6} bytes in the store, .* takes 65536"):
        validate_change(broken, key=key(broken))


def test_the_key_must_be_that_of_the_document() -> None:
    with pytest.raises(InvalidChange, match=r"'acme/handbuch/1\.md'"):
        validate_change(change(), key="acme/other")


@given(
    change=st.builds(
        DocumentChange,
        tenant=st.text(max_size=5),
        document_id=st.text(max_size=5),
        operation=st.sampled_from(Operation),
        version=st.integers(-2, 2),
        occurred_at=st.integers(-1, 10),
        name=st.none() | st.text(max_size=3),
        attributes=st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2),
        content=st.none() | st.text(max_size=5) | st.binary(max_size=5),
    )
)
def test_a_change_passes_or_is_refused_and_nothing_else_happens(change: DocumentChange) -> None:
    try:
        validate_change(change, key=key(change))
    except InvalidChange:
        pass
    else:
        assert change.tenant.encode()
        assert change.document_id.encode()
        assert (change.content is None) == (change.operation is Operation.DELETE)
