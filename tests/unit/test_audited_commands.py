"""What commands that read and write topics and store by themselves leave in the audit log."""

import getpass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from freki.cli.audited import MOST_DOCUMENTS, events_of, record_command
from freki.cli.main import app
from freki.infra.audit import read_chains
from freki.infra.settings import Settings
from freki.operators.audit_chain import Event
from freki.schemas import AuditEntry, AuditKind
from tests.unit.test_audit_command import WRITER, log, run

__all__ = ["log"]
pytestmark = pytest.mark.usefixtures("folder")


def events(documents: int) -> list[Event]:
    named = [(f"akte/{number}", 1) for number in range(documents)]
    return list(events_of(Settings(), AuditKind.REPORTED, "freki documents list", tenant="hr", documents=named))


@pytest.mark.parametrize("documents", [0, 1, MOST_DOCUMENTS, MOST_DOCUMENTS + 1])
def test_each_document_is_named_once_by_who_ran_the_command(documents: int) -> None:
    found = events(documents)

    assert [each.document_id for event in found for each in event.documents] == [f"akte/{n}" for n in range(documents)]
    assert len(found) == max(1, -(-documents // MOST_DOCUMENTS))
    assert {(event.asker, event.tenant, event.reason, event.subject) for event in found} == {
        (f"os:{getpass.getuser()}", "hr", "freki documents list", "g1")
    }


async def test_without_a_log_nothing_is_opened() -> None:
    await record_command(Settings(), AuditKind.EXPORTED, "freki export a")


def test_a_copy_of_the_log_is_verified_by_the_key_that_lies_beside_it(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "for-the-auditor"

    code, printed = run("export", copy, "--file", log)
    again, refused = run("export", copy, "--file", log)

    assert (code, printed.replace("\n", "")) == (0, f"5 entries of 1 writer: {copy}")
    assert again == 2, refused
    assert run("verify", "--file", copy, "--public-key", copy / "public.pem")[0] == 0
    entries = [entry for _, entry in read_chains([copy])]
    assert [entry.sequence for entry in entries if isinstance(entry, AuditEntry)] == [0, 1, 2, 3, 4]
    assert (copy / f"{WRITER}.jsonl").read_bytes() == (log / f"{WRITER}.jsonl").read_bytes()


def test_the_command_is_described() -> None:
    assert "export" in CliRunner().invoke(app, ["audit", "--help"]).output
