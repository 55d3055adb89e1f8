"""Scans are read where the settings name a command or a service that does."""

import asyncio
import os
import re
import shlex
import shutil
import struct
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import NoOpTracer
from pydantic import ValidationError

from freki.infra.ocr import CommandOcr, ServiceOcr, open_ocr
from freki.infra.settings import OcrSettings, Settings
from freki.infra.telemetry.calls import Calls
from freki.operators.errors import NoText, UnreadableContent
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.outline import PAGES_WITHOUT_TEXT
from freki.schemas.stalling import MAX_BATCH_S
from freki.streams.ingest.ocr import OCR, OcrParser
from freki.streams.ingest.parse import Parsed
from freki.streams.observe.meters import Meters
from freki.streams.ports import Ocr
from freki.streams.wire.parts import Parts
from tests.http_server import serving_http
from tests.parsing import parse_here
from tests.unit.pdfs import pdf, pictured, shown

ROOT = Path(__file__).parents[2]
SCAN = pdf(pictured(), pictured())
PARTLY = pdf(shown(72, 700, "Die erste Seite hat Text."), pictured())
READ = pdf(shown(72, 700, "Vier Wochen nach Zugang."), shown(72, 700, "Sie endet am Sonntag."))
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8


class ScriptedOcr:
    """Answers with what it is given, or raises it."""

    def __init__(self, answer: bytes | Exception, media_type: str = "") -> None:
        self.answer, self.media_type = answer, media_type
        self.asked: list[str] = []

    async def read(self, content: bytes, media_type: str) -> tuple[bytes, str]:
        assert content
        self.asked.append(media_type)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer, self.media_type


async def parsed(ocr: Ocr, content: bytes, name: str = "scan.pdf") -> Parsed:
    return await OcrParser(parse_here, ocr)(name, None, content)


async def test_a_scan_is_read_and_says_so() -> None:
    ocr = ScriptedOcr(READ)

    found = await parsed(ocr, SCAN)

    assert found.document.text == "Vier Wochen nach Zugang.\n\nSie endet am Sonntag."
    assert len(found.document.page_starts) == 2
    assert (found.media_type, found.document.attributes[OCR]) == ("application/pdf", "true")
    assert ocr.asked == ["application/pdf"]


@pytest.mark.parametrize(
    ("answer", "media_type"),
    [(b"Vier Wochen.", ""), (b"<p>Vier Wochen.</p>", "text/html"), (b"Vier Wochen.", "text/plain; charset=utf-8")],
)
async def test_a_picture_may_become_text(answer: bytes, media_type: str) -> None:
    ocr = ScriptedOcr(answer, media_type)

    found = await parsed(ocr, PNG, "brief.png")

    assert (found.document.text, found.media_type) == ("Vier Wochen.", "image/png")
    assert ocr.asked == ["image/png"]


async def test_what_has_text_is_not_sent() -> None:
    ocr = ScriptedOcr(Rejected("never"))

    assert OCR not in (await parsed(ocr, READ)).document.attributes
    assert (await parsed(ocr, b"Nur Text.", "a.txt")).document.text == "Nur Text."
    assert ocr.asked == []


async def test_a_document_with_some_pages_scanned_is_read_whole_or_keeps_what_it_has() -> None:
    whole = await parsed(ScriptedOcr(READ), PARTLY)
    kept = [await parsed(ScriptedOcr(answer), PARTLY) for answer in (Rejected("no"), b"%PDF-damaged", b"")]

    assert PAGES_WITHOUT_TEXT not in whole.document.attributes
    for each in kept:
        assert each.document.text == "Die erste Seite hat Text."
        assert each.document.attributes[PAGES_WITHOUT_TEXT] == "2"
        assert OCR not in each.document.attributes


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (Rejected("OCR ended with 2: bad"), Rejected, "scan.pdf: no text in it, and OCR ended with 2: bad"),
        (SCAN, UnreadableContent, "scan.pdf: no text in it, and OCR found none"),
        (b"  ", UnreadableContent, "scan.pdf: no text in it, and OCR found none"),
        (Unavailable("away"), Unavailable, "away"),
        (Misconfigured("FREKI_OCR__URL"), Misconfigured, "FREKI_OCR__URL"),
    ],
)
async def test_a_scan_that_cannot_be_read_is_refused_with_the_reason(
    answer: bytes | Exception, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await parsed(ScriptedOcr(answer), SCAN)


async def test_without_a_recogniser_the_advice_names_it() -> None:
    for name, content in (("a.pdf", SCAN), ("a.png", PNG)):
        with pytest.raises(NoText, match="set FREKI_OCR__COMMAND"):
            await parse_here(name, None, content)


# --- Commands ---


def command(script: str, *words: str, timeout_s: float = 30, max_bytes: int = 1 << 20) -> CommandOcr:
    words = (sys.executable, "-c", script, *words)
    return CommandOcr(shlex.join(words), timeout_s=timeout_s, at_once=1, max_bytes=max_bytes)


COPY = (
    "import sys; from pathlib import Path; Path(sys.argv[2]).write_bytes(b'Text of ' + Path(sys.argv[1]).read_bytes())"
)
PIPE = "import sys; sys.stdout.buffer.write(b'Text of ' + sys.stdin.buffer.read())"


@pytest.mark.parametrize(("script", "words"), [(COPY, ("{path}", "{output}")), (PIPE, ())])
async def test_a_command_gets_files_or_pipes(script: str, words: Sequence[str]) -> None:
    assert await command(script, *words).read(b"scan", "image/png") == (b"Text of scan", "")


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        ("import sys; sys.exit('bad input')", (), "OCR ended with 1: bad input"),
        ("pass", ("{output}",), "OCR wrote no file"),
    ],
)
async def test_a_command_that_fails_refuses_the_scan(script: str, words: Sequence[str], message: str) -> None:
    with pytest.raises(Rejected, match=message):
        await command(script, *words).read(b"scan", "")


def _children() -> set[str]:
    """Return the ids of processes that this one started and that it has not seen end."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


async def test_a_command_that_takes_too_long_is_killed_and_one_that_is_missing_named() -> None:
    before = _children()
    with pytest.raises(Rejected, match=r"FREKI_OCR__TIMEOUT_S=0\.05"):
        await command("import time; time.sleep(60)", timeout_s=0.05).read(b"scan", "")
    assert _children() <= before
    with pytest.raises(Misconfigured, match="FREKI_OCR__COMMAND=no-such-program cannot be run"):
        await CommandOcr("no-such-program {path}", timeout_s=5, at_once=1).read(b"scan", "")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys\nwhile True: sys.stdout.write('text ' * 1000)", ()),
        ("import sys; from pathlib import Path; Path(sys.argv[1]).write_bytes(bytes(1001))", ("{output}",)),
    ],
    ids=["pipe", "file"],
)
async def test_a_command_that_writes_without_end_refuses_the_scan(script: str, words: Sequence[str]) -> None:
    with pytest.raises(Rejected, match="OCR wrote more than 1000 bytes"):
        await command(script, *words, max_bytes=1_000).read(b"scan", "")


async def test_of_what_a_command_says_without_end_the_last_characters_are_told() -> None:
    script = "import sys; sys.stderr.write('said ' * 1_000_000); sys.exit('at last')"

    with pytest.raises(Rejected, match=r"OCR ended with 1: .{0,200}at last$"):
        await command(script).read(b"scan" * 100_000, "")


async def test_a_file_that_cannot_be_read_refuses_the_scan() -> None:
    script = "import os, sys; os.symlink('/proc/self/mem', sys.argv[1])"

    with pytest.raises(Rejected, match="OCR wrote a file that cannot be read"):
        await command(script, "{output}").read(b"scan", "")


async def test_what_a_command_left_running_with_its_output_is_killed_with_it(tmp_path: Path) -> None:
    # Shells begin at once, however busy the machine is.
    left = f"echo $$ > {shlex.quote(str(tmp_path / 'pid'))}; exec sleep 600"
    words = ["sh", "-c", f"sh -c {shlex.quote(left)} &"]

    with pytest.raises(Rejected, match="OCR took more than"):
        await CommandOcr(shlex.join(words), timeout_s=5, at_once=1).read(b"scan", "")

    pid = int((tmp_path / "pid").read_text())
    async with asyncio.timeout(30):
        while _runs(pid):  # noqa: ASYNC110 - the end of another process is no event of the loop
            await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    """Return whether a process runs; one that ended may wait for a parent to ask for its exit code."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(not (shutil.which("ocrmypdf") and shutil.which("tesseract")), reason="needs ocrmypdf and tesseract")
@pytest.mark.parametrize("name", ["scan.pdf", "photo.png"])
async def test_ocrmypdf_reads_a_scan_as_the_documentation_calls_it(name: str) -> None:
    said = re.search(r"FREKI_OCR__COMMAND='(.*)'", (ROOT / "docs/formats.md").read_text())
    assert said is not None
    ocr = open_ocr(OcrSettings(command=said.group(1).replace("deu+eng", "eng")))
    text = "The deadline is four weeks."

    assert ocr is not None
    document = (await parsed(ocr, scanned(text) if name == "scan.pdf" else photographed(text), name)).document
    assert document.text == text
    assert PAGES_WITHOUT_TEXT not in document.attributes


def photographed(text: str) -> bytes:
    """Print a page with a text, and take a picture of it that does not state its resolution."""
    from pypdfium2 import PdfDocument

    picture = PdfDocument(pdf(shown(72, 700, text, size=16)))[0].render(scale=3, grayscale=True)
    # Each line of a PNG begins with its filter.
    lines = b"".join(b"\0" + bytes(line) for line in picture.to_numpy())
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", picture.width, picture.height, 8, 0, 0, 0, 0),
        b"IDAT": zlib.compress(lines),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    )


def scanned(text: str) -> bytes:
    """Print a page with a text, and take a picture of it."""
    from pypdfium2 import PdfDocument, PdfImage, PdfMatrix

    page = PdfDocument(pdf(shown(72, 700, text, size=16)))[0]
    scan, content = PdfDocument.new(), BytesIO()
    width, height = page.get_size()
    image = PdfImage.new(scan)
    image.set_bitmap(page.render(scale=3))
    image.set_matrix(PdfMatrix().scale(width, height))
    taken = scan.new_page(width, height)
    taken.insert_obj(image)
    taken.gen_content()
    scan.save(content)
    return content.getvalue()


# --- Services ---


def answering(
    answer: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, str, bytes]],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, kind, body = answer(self, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_POST  # noqa: N815 - http.server names it

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_service_gets_the_scan_with_its_type_and_token(method: str) -> None:
    def answer(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, str, bytes]:
        seen = (request.command, request.path, request.headers["Content-Type"], request.headers["Authorization"])
        return 200, "text/plain", f"{seen} {len(body)}".encode()

    with serving_http(answering(answer)) as port:
        settings = OcrSettings.model_validate(
            {"url": f"http://127.0.0.1:{port}/tika", "method": method, "token": "opener"}
        )
        found = await ServiceOcr(settings).read(PNG, "image/png")

    assert found == (f"{(method, '/tika', 'image/png', 'Bearer opener')} {len(PNG)}".encode(), "text/plain")


@pytest.mark.parametrize(
    ("status", "error"), [(503, Unavailable), (422, Rejected), (401, Misconfigured), (404, Misconfigured)]
)
async def test_a_service_that_refuses_says_whose_fault_it_is(status: int, error: type[Exception]) -> None:
    refusing = answering(lambda _request, _body: (status, "text/plain", b"no"))
    with serving_http(refusing) as port, pytest.raises(error, match=f"answered {status}: no") as failed:
        await ServiceOcr(OcrSettings(url=f"http://127.0.0.1:{port}")).read(PNG, "image/png")

    assert type(failed.value) is error


async def test_a_refusal_with_a_charset_that_decodes_nothing_is_still_told() -> None:
    refusing = answering(
        lambda _request, _body: (503, "text/plain; charset=undefined", "später \xff".encode("latin-1"))
    )
    with serving_http(refusing) as port, pytest.raises(Unavailable, match="answered 503: sp\ufffdter \ufffd"):
        await ServiceOcr(OcrSettings(url=f"http://127.0.0.1:{port}")).read(PNG, "image/png")


async def test_a_service_that_answers_without_end_refuses_the_scan() -> None:
    long = answering(lambda _request, _body: (200, "text/plain", bytes(1_001)))
    with serving_http(long) as port, pytest.raises(Rejected, match="answered with more than 1000 bytes"):
        await ServiceOcr(OcrSettings(url=f"http://127.0.0.1:{port}"), max_bytes=1_000).read(PNG, "image/png")


async def test_a_service_that_answers_by_and_by_has_no_more_time() -> None:
    class Trickling(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b"text")
                    time.sleep(0.05)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with serving_http(Trickling) as port, pytest.raises(Rejected, match=r"FREKI_OCR__TIMEOUT_S=0\.5"):
        await asyncio.wait_for(
            ServiceOcr(OcrSettings(url=f"http://127.0.0.1:{port}", timeout_s=0.5)).read(PNG, "image/png"), 30
        )


async def test_a_service_that_is_away_is_asked_again() -> None:
    with pytest.raises(Unavailable, match=r"FREKI_OCR__URL=http://127\.0\.0\.1:9 does not answer"):
        await ServiceOcr(OcrSettings(url="http://127.0.0.1:9")).read(PNG, "image/png")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": "a", "url": "http://b"}, "FREKI_OCR__COMMAND and FREKI_OCR__URL are both set"),
        ({"command": "a 'b"}, "FREKI_OCR__COMMAND is no command"),
        ({"command": " "}, "FREKI_OCR__COMMAND names no program"),
    ],
)
def test_settings_that_name_no_recogniser_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        OcrSettings.model_validate(settings)


def test_none_is_opened_where_none_is_named() -> None:
    assert open_ocr(OcrSettings()) is None


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"ocr": {"command": "read"}},
        {"ocr": {"url": "http://127.0.0.1:1/tika"}, "parsing": {"timeout_s": 30}},
        {"ocr": {"command": "read", "timeout_s": 1_000}},
        {"parsing": {"timeout_s": 400}},
        {"ocr": {"command": "read", "timeout_s": 2_700}, "parsing": {"timeout_s": 400}},
        {"scan": {"command": "scan"}},
        {"scan": {"clamd": "127.0.0.1:1", "timeout_s": 600}, "ocr": {"command": "read"}},
        {"scan": {"clamd": "127.0.0.1:1", "timeout_s": 3_540}},
    ],
    ids=["plain", "command", "service", "slow", "slow-parser", "slowest", "scanned", "scanned-slow", "slowest-scan"],
)
def test_a_batch_of_documents_that_take_as_long_as_they_may_does_not_seem_stalled(limits: dict[str, Any]) -> None:
    """Else the worker would end, and the next one begin with the same batch, for ever."""
    settings = Settings.model_validate(limits)
    recognising_s = settings.ocr.timeout_s + settings.parsing.timeout_s if "ocr" in limits else 0.0
    scanning_s = settings.scan.timeout_s if "scan" in limits else 0.0

    batching = Parts(settings, NoOpTracer(), Meters(), Calls()).batching(parses=True)

    # The first one over its limit ends the batch, and both halves start over, down to single documents.
    assert (2 * batching.records - 1) * (settings.parsing.timeout_s + recognising_s + scanning_s) <= MAX_BATCH_S


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"scan": {"command": "scan", "timeout_s": 3_541}}, "FREKI_SCAN__TIMEOUT_S and FREKI_PARSING__TIMEOUT_S"),
        (
            {"scan": {"clamd": "127.0.0.1:1", "timeout_s": 200}, "ocr": {"command": "read", "timeout_s": 2_700}}
            | {"parsing": {"timeout_s": 400}},
            "FREKI_SCAN__TIMEOUT_S, FREKI_OCR__TIMEOUT_S and FREKI_PARSING__TIMEOUT_S let one document take 3700 s",
        ),
    ],
)
def test_limits_with_which_a_single_document_seems_stalled_are_refused(limits: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Settings.model_validate(limits)


def test_a_limit_of_scans_that_nothing_makes_is_let_pass() -> None:
    assert Settings.model_validate({"scan": {"timeout_s": 4_000}}).scan.timeout_s == 4_000


@pytest.mark.parametrize(("section", "limit_s"), [("ocr", 2_701), ("parsing", 401)])
def test_a_limit_with_which_a_single_document_seems_stalled_is_refused(section: str, limit_s: int) -> None:
    with pytest.raises(ValidationError, match="less than or equal"):
        Settings.model_validate({section: {"timeout_s": limit_s}})


def test_more_than_the_batch_of_the_settings_is_never_parsed_at_a_time() -> None:
    settings = Settings.model_validate({"ingest": {"batch_events": 2}})

    assert Parts(settings, NoOpTracer(), Meters(), Calls()).batching(parses=True).records == 2
