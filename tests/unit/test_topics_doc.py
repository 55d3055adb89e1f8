"""What docs/topics.md says of the contracts is so."""

import re
from pathlib import Path

from freki.schemas.avro import list_schemas
from freki.schemas.avro.contracts import packaged_contracts

PAGE = (Path(__file__).parents[2] / "docs" / "topics.md").read_text(encoding="utf-8")


def test_the_headers_are_those_of_the_contracts_in_force() -> None:
    shown = dict(re.findall(r"^\| (\w+) \| `C3 01 ([0-9A-F ]+)` \|$", PAGE, flags=re.MULTILINE))

    assert {record: bytes.fromhex(header).hex() for record, header in shown.items()} == {
        entry.record: entry.fingerprint for entry in list_schemas()
    }


def test_the_fields_of_a_query_without_a_default_are_named() -> None:
    fields = packaged_contracts().current("ContextQuery").schema["fields"]
    required = [field["name"] for field in fields if "default" not in field]

    (line,) = re.findall(r"^- (.*) are required\.", PAGE, flags=re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", line)) == set(required)
