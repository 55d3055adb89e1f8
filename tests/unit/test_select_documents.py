from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.select_documents import is_selected
from freki.schemas import DocumentId, TenantId, Timestamp
from freki.schemas.index import Selection, deleted
from tests.contract.index_records import root

DOCUMENT = root(
    "r",
    tenant=TenantId("acme"),
    document_id=DocumentId("handbook/leave.md"),
    source_uri="file:///wiki/handbook/leave.md",
    language="de",
    principals=("staff", "board"),
    attributes={"team": "people", "state": "final"},
    fingerprint="f1",
)
ALL = {
    "prefix": "handbook/",
    "source": "file:///wiki/",
    "language": "de",
    "principals": ("nobody", "board"),
    "attributes": {"team": "people"},
    "not_made_by": frozenset({"f2"}),
}
OTHERS: Mapping[str, Any] = {
    "prefix": "handbooks",
    "source": "https://",
    "language": "en",
    "principals": ("everyone",),
    "attributes": {"team": "people", "state": "draft"},
    "not_made_by": frozenset({"f1"}),
    "deleted": True,
    "tenant": TenantId("other"),
}


def selection(**conditions: Any) -> Selection:
    return Selection(**{"tenant": TenantId("acme"), **conditions})


@given(names=st.sets(st.sampled_from(sorted(ALL))))
def test_conditions_that_a_document_meets_select_it_in_any_combination(names: set[str]) -> None:
    assert is_selected(DOCUMENT, selection(**{name: ALL[name] for name in names}))


@pytest.mark.parametrize("name", OTHERS)
def test_one_condition_that_it_does_not_meet_is_enough(name: str) -> None:
    assert not is_selected(DOCUMENT, selection(**{**ALL, name: OTHERS[name]}))


def test_deleted_documents_are_selected_by_what_is_left_of_them() -> None:
    gone = deleted(DOCUMENT, tombstoned_at=Timestamp(0))

    assert is_selected(gone, selection(deleted=True, prefix="handbook/", principals=("staff",)))
    assert not is_selected(gone, selection())
    assert not is_selected(gone, selection(deleted=True, language="de"))
