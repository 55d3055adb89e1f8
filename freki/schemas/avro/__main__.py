"""Write the contracts that follow from the record classes: `python -m freki.schemas.avro`."""

import json
from pathlib import Path

from freki.schemas.avro.contracts import TOPICS, Contract
from freki.schemas.avro.derive import derive_schema


def write_contracts(directory: Path) -> list[Path]:
    """Write `<record>.avsc`, and the next `versions/<record>/<n>.avsc` where the contract changed; give what is new.

    A new version that was never committed may be deleted again; a committed one stays for good.
    """
    return [path for record in TOPICS for path in _write(record, directory)]


def contract_text(record: type) -> str:
    """Give the contract of a record as its file holds it."""
    return json.dumps(derive_schema(record), indent=2, ensure_ascii=False) + "\n"


def _write(record: type, directory: Path) -> list[Path]:
    text = contract_text(record)
    versions = directory / "versions" / record.__name__
    versions.mkdir(parents=True, exist_ok=True)
    numbered = {int(path.stem): path for path in versions.glob("*.avsc")}
    known = {Contract(path.read_text(encoding="utf-8")).fingerprint for path in numbered.values()}
    paths = [directory / f"{record.__name__}.avsc"]
    if Contract(text).fingerprint not in known:
        paths.append(versions / f"{max(numbered, default=0) + 1}.avsc")
    changed = [path for path in paths if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.write_text(text, encoding="utf-8")
    return changed


if __name__ == "__main__":
    for path in write_contracts(Path(__file__).parent):
        print(path)  # noqa: T201 - a command's answer
