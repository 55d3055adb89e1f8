"""A book becomes its chapters, in their order."""

import pytest

from freki.operators.errors import UnreadableContent
from freki.operators.parse_html import parse_html
from freki.operators.parse_office import parse_epub
from freki.operators.recognise import Profile, recognise
from freki.schemas.outline import ParsedDocument
from tests.unit.outlines import assert_outline, headings
from tests.unit.packages import archive, epub


def parsed(content: bytes) -> ParsedDocument:
    return parse_epub(content, html=parse_html)


def test_chapters_are_read_in_their_order_with_their_headings_and_tables() -> None:
    table = "<table><tr><th>Amt</th><th>Zeit</th></tr><tr><td>Bau</td><td>9</td></tr></table>"
    document = parsed(epub({"b.xhtml": "<h1>Anlegen</h1><p>Leinen fest.</p>", "a.xhtml": f"<h1>Ablegen</h1>{table}"}))

    assert_outline(document)
    assert headings(document) == [(1, "Anlegen"), (1, "Ablegen")]
    assert document.text == "Anlegen\n\nLeinen fest.\n\nAblegen\n\nAmt | Zeit\nBau | 9"
    assert document.text[document.blocks[-1].start : document.blocks[-1].header_end] == "Amt | Zeit\n"


def test_a_chapter_with_an_empty_title_or_script_is_read() -> None:
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><head>{}</head><body><p>{}</p></body></html>'
    chapters = {
        "EPUB/a.xhtml": page.format("<title/>", "eins"),
        "EPUB/b.xhtml": page.format('<title>b</title><script src="a.js"/>', "zwei"),
    }

    assert parsed(epub({"a.xhtml": "", "b.xhtml": ""}, parts=chapters)).text == "eins\n\nzwei"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_a_chapter_is_read_in_its_encoding(encoding: str) -> None:
    page = (
        f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>'
        '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>Grüße aus Köln</p></body></html>'
    )

    assert parsed(epub({"a.xhtml": ""}, parts={"EPUB/a.xhtml": page.encode(encoding)})).text == "Grüße aus Köln"


@pytest.mark.parametrize("stated", ["", ' encoding="utf-8"', ' encoding="no-such"', ' encoding="base64"'])
def test_a_chapter_that_is_damaged_or_misstates_its_encoding_keeps_its_other_words(stated: str) -> None:
    page = f'<?xml version="1.0"{stated}?><html><body><p>'.encode() + b"Gr\xff\xffe K\xc3\xb6ln</p></body></html>"

    assert parsed(epub({"a.xhtml": ""}, parts={"EPUB/a.xhtml": page})).text == "Gr\ufffd\ufffde Köln"


def test_the_metadata_are_title_and_attributes() -> None:
    document = parsed(epub({"a.xhtml": "<p>Leinen fest.</p>"}))

    assert document.title == "Handbuch der Fähre"
    assert document.attributes == {
        "author": "Ada Kühne",
        "lang": "de",
        "published": "2024-05-01",
        "modified": "2026-01-31T09:30:00Z",
    }


def test_copy_protection_is_named_and_scrambled_fonts_are_no_matter() -> None:
    def encryption(name: str) -> dict[str, str]:
        reference = f'<x:CipherReference xmlns:x="http://www.w3.org/2001/04/xmlenc#" URI="{name}"/>'
        return {"META-INF/encryption.xml": f"<encryption>{reference}</encryption>"}

    chapters = {"a.xhtml": "<p>Leinen fest.</p>"}

    assert parsed(epub(chapters, parts=encryption("EPUB/font.otf"))).text == "Leinen fest."
    with pytest.raises(UnreadableContent, match="DRM"):
        parsed(epub(chapters, parts=encryption("EPUB/a.xhtml")))


def test_a_package_without_a_book_and_a_bomb_are_refused() -> None:
    with pytest.raises(UnreadableContent, match="no book"):
        parsed(archive({"mimetype": "application/epub+zip"}))
    with pytest.raises(UnreadableContent, match="FREKI_PARSING__MAX_UNPACKED_MB"):
        parse_epub(epub({"a.xhtml": "x" * 100_000}), html=parse_html, max_unpacked_bytes=50_000)


def test_a_book_is_recognised_by_its_content() -> None:
    found = recognise("book", None, epub({"a.xhtml": "<p>x</p>"}))

    assert (found.profile, found.media_type) == (Profile.EPUB, "application/epub+zip")
