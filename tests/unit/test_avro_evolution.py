"""What may change between two versions of a record, and what may not."""

from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any

import pytest
from hypothesis import given, settings

from freki.schemas import Chunk, ChunkBatch, ChunkKind, DocumentChange, Operation, Timestamp
from freki.schemas.avro import Codec, Contract, Contracts, UndecodableError, packaged_contracts
from freki.schemas.avro.__main__ import contract_text
from freki.schemas.avro.derive import derive_schema
from freki.schemas.names import record
from tests.avro_values import write
from tests.strategies import records


@record
class Stamp:
    """As first written."""

    value: int


class First:
    @record
    class Letter:
        """As first written."""

        text: str
        body: str | bytes | None
        weight: int
        stamps: tuple[Stamp, ...]
        old: str


class Second:
    @record
    class Letter:
        """With a field less, four more, and one that became wider."""

        added: str = "new"
        body: str | bytes | None
        maybe: Timestamp | None = None
        text: str
        names: tuple[str, ...] = ()
        attributes: Mapping[str, str] = field(default_factory=dict)
        weight: float
        stamps: tuple[Stamp, ...]


class Required:
    @record
    class Letter:
        """With a field that has no default."""

        text: str
        sender: str


class Narrowed:
    @record
    class Letter:
        """With a type that does not hold what was written."""

        text: int


@record
class OfSet:
    value: set[str]


@record
class OfDict:
    value: dict[str, str]


@record
class OfPair:
    value: tuple[str, str]


@record
class OfTwoTypes:
    value: str | Stamp | None


@record
class OfTextByDefault:
    value: str | None = "x"


def contract_of(record_type: type) -> Contract:
    return Contract(contract_text(record_type))


def codec(reader: type, *earlier: type) -> Codec[Any]:
    return Codec(reader, contracts=Contracts({reader.__name__: [*map(contract_of, earlier), contract_of(reader)]}))


def as_read_by(reader: type, value: Any) -> Any:
    return codec(reader, type(value)).decode(codec(type(value)).encode(value))


@pytest.mark.parametrize("body", [None, "text", b"\xff\x00", b"ascii", ""])
def test_an_earlier_version_is_read_with_defaults_for_what_it_did_not_know(body: str | bytes | None) -> None:
    written = First.Letter(text="a", body=body, weight=3, stamps=(Stamp(value=5),), old="x")

    read = as_read_by(Second.Letter, written)

    assert read == Second.Letter(text="a", body=body, weight=3.0, stamps=(Stamp(value=5),))
    assert type(read.body) is type(body)
    assert type(read.weight) is float


def test_two_readings_of_an_earlier_version_share_no_default() -> None:
    written = First.Letter(text="a", body=None, weight=3, stamps=(), old="x")

    assert as_read_by(Second.Letter, written).attributes is not as_read_by(Second.Letter, written).attributes


def test_a_new_field_without_a_default_makes_earlier_records_unreadable() -> None:
    written = First.Letter(text="a", body=None, weight=3, stamps=(), old="x")

    with pytest.raises(UndecodableError, match=r"Letter\.sender is missing and has no default"):
        as_read_by(Required.Letter, written)


def test_a_type_that_does_not_hold_what_was_written_is_refused() -> None:
    written = First.Letter(text="a", body=None, weight=3, stamps=(), old="x")

    with pytest.raises(UndecodableError, match=r"Letter\.text cannot be of type str"):
        as_read_by(Narrowed.Letter, written)


def read_with_symbol(value: Any, symbol: str, later: str) -> Any:
    """Read what a later version would have written, in whose contract a symbol has another name."""
    ours = packaged_contracts().current(type(value).__name__)
    theirs = Contract(ours.text.replace(f'"{symbol}"', f'"{later}"'))
    behind_the_frame = Codec(type(value)).encode(value)[10:]
    contracts = Contracts({ours.record: [theirs, ours]})
    return Codec(type(value), contracts=contracts).decode(b"\xc3\x01" + theirs.fingerprint + behind_the_frame)


@settings(max_examples=20)
@given(batch=records(ChunkBatch), chunk=records(Chunk))
def test_an_unknown_kind_of_chunk_is_read_as_prose(batch: ChunkBatch, chunk: Chunk) -> None:
    tables = replace(batch, chunks=(replace(chunk, kind=ChunkKind.TABLE), replace(chunk, kind=ChunkKind.CODE)))

    read = read_with_symbol(tables, "TABLE", "FORMULA")

    assert read == replace(batch, chunks=(replace(chunk, kind=ChunkKind.PROSE), replace(chunk, kind=ChunkKind.CODE)))


@settings(max_examples=20)
@given(change=records(DocumentChange))
def test_an_unknown_command_is_refused_and_never_taken_for_another(change: DocumentChange) -> None:
    with pytest.raises(
        UndecodableError, match=r"DocumentChange\.operation is ARCHIVE, which this version does not know"
    ):
        read_with_symbol(replace(change, operation=Operation.DELETE), "DELETE", "ARCHIVE")


@given(value=records(DocumentChange))
def test_resolution_changes_nothing_that_fits_already(value: DocumentChange) -> None:
    ours = packaged_contracts().current("DocumentChange")
    theirs = Contract(ours.text.replace('"priority"', '"urgency"'))
    contracts = Contracts({ours.record: [theirs, ours]})
    plain = {part.name: getattr(value, part.name) for part in fields(value) if part.name not in ("priority", "claim")}
    written = write(theirs.schema, plain | {"urgency": value.priority, "claim": None})

    read = Codec(DocumentChange, contracts=contracts).decode(written)

    assert read == replace(value, priority=0, claim=None)
    assert type(read.content) is type(value.content)


@pytest.mark.parametrize("unwritable", [OfSet, OfDict, OfPair, OfTwoTypes, OfTextByDefault])
def test_a_field_that_has_no_avro_form_is_refused_when_the_contract_is_written(unwritable: type) -> None:
    with pytest.raises(TypeError, match=r"Avro|union"):
        derive_schema(unwritable)
