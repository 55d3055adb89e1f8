"""Content is read as what it is, or refused with a reason."""

from io import BytesIO
from zipfile import ZIP_BZIP2, ZIP_LZMA, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.errors import UnreadableContent
from freki.operators.recognise import Profile, recognise
from tests.unit.packages import archive, docx, odt, opendocument, pptx, xlsx
from tests.unit.pdfs import pdf

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
FILES = [
    (pdf(b""), Profile.PDF),
    (docx(""), Profile.DOCX),
    (odt(""), Profile.ODT),
    (opendocument("presentation", ""), Profile.ODP),
    (opendocument("spreadsheet", ""), Profile.ODS),
    (pptx(""), Profile.PPTX),
    (xlsx({"A": [["x"]]}), Profile.XLSX),
]


@pytest.mark.parametrize(
    ("name", "media_type", "profile"),
    [
        ("notes.md", None, Profile.MARKDOWN),
        ("NOTES.MD", "application/octet-stream", Profile.MARKDOWN),
        ("pep-0440.rst", "text/plain", Profile.RST),
        ("page.htm", None, Profile.HTML),
        ("main.go", None, Profile.CODE),
        ("data.csv", None, Profile.CSV),
        ("README", None, Profile.TEXT),
        ("Go", None, Profile.TEXT),
        ("Anlage 3.C", None, Profile.TEXT),
        ("Kapitel 2.1.c", None, Profile.TEXT),
        ("analysis.R", None, Profile.CODE),
        ("week3.c", None, Profile.CODE),
        ("Makefile", None, Profile.CODE),
        ("notes.txt", "text/markdown; charset=utf-8", Profile.MARKDOWN),
        ("feed", "text/x-python", Profile.CODE),
        ("https://example.org/a/", "text/html", Profile.HTML),
    ],
)
def test_media_type_then_extension_say_what_it_is(name: str, media_type: str | None, profile: Profile) -> None:
    assert recognise(name, media_type, "Hallo").profile is profile


def test_the_media_type_says_more_than_plain_text_where_the_name_does() -> None:
    assert recognise("a.md", "text/plain", "Hallo").media_type == "text/markdown"
    assert recognise("a.csv", "text/csv; header=present", "a,b").media_type == "text/csv"


def test_a_page_without_a_name_is_told_by_its_beginning() -> None:
    recognised = recognise("download", None, "<!-- saved -->\n<!DOCTYPE html><html><p>Hallo</html>")

    assert recognised.profile is Profile.HTML
    assert recognised.media_type == "text/html"


GERMAN = "Grüße aus Köln, und das Porto übernimmt der Empfänger der Straßenkarte.\n" * 3
RUSSIAN = "Договор аренды жилого помещения заключается в письменной форме.\n"
POLISH = "Umowa najmu lokalu mieszkalnego powinna być zawarta na piśmie, źródło jak wyżej.\n"
JAPANESE = "賃貸借契約は書面で締結しなければならない。\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((GERMAN, encoding) for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")),
        *((GERMAN, encoding) for encoding in ("cp1252", "iso8859-1", "iso8859-15", "mac-roman", "cp850", "cp437")),
        *((RUSSIAN, encoding) for encoding in ("koi8-r", "cp1251", "cp866", "utf-16")),
        *((POLISH, encoding) for encoding in ("cp1250", "iso8859-2", "cp852")),
        *((JAPANESE, encoding) for encoding in ("shift_jis", "euc_jp", "iso2022_jp")),
        ("住房租赁合同应当采用书面形式。承租人应当在每月十日前支付租金。", "gb18030"),
        ("Viele Grüße", "cp1252"),
        ("\x1b[1mfett\x1b[0m" + " und so weiter" * 30, "ascii"),
    ],
)
def test_text_is_decoded_whatever_its_encoding(text: str, encoding: str) -> None:
    assert recognise("a.txt", None, text.encode(encoding)).content == text


@pytest.mark.parametrize(
    ("name", "media_type", "text"),
    [
        ("a.txt", "text/plain; charset=ISO-8859-3", "Ĝis la revido, ĉiuj ŝatas ĝin."),
        ("a.html", None, "<html><head><meta charset='iso-8859-3'></head><p>Ĝis ŝatas</html>"),
        ("a.html", None, '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-3"><p>Ĝis ŝatas'),
        ("a.xml", None, "<?xml version='1.0' encoding='iso-8859-3'?><a>Ĝis ŝatas</a>"),
        ("a.py", None, "# -*- coding: iso-8859-3 -*-\nĜis = 'ŝatas'\n"),
    ],
)
def test_an_encoding_that_is_stated_is_taken(name: str, media_type: str | None, text: str) -> None:
    assert recognise(name, media_type, text.encode("iso8859-3")).content == text


@pytest.mark.parametrize("stated", ["utf-8", "iso-8859-1", "ascii", "rot13", "unicode_escape", "none", "\u00e4"])
def test_an_encoding_that_is_stated_wrongly_does_no_harm(stated: str) -> None:
    text = f"<meta charset='{stated}'><p>Grüße – über 5 € aus Köln für die Straßenkarte, natürlich.</p>"

    assert recognise("a.html", None, text.encode("cp1252")).content == text


@pytest.mark.parametrize("misread_as", ["cp1252", "mac-roman", "iso8859-1"])
@pytest.mark.parametrize("text", [GERMAN, RUSSIAN, "„Schöne Grüße“ – für 5 € …"])
def test_text_that_was_read_in_a_wrong_encoding_and_saved_again_is_restored(text: str, misread_as: str) -> None:
    # Windows reads bytes that cp1252 does not have as control characters.
    misread = "".join(bytes([byte]).decode(misread_as, errors="ignore") or chr(byte) for byte in text.encode())

    assert recognise("a.txt", None, misread.encode()).content == text
    assert recognise("a.md", None, misread.encode("utf-8-sig")).content == text


@pytest.mark.parametrize(
    "text",
    [
        f"{GERMAN} Aus ä wird Ã¤, aus ö wird Ã¶, aus ü wird Ã¼, aus ß wird ÃŸ.",
        "An e with an acute accent that was read as Latin-1 looks like Ã©.",
        "São Paulo, Österreich, Übermaß, √2, ±5 %, Ça va",
    ],
)
def test_text_of_which_only_examples_look_misread_stays(text: str) -> None:
    assert recognise("a.txt", None, text.encode()).content == text


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    assert recognise("a.txt", None, "\ufeffHallo").content == "Hallo"


@pytest.mark.parametrize("content", ["", b""])
def test_empty_content_is_valid(content: str | bytes) -> None:
    assert recognise("a.md", None, content).content == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04\x14\x00other/archive", "a ZIP archive, which is not read"),
        (archive({"mimetype": "application/x-krita"}), "application/x-krita, which is not read"),
        (archive({"word/a.xml": "no package"}), "a ZIP archive, which is not read"),
        (OLE, "an old Office file; save it as DOCX, XLSX or PPTX"),
        (OLE + "WordDocument\0".encode("utf-16-le"), "DOC, .* which is not read; save it as DOCX"),
        (OLE + "Workbook\0".encode("utf-16-le"), "XLS, .* which is not read; save it as XLSX"),
        (OLE + "PowerPoint Document\0".encode("utf-16-le"), "PPT, .* which is not read; save it as PPTX"),
        (OLE + "EncryptedPackage\0".encode("utf-16-le"), "with a password; save it without one"),
        (b"%!PS-Adobe-3.0", "PostScript, which is not read; save it as PDF"),
        (b"\x78\x9f\x3e\x22\x01\x00\x01", r"winmail.dat \(TNEF\), .*; save it as EML"),
        (b"{\\rtf1 Hallo}", "RTF, which is not read"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a picture, which is not read; run OCR over it"),
        (bytes(range(128, 256)), "not UTF-8 at byte 0"),
        (b"abc\x00def", "NUL at character 3"),
        ("Grüße, ".encode() * 20 + b"\xff" + b"Ende", "not UTF-8 at byte 180"),
        ("Hallo".encode("utf-16")[:-1], "not UTF-16"),
        (b"\x01\x02\x03 words", "control characters, the first at character 0"),
        ("half \ud800 pair", "surrogate pair at character 5"),
    ],
)
def test_what_is_no_text_is_refused_with_the_place(content: str | bytes, reason: str) -> None:
    with pytest.raises(UnreadableContent, match=f"a.txt: .*{reason}"):
        recognise("a.txt", None, content)


@pytest.mark.parametrize("name", ["a.bin", "a.txt", "a.pdf", "a.docx"])
@pytest.mark.parametrize("media_type", [None, "text/plain", "application/pdf", "message/rfc822"])
@pytest.mark.parametrize(("content", "profile"), FILES)
def test_a_file_is_what_it_begins_as_whatever_it_is_called(
    name: str, media_type: str | None, content: bytes, profile: Profile
) -> None:
    recognised = recognise(name, media_type, content)

    assert (recognised.profile, recognised.content) == (profile, content)


def test_a_pdf_may_begin_late_where_it_is_declared() -> None:
    assert recognise("a.pdf", None, b"\x00junk\n%PDF-1.4").profile is Profile.PDF
    assert recognise("a.md", None, b"A file that begins with %PDF-1.4 is a PDF.").profile is Profile.MARKDOWN


def test_a_damaged_archive_goes_to_the_parser_that_it_is_declared_for() -> None:
    assert recognise("a.docx", None, docx("")[:-30]).profile is Profile.DOCX


@pytest.mark.parametrize(("packing", "damage"), [(ZIP_BZIP2, b"\xff" * 9), (ZIP_LZMA, bytes(9))])
def test_an_archive_whose_kind_is_packed_as_none_is_and_damaged_is_refused(packing: int, damage: bytes) -> None:
    packed = BytesIO()
    with ZipFile(packed, "w", packing) as written:
        written.writestr("mimetype", "application/epub+zip" * 50)
    content = packed.getvalue()
    start = content.index(b"mimetype") + len(b"mimetype")

    with pytest.raises(UnreadableContent, match=r"a\.zip: a ZIP archive, which is not read"):
        recognise("a.zip", None, content[:start] + damage + content[start + len(damage) :])


MAIL = b"Received: from x\r\n\tby y\r\nFrom: a@example.org\r\nDate: Mon, 5 Jan 2026 10:00:00 +0100\r\n\r\nHallo"


def test_a_mail_is_told_by_its_name_or_its_headers() -> None:
    assert recognise("a.eml", None, b"Subject: x\n\ny") == ("message/rfc822", Profile.EMAIL, b"Subject: x\n\ny", "")
    assert recognise("download", None, MAIL).profile is Profile.EMAIL
    assert recognise("a", "message/rfc822", "Subject: x").profile is Profile.EMAIL


def test_text_with_headers_is_no_mail_where_it_says_so() -> None:
    assert recognise("a.txt", None, MAIL).profile is Profile.TEXT
    assert recognise("a", "text/plain", MAIL).profile is Profile.TEXT
    assert recognise("a", None, b"From: us\nTo: you\n\nText").profile is Profile.TEXT


@pytest.mark.parametrize("content", [b"no magic number", b"", b"\x00\xff"])
def test_bytes_that_claim_to_be_a_file_are_refused(content: bytes) -> None:
    for name in ("a.pdf", "a.docx", "a.odt", "a.pptx", "a.xlsx"):
        with pytest.raises(UnreadableContent, match=f"{name}: not the file that it claims to be"):
            recognise(name, None, content)


def test_a_pdf_that_became_text_on_its_way_is_refused() -> None:
    with pytest.raises(UnreadableContent, match="send its bytes"):
        recognise("a.txt", "text/plain", "%PDF-1.7")


@pytest.mark.parametrize(("media_type", "content"), [(None, "Text"), ("text/plain", b"Text")])
def test_the_text_of_a_pdf_may_bear_its_name(media_type: str | None, content: str | bytes) -> None:
    assert recognise("a.pdf", media_type, content) == ("text/plain", Profile.TEXT, "Text", "")


@pytest.mark.parametrize(
    ("name", "media_type", "text", "language"),
    [
        ("a.py", None, "x = 1", "python"),
        ("a.tsx", None, "x", "tsx"),
        ("a.h", None, "int a;", "cpp"),
        ("A.JAVA", "text/plain", "class A {}", "java"),
        ("download", "text/x-python", "x = 1", "python"),
        ("download", "application/sql", "select 1", "sql"),
        ("run", None, "#!/usr/bin/env python3\nx = 1", "python"),
        ("run", None, "#!/usr/bin/python3.11 -u\nx = 1", "python"),
        ("run", None, "#!/bin/sh\nls", ""),
        ("a.yaml", None, "a: 1", ""),
        ("de.ts", None, "<?xml version='1.0'?><TS/>", ""),
        ("Makefile", None, "all:\n", ""),
    ],
)
def test_the_language_of_code_is_told(name: str, media_type: str | None, text: str, language: str) -> None:
    recognised = recognise(name, media_type, text)

    assert (recognised.profile, recognised.language) == (Profile.CODE, language)


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff")))
def test_text_comes_back_from_its_bytes(text: str) -> None:
    assert recognise("a.txt", None, text.encode()).content == text


@given(content=st.binary())
def test_any_bytes_are_text_or_refused(content: bytes) -> None:
    try:
        recognised = recognise("a", None, content)
    except UnreadableContent:
        return
    assert "\x00" not in recognised.content


NOTES = """# Mietrecht

Stand: 2024

## Kaution

Der Vermieter darf höchstens drei Monatsmieten verlangen.

```sh
# kein Titel
rent = 3
```

### Frist
Sie endet am dritten Werktag des Monats.

## Ende
"""


@pytest.mark.parametrize("name", ["a.txt", "README", "a.log"])
@pytest.mark.parametrize("text", [NOTES, f"\n{NOTES}", NOTES.replace("\n", "\r\n"), NOTES.replace("```", "~~~~")])
def test_text_that_is_markdown_beyond_doubt_is_read_as_markdown(name: str, text: str) -> None:
    recognised = recognise(name, "text/plain", text)

    assert recognised[:2] == ("text/markdown", Profile.MARKDOWN)
    assert recognise(name, None, text.encode()).profile is Profile.MARKDOWN


SENTENCE = "Der Vermieter darf höchstens drei Monatsmieten verlangen."


@pytest.mark.parametrize(
    "text",
    [
        f"{SENTENCE}\n\n{NOTES}",
        NOTES.replace("## Ende", "##Ende"),
        NOTES.replace("## Ende", "## ##"),
        NOTES.replace("## Ende", "#!/bin/sh"),
        NOTES.replace("## Ende", "#### Ende").replace("### Frist", "## Frist"),
        NOTES.replace("\n### Frist", "Text\n### Frist"),
        NOTES.replace("```", "``"),
        NOTES.replace("Stand: 2024", "stand: 2024"),
        NOTES.replace("Stand: 2024", "Stand = 2024"),
        f"# Miete\n\n{SENTENCE}\n\n# Kaution\n\n{SENTENCE}\n",
        "# Miete\n\n## Kaution\n\nDrei Monate.\n",
        f"#mietrecht\n\n## Kaution\n\n{SENTENCE}\n",
        "# apt update\nHit:1 mirror of the distribution\nReading package lists\n# apt upgrade\n",
        f"# Settings of the server\n\n## Ports\n\nport: 80\n\n# {SENTENCE}\n",
        f"# Settings of the server\n## Ports\n# {SENTENCE}\n\nlisten 80\n",
        f"# {SENTENCE}\n\n## Imports\n\nfrom os import path\n",
        f"# {SENTENCE}\n\n## Types\n\nclass Lease(Contract):\n    the lease has a tenant and rent\n",
        f"# {SENTENCE}\n\n## Hosts\n\n- name: all\n  what the servers have to do first\n",
        f"[10:02] Anna: # {SENTENCE}\n[10:03] Ben: ## nein\n",
    ],
)
def test_text_whose_number_signs_may_be_something_else_stays_text(text: str) -> None:
    assert recognise("a.txt", "text/plain", text)[:2] == ("text/plain", Profile.TEXT)


@pytest.mark.parametrize("piece", ["ab", "1", "ab ", "ab1", "a.b", "ab\t", " "])
def test_no_long_line_takes_long_to_be_told_from_markdown(piece: str) -> None:
    # What is quadratic would run into the suite's timeout.
    line = piece * (150_000 // len(piece)) + "1" * 150_000

    text = f"# A\n\n## B\n\n{line}\n"

    assert recognise("a.txt", "text/plain", text).content == text
