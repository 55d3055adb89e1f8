"""Bytes of every version of every record as they were once written, which stay readable for good.

`<Record>/<version>.json` holds named cases: the value in Avro's JSON encoding, and the bytes in Avro single-object
encoding as hexadecimal digits. fastavro wrote both from the frozen version. No file is ever rewritten.
"""

import json
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from fastavro import json_reader, json_writer

from freki.schemas.avro import Contract, packaged_contracts
from freki.schemas.avro.codec import parsed_schema
from freki.schemas.avro.contracts import COMPATIBILITY
from tests.avro_values import edge_of, write

HOME = Path(__file__).parent
CASES = ("least", "between", "largest")


class Golden(NamedTuple):
    """One case of one version."""

    record: str
    version: int
    case: str
    value: Any
    """Plain; times are milliseconds."""
    data: bytes

    @property
    def contract(self) -> Contract:
        """The version that wrote it."""
        return packaged_contracts().versions(self.record)[self.version - 1]


def golden_cases() -> list[Golden]:
    """Read all cases of all versions that have some."""
    written = [(record, version) for record, version in frozen_versions() if path_of(record, version).exists()]
    return [golden for record, version in written for golden in _read(record, version)]


def frozen_versions() -> list[tuple[str, int]]:
    """Name each version of each record."""
    names = [record.__name__ for record in COMPATIBILITY]
    return [(name, place + 1) for name in names for place in range(len(packaged_contracts().versions(name)))]


def path_of(record: str, version: int) -> Path:
    """Give the file of a version."""
    return HOME / record / f"{version}.json"


def write_missing() -> list[Path]:
    """Write the files of versions that have none; give them."""
    missing = [(record, version) for record, version in frozen_versions() if not path_of(record, version).exists()]
    for record, version in missing:
        _write(path_of(record, version), packaged_contracts().versions(record)[version - 1])
    return [path_of(record, version) for record, version in missing]


def _write(path: Path, contract: Contract) -> None:
    cases = {}
    for place, case in enumerate(CASES):
        value = edge_of(contract.schema, place)
        encoded = StringIO()
        json_writer(encoded, parsed_schema(contract.schema), [value])
        cases[case] = {"value": json.loads(encoded.getvalue()), "bytes": write(contract.schema, value).hex()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


def _read(record: str, version: int) -> list[Golden]:
    cases = json.loads(path_of(record, version).read_text(encoding="utf-8"))
    schema = parsed_schema(packaged_contracts().versions(record)[version - 1].schema)
    return [
        Golden(record, version, case, _plain(content["value"], schema), bytes.fromhex(content["bytes"]))
        for case, content in cases.items()
    ]


def _plain(value: Any, schema: dict[str, Any]) -> Any:
    (plain,) = json_reader(StringIO(json.dumps(value)), schema)
    return plain
