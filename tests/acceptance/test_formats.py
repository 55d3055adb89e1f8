"""Files as offices have them: published as a folder, cited by page, and refused with the fix."""

import re
import secrets
from pathlib import Path

import pytest

from freki.schemas import OutcomeStatus
from freki.streams.wire.replaying import read_letters
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import ask, freki_command, publish, upsert
from tests.files import docx_of, pdf_of

FEES = "Gebühren\nDer Reisepass kostet für Erwachsene siebzig Euro."
TIMES = "Fristen\nDer Antrag auf einen Reisepass dauert vier Wochen, im Sommer auch sechs."
HANDBOOK = pdf_of(FEES, TIMES)


@pytest.fixture
def tenant(monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"formats-{secrets.token_hex(4)}"
    monkeypatch.setenv("FREKI_TENANT", name)
    return name


async def test_a_folder_of_files_is_published_cited_by_page_and_what_cannot_be_read_is_named(
    freki: Freki, tenant: str, tmp_path: Path
) -> None:
    folder = tmp_path / "handbuch"
    folder.mkdir()
    (folder / "handbuch.pdf").write_bytes(HANDBOOK)
    (folder / "reise.docx").write_bytes(docx_of("Dienstreisen", "Die Bahnfahrt in der zweiten Klasse wird erstattet."))
    (folder / "geheim.pdf").write_bytes(pdf_of(FEES, locked=True))
    (folder / "halb.pdf").write_bytes(HANDBOOK[: len(HANDBOOK) // 3])

    code, printed = await freki_command(freki, "publish", str(folder), "--wait")
    result = await ask(freki, tenant, "Wie lange dauert der Antrag auf einen Reisepass?")
    other = await ask(freki, tenant, "Wird die Bahnfahrt erstattet?")
    letters = {letter.key: letter for letter in (await read_letters(freki.settings)).by_place.values()}

    assert code == 1
    assert "2 indexed" in printed
    assert "2 rejected" in printed
    hit = next(hit for hit in result.hits if "vier Wochen" in hit.text)
    assert hit.last_page == 2
    assert re.search(r"handbuch\.pdf, S\. (1–)?2 \| chunk:", hit.citation)
    assert hit.citation in result.context
    assert other.hits[0].citation == f"[QUELLE-1: reise.docx | chunk:{other.hits[0].chunk_id}]"
    assert "without a password" in letters[f"{tenant}/handbuch/geheim.pdf".encode()].message
    assert "damaged" in letters[f"{tenant}/handbuch/halb.pdf".encode()].message
    assert all(letter.traceback == "" for letter in letters.values() if letter.key and tenant.encode() in letter.key)


async def test_a_refused_file_is_answered_with_a_receipt_and_the_corrected_one_is_indexed(
    freki: Freki, tenant: str
) -> None:
    (refused,) = await publish(freki, upsert(tenant, "h.pdf", pdf_of(FEES, locked=True), version=1))
    (indexed,) = await publish(freki, upsert(tenant, "h.pdf", HANDBOOK, version=2))

    assert refused.status is OutcomeStatus.REJECTED
    assert refused.reason.startswith("chunk: h.pdf: encrypted")
    assert indexed.status is OutcomeStatus.INDEXED


async def test_scanned_pages_are_told_in_the_receipt(freki: Freki, tenant: str) -> None:
    pages = [TIMES if number in {0, 4} else FEES for number in range(7)]

    (partly,) = await publish(freki, upsert(tenant, "teils.pdf", pdf_of(*pages, None, None, None), version=1))
    (scan,) = await publish(freki, upsert(tenant, "scan.pdf", pdf_of(None, None), version=1))

    assert partly.status is OutcomeStatus.INDEXED
    assert partly.reason == "no text was found on pages 8-10: run OCR over the document, such as ocrmypdf"
    assert scan.status is OutcomeStatus.REJECTED
    assert "no text on 2 of 2 pages, so this is a scan" in scan.reason


SUBJECTS = ("Archiv", "Kantine", "Fuhrpark", "Postlauf", "Telefonie", "Hausmeisterei", "Schließanlage")


def page_on(subject: str) -> str:
    lines = [f"Für {subject} gilt: Wer {what}, fragt vorher die Leitung." for what in ("plant", "bestellt", "ändert")]
    return "\n".join([subject, *lines])


async def test_a_page_more_at_the_beginning_embeds_that_page_and_moves_the_citations(freki: Freki, tenant: str) -> None:
    # Long enough to be a chunk of its own.
    dated = (
        f"{TIMES}\nDie Frist beginnt, sobald alle Unterlagen vorliegen und die Gebühr bezahlt ist; Eiliges geht vor."
    )
    pages = [*map(page_on, SUBJECTS), dated]
    await publish(freki, upsert(tenant, "akten.pdf", pdf_of(*pages), version=1))

    more = pdf_of(page_on("Vorwort"), *pages)
    (moved,) = await publish(freki, upsert(tenant, "akten.pdf", more, version=2))

    result = await ask(freki, tenant, "Wie lange dauert der Antrag auf einen Reisepass?")
    hit = next(hit for hit in result.hits if "vier Wochen" in hit.text)
    # The new page, and the extract that stands for the whole document.
    assert (moved.embedded, moved.chunks) == (2, len(pages) + 2)
    assert (hit.first_page, hit.last_page) == (len(pages) + 1, len(pages) + 1)
