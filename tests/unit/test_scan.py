"""Content is scanned before it is parsed."""

import asyncio
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from freki.infra.claims import ClaimStore
from freki.infra.models.fake import FakeEmbedder
from freki.infra.scan import ClamdScanner, CommandScanner, open_scanner
from freki.infra.settings import ChunkingSettings, ClaimSettings, ScanSettings
from freki.operators.errors import InfectedContent
from freki.schemas import (
    DocumentChange,
    DocumentId,
    IndexOutcome,
    Operation,
    OutcomeStatus,
    RootId,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.streams.deliver.errors import ErrorAction, action_for
from freki.streams.ingest.chunk import Chunker
from freki.streams.ingest.outline import Outliner, OutlineRules
from freki.streams.ingest.parse import Parsed
from freki.streams.ports import Scanner
from freki.streams.wire.rules import limits_of
from tests.clamd import EICAR, NAME, ScriptedClamd, serving
from tests.parsing import parse_here
from tests.received import received
from tests.unit.pipelines import Pipeline
from tests.unit.presence import Presence

CLEAN = b"Die Satzung gilt." * 10_000
"""More than one block."""


def clamd_at(place: str, timeout_s: float = 30) -> ClamdScanner:
    return ClamdScanner(place, timeout_s=timeout_s)


def python(script: str, *words: str) -> CommandScanner:
    quoted = " ".join(f"'{word}'" for word in (sys.executable, "-c", script, *words))
    return CommandScanner(quoted, timeout_s=30)


@pytest.mark.parametrize("by", ["port", "socket"])
async def test_clamd_finds_what_it_knows(by: str, tmp_path: Path) -> None:
    clamd = ScriptedClamd()
    async with serving(clamd, tmp_path / "s" if by == "socket" else None) as place:
        verdicts = [await clamd_at(place).scan(content) for content in (CLEAN, CLEAN + EICAR, b"")]

    assert verdicts == [None, NAME, None]
    assert clamd.scanned == [CLEAN, CLEAN + EICAR, b""]


@pytest.mark.parametrize("reply", [b"", b"stream: Can't allocate memory ERROR\0", b"OK FOUND not\0", b"x" * 10_000])
async def test_clamd_without_a_verdict_is_asked_again(reply: bytes) -> None:
    async with serving(ScriptedClamd(reply=reply)) as place:
        with pytest.raises(Unavailable, match=f"FREKI_SCAN__CLAMD={place} gave no verdict"):
            await clamd_at(place).scan(CLEAN)


async def test_content_that_clamd_does_not_take_is_refused_and_not_passed() -> None:
    async with serving(ScriptedClamd(most=1000)) as place:
        with pytest.raises(InfraError) as failed:
            await clamd_at(place).scan(CLEAN)

    # The reply may be lost where clamd hangs up first.
    assert isinstance(failed.value, Unavailable) or "StreamMaxLength" in str(failed.value)


async def test_the_size_limit_of_clamd_is_no_reason_to_wait() -> None:
    async with serving(ScriptedClamd(reply=b"INSTREAM size limit exceeded. ERROR\0")) as place:
        with pytest.raises(Rejected, match="170000 bytes are more than clamd takes: raise StreamMaxLength"):
            await clamd_at(place).scan(CLEAN)


@pytest.mark.parametrize("place", ["127.0.0.1:9", "/nonexistent/clamd.ctl"])
async def test_clamd_that_is_down_is_asked_again(place: str) -> None:
    with pytest.raises(Unavailable, match=f"FREKI_SCAN__CLAMD={place} does not answer"):
        await clamd_at(place).scan(CLEAN)


async def test_clamd_that_says_nothing_is_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable, match=r"gave no verdict within FREKI_SCAN__TIMEOUT_S=0\.05"):
            await clamd_at(place, timeout_s=0.05).scan(b"")


FINDS = "import sys; found = b'EICAR' in {read}; print('x: {name} FOUND' if found else ''); sys.exit(found)"


@pytest.mark.parametrize("words", [("sys.stdin.buffer.read()",), ("open(sys.argv[1], 'rb').read()", "{path}")])
async def test_a_command_reads_standard_input_or_a_file(words: tuple[str, ...]) -> None:
    script = FINDS.replace("{read}", words[0]).replace("{name}", NAME).replace("'", '"')
    scanner = python(script, *words[1:])

    assert [await scanner.scan(content) for content in (CLEAN, EICAR)] == [None, NAME]


@pytest.mark.parametrize(
    ("script", "found"), [("import sys; sys.exit(1)", "found"), ('import sys; print("a\\nb"); sys.exit(1)', "a")]
)
async def test_a_command_may_name_what_it_found(script: str, found: str) -> None:
    # It need not read what it gets.
    assert await python(script).scan(CLEAN * 100) == found


@pytest.mark.parametrize("code", [2, 3, 255])
async def test_a_command_that_fails_is_run_again(code: int) -> None:
    with pytest.raises(Unavailable, match=f"ended with {code}: no database"):
        await python(f'import sys; print("no database", file=sys.stderr); sys.exit({code})').scan(CLEAN)


async def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    presence = Presence(tmp_path / "presence")
    scanner = CommandScanner(f'sh -c "{presence.hold}; sleep 600 & wait"', timeout_s=0.5)

    with pytest.raises(Unavailable, match=r"sh gave no verdict within FREKI_SCAN__TIMEOUT_S=0\.5"):
        await scanner.scan(b"")

    async with asyncio.timeout(60):
        await presence.ended()


async def test_a_command_that_is_not_there_stops_the_worker() -> None:
    with pytest.raises(Misconfigured, match="FREKI_SCAN__COMMAND=/nonexistent cannot be run: No such file"):
        await CommandScanner("/nonexistent --token hush", timeout_s=1).scan(b"")


async def test_a_command_gets_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_KAFKA__PASSWORD", "hush")

    assert await python('import os, sys; sys.exit("FREKI_KAFKA__PASSWORD" in os.environ)').scan(b"") is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"command": "a", "clamd": "b:1"}, "are both set"),
        ({"clamd": "localhost"}, "neither host:port nor"),
        ({"clamd": "host:99999"}, "neither host:port nor"),
        ({"command": "a 'b"}, "is no command"),
        ({"command": " "}, "names no program"),
    ],
)
def test_settings_that_name_no_scanner_are_refused(settings: dict[str, str], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ScanSettings.model_validate(settings)


def test_nothing_scans_unless_it_is_set() -> None:
    assert open_scanner(ScanSettings()) is None
    assert isinstance(open_scanner(ScanSettings(clamd="[::1]:3310")), ClamdScanner)
    assert isinstance(open_scanner(ScanSettings(command="/usr/bin/clamscan -")), CommandScanner)


class Finds:
    """A scanner that finds EICAR, or fails."""

    engine = "test"

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    async def scan(self, content: bytes) -> str | None:
        if self.failure:
            raise self.failure
        return NAME if EICAR in content else None


def chunker(scanner: Scanner | None, parsed: list[str], claims: ClaimSettings | None = None) -> Chunker:
    async def parse(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        parsed.append(name)
        return await parse_here(name, media_type, content)

    return Chunker(
        claims=ClaimStore(claims or ClaimSettings()),
        outliner=Outliner(
            OutlineRules(limits=limits_of(ChunkingSettings())), parse=parse, count_tokens=FakeEmbedder().count_tokens
        ),
        part_chunks=4,
        now=lambda: Timestamp(3_000),
        scanner=scanner,
    )


def a_change(**fields: Any) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("acme"),
        document_id=DocumentId("d"),
        operation=Operation.UPSERT,
        version=1,
        occurred_at=Timestamp(1_000),
        **fields,
    )


@pytest.mark.parametrize("content", [EICAR, EICAR.decode(), b"x" + EICAR])
async def test_what_is_found_is_not_parsed(content: str | bytes) -> None:
    parsed: list[str] = []
    with pytest.raises(InfectedContent) as refused:
        await chunker(Finds(), parsed).revise(received(a_change(content=content), Timestamp(2_000)))

    assert str(refused.value) == f"scan: {NAME} (test)"
    assert action_for(refused.value) is ErrorAction.DEAD_LETTER
    assert parsed == []


async def test_a_claim_is_scanned_too(tmp_path: Path) -> None:
    settings, parsed = ClaimSettings(directory=str(tmp_path)), list[str]()
    claim = await ClaimStore(settings).put(EICAR, document=RootId("0" * 32), version=1)

    with pytest.raises(InfectedContent):
        await chunker(Finds(), parsed, settings).revise(received(a_change(claim=claim), Timestamp(2_000)))
    assert parsed == []


@pytest.mark.parametrize("failure", [Unavailable("down"), Misconfigured("no program"), Rejected("too large")])
async def test_without_a_verdict_nothing_is_parsed(failure: InfraError) -> None:
    parsed: list[str] = []
    with pytest.raises(type(failure)):
        await chunker(Finds(failure), parsed).revise(received(a_change(content="Text"), Timestamp(2_000)))
    assert parsed == []


@pytest.mark.parametrize(("scanner", "told"), [(Finds(), "test: clean"), (None, "")])
async def test_the_revision_names_scanner_and_verdict(scanner: Scanner | None, told: str) -> None:
    parts = await chunker(scanner, []).revise(received(a_change(content="Text"), Timestamp(2_000)))

    assert [part.revision.scan for part in parts] == [told]


async def test_receipts_say_what_a_scan_came_to() -> None:
    pipeline = Pipeline(scanner=Finds())
    await pipeline.publish(a_change(content="Text"))
    await pipeline.publish(replace(a_change(content=EICAR), document_id=DocumentId("e")))

    receipts = [Codec(IndexOutcome).decode(sent.value or b"") for sent in pipeline.producer.to("outcomes")]
    assert {(each.document_id, each.status, each.scan, each.reason) for each in receipts} == {
        ("d", OutcomeStatus.INDEXED, "test: clean", ""),
        ("e", OutcomeStatus.REJECTED, "", f"documents: scan: {NAME} (test)"),
    }


@pytest.fixture
def real_clamd(tmp_path: Path) -> Iterator[str]:
    """Run clamd with a database that knows the hash of EICAR only."""
    program = os.environ.get("FREKI_TEST_CLAMD") or shutil.which("clamd")
    if program is None:
        pytest.skip("clamd is not installed: apt-get install clamav-daemon, or FREKI_TEST_CLAMD=/path/of/clamd")
    database, place = tmp_path / "database", tmp_path / "clamd.ctl"
    database.mkdir()
    digest = hashlib.md5(EICAR, usedforsecurity=False).hexdigest()
    (database / "eicar.hdb").write_text(f"{digest}:{len(EICAR)}:{NAME}\n", encoding="ascii")
    lines = [f"LocalSocket {place}", f"DatabaseDirectory {database}", f"TemporaryDirectory {tmp_path}"]
    (tmp_path / "clamd.conf").write_text(
        "\n".join([*lines, "Foreground yes", "StreamMaxLength 1M", ""]), encoding="ascii"
    )
    with (tmp_path / "log").open("wb") as log:
        clamd = subprocess.Popen([program, "--config-file", str(tmp_path / "clamd.conf")], stdout=log, stderr=log)
        try:
            until = time.monotonic() + 60
            while not place.exists():
                assert clamd.poll() is None, (tmp_path / "log").read_text(encoding="utf-8")
                assert time.monotonic() < until
                time.sleep(0.05)
            yield str(place)
        finally:
            clamd.terminate()
            clamd.wait()


async def test_clamd_itself_finds_eicar(real_clamd: str) -> None:
    scanner = clamd_at(real_clamd)

    # Its database has the hash of a whole file.
    assert [await scanner.scan(content) for content in (CLEAN, EICAR, b"")] == [None, f"{NAME}.UNOFFICIAL", None]
    with pytest.raises(InfraError) as failed:
        await scanner.scan(b"x" * 2_000_000)
    assert isinstance(failed.value, Unavailable) or "StreamMaxLength" in str(failed.value)
