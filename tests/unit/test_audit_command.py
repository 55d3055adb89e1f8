"""`freki audit` on files."""

import json
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest
from typer.testing import CliRunner

from freki.cli.main import app
from freki.infra.audit import create_chain
from freki.infra.signing import SigningKey
from freki.operators.audit_chain import GENESIS, Event, link, signed
from freki.schemas import AuditedDocument, AuditKind, DocumentId, TenantId, Timestamp

pytestmark = pytest.mark.usefixtures("folder")
WRITER = "1700000000000-aa"
KINDS = [AuditKind.OPENED, AuditKind.ASKED, AuditKind.ASKED, AuditKind.PUBLISHED, AuditKind.CLOSED]


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["audit", *map(str, arguments)], env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    code, public = run("keys", "make", tmp_path / "audit.key")
    assert code == 0
    (tmp_path / "audit.pub").write_text(public)
    monkeypatch.setenv("FREKI_AUDIT__KEY_FILE", str(tmp_path / "audit.key"))
    key, file, previous = SigningKey.read(tmp_path / "audit.key"), create_chain(tmp_path / "log", WRITER), GENESIS
    for sequence, kind in enumerate(KINDS):
        event = Event(
            kind=kind,
            tenant=TenantId("hr"),
            asker="ada" if kind is AuditKind.ASKED else "",
            documents=(AuditedDocument(document_id=DocumentId(f"doc/{sequence}"), version=1),),
            text_hash=key.hash_text("Wer?" if sequence == 1 else "Was?"),
        )
        at = Timestamp(1_700_000_000_000 + sequence * 1000)
        entry = signed(link(event, writer=WRITER, sequence=sequence, at=at, previous=previous), key.sign)
        file.append([entry])
        previous = entry.hash
    file.close()
    return tmp_path / "log"


def test_a_whole_log_is_verified_with_either_key(log: Path, tmp_path: Path) -> None:
    assert run("verify", "--file", log) == (0, f"file {WRITER}: 5 entries to 4, signed to 4; closed\n")
    assert run("verify", "--file", log, "--public-key", tmp_path / "audit.pub")[0] == 0
    assert run("keys", "show") == (0, (tmp_path / "audit.pub").read_text())


def test_what_is_wrong_is_named_by_writer_and_sequence(log: Path) -> None:
    (path,) = log.glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)

    path.write_text("".join([*lines[:2], *lines[3:]]))
    missing = run("verify", "--file", log)
    path.write_text("".join(lines).replace("doc/2", "doc/9"))
    altered = run("verify", "--file", log, "--json")
    path.write_text("".join([*lines[:3], "nonsense\n", *lines[3:]]))
    damaged = run("verify", "--file", log)

    assert missing[0] == altered[0] == damaged[0] == 1
    assert f"MISSING {WRITER} 2: the chain goes on after it" in missing[1]
    (fault,) = json.loads(altered[1])["faults"]
    assert (fault["kind"], fault["writer"], fault["first"], fault["last"]) == ("ALTERED", WRITER, 2, 2)
    assert f"{path}:4: no entry of an audit log" in damaged[1].replace("\n", "")


@pytest.mark.parametrize("is_left", [False, True], ids=["deleted", "emptied"])
def test_a_chain_whose_whole_file_is_gone_is_missed_where_its_mark_says_what_was_sent(
    log: Path, *, is_left: bool
) -> None:
    (log / "1700000000001-bb.sent").write_text("6\n", encoding="ascii")
    if is_left:
        (log / "1700000000001-bb.jsonl").touch()

    code, printed = run("verify", "--file", log)

    assert code == 1
    assert "MISSING 1700000000001-bb 0 to 6: they were sent to the topic" in printed


def test_a_chain_that_was_cut_off_behind_its_mark_is_missed(log: Path) -> None:
    (path,) = log.glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.with_suffix(".sent").write_text("4\n")
    path.write_text("".join(lines[:3]))

    code, printed = run("verify", "--file", log)

    assert code == 1
    assert f"MISSING {WRITER} 3 to 4: they were sent to the topic" in printed


def test_a_copy_that_finds_no_room_leaves_no_part_of_it_and_can_be_made_again(log: Path, tmp_path: Path) -> None:
    before, limits = sorted(tmp_path.iterdir()), getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (100, limits[1]))
    try:
        full = run("export", tmp_path / "copy", "--file", log)
    finally:
        setrlimit(RLIMIT_FSIZE, limits)
    left = sorted(tmp_path.iterdir())
    again = run("export", tmp_path / "copy", "--file", log)
    other = run("export", tmp_path / "copy", "--file", log)

    assert full[0] == other[0] == 2
    assert "copy: File too large; name a new folder" in full[1]
    assert left == before
    assert again[0] == 0
    assert run("verify", "--file", tmp_path / "copy")[0] == 0


@pytest.mark.parametrize("command", ["search", "export"])
def test_lines_that_are_no_entries_are_told_by_search_and_export_too(log: Path, tmp_path: Path, command: str) -> None:
    (path,) = log.glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "nonsense\n", *lines[3:]]))

    code, printed = run(command, *([tmp_path / "copy"] if command == "export" else []), "--file", log)

    assert code == 1
    assert f"{path}:4: no entry of an audit log" in printed.replace("\n", "")
    assert "doc/3" in (printed if command == "search" else (tmp_path / "copy" / f"{WRITER}.jsonl").read_text())


def test_what_somebody_forged_is_shown_and_exported_by_any_name_and_time(tmp_path: Path) -> None:
    file = create_chain(tmp_path / "forged", WRITER)
    for writer in ("../a", "../../a", "\0"):
        event = Event(kind=AuditKind.ASKED)
        file.append([link(event, writer=writer, sequence=0, at=Timestamp(2**62), previous=GENESIS)])
    file.close()

    searched = run("search", "--file", tmp_path / "forged")
    exported = run("export", tmp_path / "copy", "--file", tmp_path / "forged")

    assert (searched[0], searched[1].count(f"{2**62} ms")) == (0, 3)
    assert exported[0] == 0
    assert len(list((tmp_path / "copy").glob("*.jsonl"))) == 3


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("--kind", "asked"), [1, 2]),
        (("--kind", "asked", "--kind", "closed"), [1, 2, 4]),
        (("--principal", "ada"), [1, 2]),
        (("--document", "doc/3"), [3]),
        (("--tenant", "sales"), []),
        (("--since", "2023-11-14T22:13:23"), [3, 4]),
        (("--text", "Wer?"), [1]),
    ],
)
def test_entries_are_found(log: Path, options: tuple[str, ...], found: list[int]) -> None:
    code, output = run("search", "--file", log, *options, "--json")

    assert (code, [json.loads(line)["sequence"] for line in output.splitlines()]) == (0, found)


def test_without_a_log_or_a_key_the_fix_is_named(tmp_path: Path) -> None:
    assert "FREKI_AUDIT__KEY_FILE is not set" in run("verify", "--file", tmp_path)[1]
    code, output = run("search", "--file", tmp_path)
    assert code == 2
    assert "has no file of an audit log" in output.replace("\n", " ")


def test_where_no_log_is_the_message_names_setting_and_option() -> None:
    code, printed = run("search")

    assert code == 2
    assert "FREKI_AUDIT__DIRECTORY" in printed
    assert "--topic" in printed
