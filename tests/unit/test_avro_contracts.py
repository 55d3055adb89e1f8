import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freki.schemas.avro
from freki.schemas import DocumentChange
from freki.schemas.avro import TOPICS, Codec, Contract, export_schemas, list_schemas, packaged_contracts
from freki.schemas.avro.__main__ import contract_text
from freki.schemas.avro.contracts import fingerprint_of
from tests.avro_values import values_of, write

HOME = Path(freki.schemas.avro.__file__).parent
SUMS = HOME / "versions" / "SHA256SUMS"
CODECS: dict[str, Codec[Any]] = {record.__name__: Codec(record) for record in TOPICS}
VERSIONS = [version for record in CODECS for version in packaged_contracts().versions(record)]
KEPT = [Contract(path.read_text(encoding="utf-8")) for path in sorted(HOME.glob("versions/*/*.avsc"))]


def field(record: type, name: str) -> dict[str, Any]:
    described = json.loads(contract_text(record))["fields"]
    return next(field for field in described if field["name"] == name)


@pytest.mark.parametrize("record", TOPICS)
def test_the_contract_is_the_one_that_follows_from_the_class(record: type) -> None:
    written = packaged_contracts().current(record.__name__).text

    assert written == contract_text(record), "run `python -m freki.schemas.avro`"


@pytest.mark.parametrize("version", KEPT, ids=lambda version: version.record)
def test_every_kept_version_can_be_read(version: Contract) -> None:
    found = packaged_contracts().written_with(version.fingerprint)

    assert found is not None
    assert found.record == version.record


@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_bytes_of_every_version_are_read_today(version: Contract, data: st.DataObject) -> None:
    value = data.draw(values_of(version.schema))

    decoded = CODECS[version.record].decode(write(version.schema, value))

    assert type(decoded).__name__ == version.record


def test_the_fingerprint_is_the_one_of_the_specification() -> None:
    # From Avro's own share/test/data/schema-tests.txt: the 64 bits are given as a signed number there.
    assert int.from_bytes(fingerprint_of({"type": "int"}), "little", signed=True) == 8247732601305521295
    assert int.from_bytes(fingerprint_of({"type": "string"}), "little", signed=True) == -8142146995180207161


def test_docs_defaults_and_logical_types_do_not_change_the_fingerprint() -> None:
    plain = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    rich = {"type": "long", "logicalType": "timestamp-millis"}
    described = plain | {"doc": "x", "fields": [{"name": "a", "type": rich, "doc": "y", "default": 0}]}

    assert fingerprint_of(described) == fingerprint_of(plain)


def test_a_field_brings_the_string_under_it_as_its_doc() -> None:
    assert field(DocumentChange, "occurred_at")["doc"] == "When the source changed; 0 where unknown."


def test_an_enum_brings_the_docs_of_its_members() -> None:
    parts = json.loads(packaged_contracts().current("ContextQuery").text)["fields"]
    fusion = next(part["type"][1] for part in parts if part["name"] == "fusion")

    assert fusion["doc"].splitlines()[0] == "How rankings become one."
    assert "RRF: Reciprocal rank fusion." in fusion["doc"].splitlines()


def test_times_are_marked_as_milliseconds() -> None:
    assert field(DocumentChange, "occurred_at")["type"] == {"type": "long", "logicalType": "timestamp-millis"}


def test_content_is_text_or_bytes_or_nothing() -> None:
    assert field(DocumentChange, "content") == {
        "name": "content",
        "type": ["null", "string", "bytes"],
        "doc": "Text, or the bytes of a file; null for DELETE and where `claim` is given.",
        "default": None,
    }


def test_what_has_a_default_in_the_class_has_it_in_the_contract() -> None:
    assert field(DocumentChange, "principals")["default"] == []
    assert field(DocumentChange, "attributes")["default"] == {}
    assert field(DocumentChange, "priority")["default"] == 0
    assert "default" not in field(DocumentChange, "version")


def test_the_list_names_record_topic_fingerprint_and_version() -> None:
    changes = next(entry for entry in list_schemas() if entry.record == "DocumentChange")

    assert changes.topic == "documents"
    assert bytes.fromhex(changes.fingerprint) == packaged_contracts().current("DocumentChange").fingerprint
    assert changes.version == len(packaged_contracts().versions("DocumentChange"))
    assert f"{changes.sha256}  DocumentChange/{changes.version}.avsc" in SUMS.read_text(encoding="utf-8").splitlines()


def test_the_export_holds_each_contract_in_force(tmp_path: Path) -> None:
    written = export_schemas(tmp_path / "new" / "folder")

    assert [path.name for path in written] == [f"{record}.avsc" for record in CODECS]
    assert all(path.read_text(encoding="utf-8") == (HOME / path.name).read_text(encoding="utf-8") for path in written)
