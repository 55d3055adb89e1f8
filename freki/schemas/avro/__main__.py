"""Write the contracts derived from the record classes: `python -m freki.schemas.avro`."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from freki.schemas.avro.compatibility import broken_promises
from freki.schemas.avro.contracts import COMPATIBILITY, Compatibility, Contract, frozen_contracts
from freki.schemas.avro.derive import derive_schema
from freki.schemas.avro.frozen import altered_files, freeze


class ContractError(ValueError):
    """The contracts cannot be written; each line of the message names one reason."""


def write_contracts(directory: Path, records: Mapping[type, Compatibility] = COMPATIBILITY) -> list[Path]:
    """Write `<record>.avsc`, and freeze the next `versions/<record>/<n>.avsc` where more than docs changed.

    Existing versions are never written. Returns new and changed files. Raises ContractError, before anything is
    written, where a frozen file was altered or a new version violates the compatibility of its record.
    """
    if altered := altered_files(directory / "versions"):
        raise ContractError("\n".join(altered))
    drafts = [_draft(record, directory) for record in records]
    problems = [
        f"{draft.record}: {problem}"
        for draft, compatibility in zip(drafts, records.values(), strict=True)
        for problem in broken_promises(draft.versions, compatibility)
    ]
    if problems:
        raise ContractError("\n".join(problems))
    return [path for draft in drafts for path in _write(draft, directory)]


def contract_text(record: type) -> str:
    """Return the contract of a record as the content of its file."""
    return json.dumps(derive_schema(record), indent=2, ensure_ascii=False) + "\n"


class _Draft(NamedTuple):
    """The files to be written for a record."""

    record: str
    versions: list[Contract]
    """Frozen versions, and the next one where it is new."""
    new: bool
    text: str


def _draft(record: type, directory: Path) -> _Draft:
    frozen = frozen_contracts(directory, record.__name__)
    contract = Contract(contract_text(record))
    new = not frozen or contract.differs_from(frozen[-1])
    return _Draft(record.__name__, [*frozen, contract] if new else frozen, new, contract.text)


def _write(draft: _Draft, directory: Path) -> list[Path]:
    written = []
    if draft.new:
        written.append(freeze(directory / "versions", f"{draft.record}/{len(draft.versions)}.avsc", draft.text))
    current = directory / f"{draft.record}.avsc"
    if not current.exists() or current.read_text(encoding="utf-8") != draft.text:
        current.write_text(draft.text, encoding="utf-8")
        written.append(current)
    return written


if __name__ == "__main__":
    try:
        for path in write_contracts(Path(__file__).parent):
            print(path)  # noqa: T201 - a command's answer
    except ContractError as error:
        sys.exit(f"Nothing was written.\n{error}")
