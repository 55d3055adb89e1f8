"""The protobuf contract follows from the records, and values pass through it unchanged."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.schemas import (
    ContextQuery,
    DocumentChange,
    IndexOutcome,
    Operation,
    QueryId,
    TenantId,
    Timestamp,
    VersionFloor,
)
from freki.schemas.explanation import Explanation
from freki.schemas.names import record
from freki.schemas.proto import PROTO_FILES
from freki.schemas.proto import __main__ as contract
from freki.schemas.proto.convert import UnknownValueError, fill, values_of
from freki.schemas.proto.derive import UsedNumbers, derive_messages
from freki.schemas.proto.freki.v1 import freki_pb2
from tests.strategies import records


def fitted(value: Any) -> Any:
    """Return a record with integers of at most 32 bits, which most fields hold."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: fitted(getattr(value, each.name)) for each in fields(value)})
    if isinstance(value, tuple):
        return tuple(map(fitted, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-(2**31), min(value, 2**31 - 1))
    return value


@given(explanation=records(Explanation).map(fitted))
def test_what_a_result_holds_passes_unchanged(explanation: Explanation) -> None:
    message = freki_pb2.Explanation.FromString(fill(freki_pb2.Explanation(), explanation).SerializeToString())

    assert Explanation(**values_of(message, Explanation)) == explanation


@given(receipt=records(IndexOutcome).map(fitted))
def test_a_receipt_passes_unchanged(receipt: IndexOutcome) -> None:
    assert IndexOutcome(**values_of(fill(freki_pb2.IndexOutcome(), receipt), IndexOutcome)) == receipt


@given(query=records(ContextQuery).map(fitted), named=st.booleans())
def test_a_query_passes_but_for_what_the_server_fills_in(query: ContextQuery, named: bool) -> None:  # noqa: FBT001
    # Protobuf does not tell an empty list from none, but where the difference matters.
    query = replace(query, query_id=QueryId(""), asked_at=Timestamp(0), reply_to=None, levels=query.levels or None)
    message = fill(freki_pb2.ContextQuery(), query)

    given: dict[str, Any] = {"query_id": QueryId(""), "asked_at": Timestamp(0)} | values_of(message, ContextQuery)
    read = ContextQuery(**given)

    assert read == query
    assert message.HasField("widen") == (query.widen is not None)
    if not named:
        message.ClearField("tenant")
        assert "tenant" not in values_of(message, ContextQuery)


@pytest.mark.parametrize("content", [{"text": "§ 1"}, {"file": b"%PDF"}])
def test_a_document_is_text_or_a_file(content: dict[str, Any]) -> None:
    message = freki_pb2.Document(document_id="a", attributes={"b": "c"}, **content)

    values = values_of(message, DocumentChange)

    assert values.pop("content") == next(iter(content.values()))
    assert values == {"document_id": "a", "attributes": {"b": "c"}, "version": 0, "occurred_at": 0}
    change = DocumentChange(tenant=TenantId("t"), operation=Operation.UPSERT, **values)
    assert change.priority == 0


def test_a_value_that_is_not_known_is_refused_with_those_that_are() -> None:
    message = freki_pb2.ContextQuery(text="a")
    message.fusion = 77  # type: ignore[assignment] # as a newer client might

    with pytest.raises(UnknownValueError, match="77 is no Fusion; there are: WEIGHTED, RRF"):
        values_of(message, ContextQuery)


def test_the_contract_is_as_the_records_are() -> None:
    written = contract.HERE / PROTO_FILES[0]

    assert contract.derived(written.read_text(encoding="utf-8")) == written.read_text(encoding="utf-8"), (
        "run `make schemas`"
    )


def test_the_modules_are_as_the_contracts_are(tmp_path: Path) -> None:
    contract.compile_into(tmp_path)

    for compiled in [path for path in tmp_path.rglob("*") if path.is_file()]:
        kept = contract.HERE / compiled.relative_to(tmp_path)
        assert kept.read_text(encoding="utf-8") == compiled.read_text(encoding="utf-8"), "run `make schemas`"


def test_a_field_keeps_its_number_and_that_of_one_which_is_gone_is_never_given_again() -> None:
    taken = {"VersionFloor": UsedNumbers({"document_id": 7, "gone": 8}, [3])}

    lines = derive_messages({"VersionFloor": (VersionFloor, ())}, taken).splitlines()

    assert lines[2:] == ["  string document_id = 7;", "  int64 version = 9;", "  reserved 3, 8;", "}"]


def test_what_a_message_would_not_hold_is_refused() -> None:
    @record
    class Odd:
        """A record."""

        either: int | str

    with pytest.raises(ValueError, match="too many values"):
        derive_messages({"Odd": (Odd, ())}, {})
