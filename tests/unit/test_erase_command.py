"""Reports of `freki erase` and `freki rectify`: where their files go."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from typing import Any

import pytest
import typer

from freki.cli.erase import write_report
from freki.schemas import DocumentId, ErasureStatus
from freki.schemas.erasure import SignedReport
from freki.streams.privacy.erasure import ErasureOutcome

pytestmark = pytest.mark.usefixtures("folder")
CHECKOUT = Path(__file__).parents[2]
BODY = {"documents": [{"id": "ürlaub.md", "version": 1}], "removed": [], "remains": []}


def erased() -> ErasureOutcome:
    report = SignedReport(report=json.dumps(BODY), signature="ab" * 64)
    return ErasureOutcome(status=ErasureStatus.ERASED, report=report, held={}, body=BODY)


def test_a_report_that_finds_no_room_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, limits = tmp_path / "report.json", getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(typer.Exit):
            write_report(path, erased())
    finally:
        setrlimit(RLIMIT_FSIZE, limits)
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[0]) == {"report": BODY, "signature": "ab" * 64}
    assert "File too large" in printed.err
    assert not path.exists()


def test_a_report_does_not_replace_one_that_came_meanwhile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    path.write_text("of another erasure")
    with pytest.raises(typer.Exit):
        write_report(path, erased())
    assert path.read_text() == "of another erasure"
    assert json.loads(capsys.readouterr().out.splitlines()[0])["report"] == BODY


def test_what_could_not_be_erased_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = {"records": [], "rows": {"freki_g2_chunks": 2}, "claims": ["file:///claims/ab"]}
    write_report(tmp_path / "report.json", replace(erased(), body={**BODY, "left": left}))
    printed = capsys.readouterr().out
    assert "not erased: 2 rows of freki_g2_chunks: erase again" in printed
    assert "not erased: file:///claims/ab" in printed


HELD_TOO_LATE: dict[str, Any] = {
    "held": {DocumentId("a.md"): ("K1",)},
    "body": {**BODY, "deleted_before_hold": ["a.md"]},
}


def test_a_document_that_was_held_too_late_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(tmp_path / "report.json", replace(erased(), **HELD_TOO_LATE))
    printed = capsys.readouterr().out
    assert "held: a.md, by K1: repeat this" in printed
    assert "deleted from the index before it was held: a.md" in printed


def test_documents_that_are_all_held_leave_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    write_report(path, replace(erased(), status=ErasureStatus.HELD, report=None, **HELD_TOO_LATE))
    assert "held: a.md, by K1: repeat this" in capsys.readouterr().out
    assert not path.exists()


def test_a_report_is_written_also_where_the_reader_of_the_output_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", HELD_IN_PART, str(path)],
            cwd=CHECKOUT,
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert json.loads(path.read_bytes())["signature"] == "ab" * 64, ended.stderr


HELD_IN_PART = """
import sys
from pathlib import Path
from freki.cli.erase import write_report
from tests.unit.test_erase_command import HELD_TOO_LATE, erased, replace

write_report(Path(sys.argv[1]), replace(erased(), **HELD_TOO_LATE))
"""
