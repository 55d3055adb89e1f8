"""Versions are frozen: what is written once is never written again, and a change becomes the next version."""

import hashlib
import re
import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest

import freki.schemas.avro
from freki.schemas import DocumentChange
from freki.schemas.avro import TOPICS, Codec
from freki.schemas.avro.__main__ import ContractError, write_contracts
from freki.schemas.avro.compatibility import check_frozen, check_records
from freki.schemas.avro.contracts import COMPATIBILITY, Compatibility, read_contracts
from freki.schemas.names import record

HOME = Path(freki.schemas.avro.__file__).parent
BACKWARD, FULL = Compatibility.BACKWARD_TRANSITIVE, Compatibility.FULL_TRANSITIVE


class Colour(StrEnum):
    """Of a letter."""

    RED = "RED"


class First:
    @record
    class Letter:
        """As first written."""

        text: str


class WithDocs:
    @record
    class Letter:
        """As first written, and better described."""

        text: str
        """What it says."""


class WithDefault:
    @record
    class Letter:
        """With a default for the field that had none."""

        text: str = ""


class WithField:
    @record
    class Letter:
        """With another field."""

        text: str
        colour: Colour | None = None


class WithRequiredField:
    @record
    class Letter:
        """With another field that has no default."""

        text: str
        sender: str


class WithoutField:
    @record
    class Letter:
        """With nothing of what it had."""

        sender: str = ""


def write(directory: Path, letter: type, compatibility: Compatibility = FULL) -> list[str]:
    records: Mapping[type, Compatibility] = {letter: compatibility}
    return [str(path.relative_to(directory)) for path in write_contracts(directory, records)]


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def sums(directory: Path) -> list[str]:
    return (directory / "versions" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()


def test_no_frozen_version_was_changed() -> None:
    assert check_frozen() == []


def test_digests_are_in_the_format_of_sha256sum() -> None:
    lines = sums(HOME)

    assert all(re.fullmatch(r"[0-9a-f]{64}  [A-Za-z]+/[1-9][0-9]*\.avsc", line) for line in lines)
    assert {line.split("  ")[1].split("/")[0] for line in lines} == {record.__name__ for record in TOPICS}


def test_the_versions_of_every_record_read_each_other_as_promised() -> None:
    assert [check for check in check_records() if check.problems] == []


def test_something_is_promised_of_every_record() -> None:
    assert COMPATIBILITY.keys() == TOPICS.keys()


def test_nothing_is_written_where_nothing_changed(tmp_path: Path) -> None:
    # In a copy: a test that failed here must not freeze what it found.
    copy = shutil.copytree(HOME, tmp_path / "avro")
    before = contents(copy)

    assert write_contracts(copy) == []
    assert contents(copy) == before


def test_the_first_contract_is_frozen_with_its_digest(tmp_path: Path) -> None:
    written = write(tmp_path, First.Letter)

    assert written == ["versions/Letter/1.avsc", "Letter.avsc"]
    digest = hashlib.sha256((tmp_path / "versions" / "Letter" / "1.avsc").read_bytes()).hexdigest()
    assert sums(tmp_path) == [f"{digest}  Letter/1.avsc"]


def test_a_changed_record_becomes_the_next_version_and_leaves_the_earlier_ones_alone(tmp_path: Path) -> None:
    write(tmp_path, First.Letter)
    before = contents(tmp_path)

    written = write(tmp_path, WithField.Letter)

    after = contents(tmp_path)
    assert written == ["versions/Letter/2.avsc", "Letter.avsc"]
    assert after["versions/Letter/1.avsc"] == before["versions/Letter/1.avsc"]
    assert after["versions/SHA256SUMS"].startswith(before["versions/SHA256SUMS"])
    assert check_frozen(tmp_path) == []


def test_what_the_fingerprint_leaves_out_makes_a_version_too(tmp_path: Path) -> None:
    write(tmp_path, First.Letter)

    assert write(tmp_path, WithDefault.Letter) == ["versions/Letter/2.avsc", "Letter.avsc"]


def test_a_record_that_becomes_again_what_it_was_makes_a_version_too(tmp_path: Path) -> None:
    for letter in (First.Letter, WithField.Letter, First.Letter):
        write(tmp_path, letter)
    contracts = read_contracts(tmp_path, ["Letter"])

    assert len(contracts.versions("Letter")) == 3
    data = Codec(First.Letter, contracts=contracts).encode(First.Letter(text="a"))
    assert Codec(First.Letter, contracts=contracts).decode(data) == First.Letter(text="a")


def test_a_changed_doc_makes_no_version(tmp_path: Path) -> None:
    write(tmp_path, First.Letter)
    frozen = (tmp_path / "versions" / "Letter" / "1.avsc").read_bytes()

    assert write(tmp_path, WithDocs.Letter) == ["Letter.avsc"]
    assert (tmp_path / "versions" / "Letter" / "1.avsc").read_bytes() == frozen
    assert "What it says." in read_contracts(tmp_path, ["Letter"]).current("Letter").text


@pytest.mark.parametrize("compatibility", Compatibility)
def test_a_change_that_makes_earlier_bytes_unreadable_is_refused_and_nothing_is_written(
    tmp_path: Path, compatibility: Compatibility
) -> None:
    write(tmp_path, First.Letter, compatibility)
    before = contents(tmp_path)

    with pytest.raises(
        ContractError,
        match=r"Letter: version 2 cannot read what version 1 wrote: Letter\.sender is missing and has no default",
    ):
        write(tmp_path, WithRequiredField.Letter, compatibility)

    assert contents(tmp_path) == before


def test_a_change_that_earlier_readers_cannot_read_is_refused_only_where_they_are_promised_to(tmp_path: Path) -> None:
    write(tmp_path, First.Letter, FULL)

    with pytest.raises(
        ContractError,
        match=r"Letter: version 1 cannot read what version 2 wrote: Letter\.text is missing and has no default",
    ):
        write(tmp_path, WithoutField.Letter, FULL)

    assert write(tmp_path, WithoutField.Letter, BACKWARD) == ["versions/Letter/2.avsc", "Letter.avsc"]


def test_versions_are_compared_with_all_before_them_and_not_only_with_the_last(tmp_path: Path) -> None:
    write(tmp_path, First.Letter, BACKWARD)
    write(tmp_path, WithoutField.Letter, BACKWARD)

    with pytest.raises(ContractError) as refusal:
        write(tmp_path, WithRequiredField.Letter, BACKWARD)

    assert str(refusal.value).splitlines() == [
        "Letter: version 3 cannot read what version 1 wrote: Letter.sender is missing and has no default",
        "Letter: version 3 cannot read what version 2 wrote: Letter.text is missing and has no default",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.write_text(path.read_text("utf-8") + "\n", "utf-8"), "Letter/1.avsc was changed"),
        (lambda path: path.unlink(), "Letter/1.avsc is missing"),
        (lambda path: path.with_name("2.avsc").write_bytes(path.read_bytes()), "Letter/2.avsc has no digest"),
    ],
    ids=["changed", "missing", "unlisted"],
)
def test_nothing_is_written_over_frozen_files_that_were_altered(tmp_path: Path, change: object, said: str) -> None:
    write(tmp_path, First.Letter)
    assert callable(change)
    change(tmp_path / "versions" / "Letter" / "1.avsc")
    before = contents(tmp_path)

    with pytest.raises(ContractError, match=said):
        write(tmp_path, WithField.Letter)

    assert contents(tmp_path) == before
    assert [problem.startswith(said) for problem in check_frozen(tmp_path)] == [True]


def test_a_contract_in_force_that_is_not_the_last_version_is_a_problem(tmp_path: Path) -> None:
    write_contracts(tmp_path)
    current = tmp_path / "DocumentChange.avsc"
    current.write_text(current.read_text(encoding="utf-8").replace('"priority"', '"urgency"'), encoding="utf-8")

    (check,) = [check for check in check_records(tmp_path) if check.problems]

    assert check.record == DocumentChange.__name__
    assert check.problems == ["the contract in force is not the last version: run `make schemas`"]
