import pickle

import pytest

from freki.infra.settings import ChunkingSettings
from freki.operators.errors import UnreadableContent
from freki.operators.recognise import Profile
from freki.streams.ingest.parse import LIGHT_LENGTH, PARSER_VERSIONS, Parsed, ParseLimits, by_weight, parse
from freki.streams.wire.rules import limits_of
from tests.files import docx_of, pdf_of
from tests.parsing import parse_here
from tests.unit.packages import epub, odt, opendocument, pptx, shape, xlsx

RAGGED = "|a" * 250 + "|\n" + "|-" * 250 + "|\n" + "|x\n" * 250
"""A table of 1.8 kB, whose rows the parser fills up to 62,500 cells."""
QUOTED = ">" * 20 + "a\n" + "a\n" * 5_000
"""A quotation of 20 levels, each of which the parser tries for every line."""
LIMITS = ParseLimits(max_characters=1_000, max_pages=3, max_unpacked_bytes=100_000)
MAIL = b"From: a@example.org\nTo: b@example.org\nDate: Mon, 05 Jan 2026 10:00:00 +0100\nSubject: Fristen\n\n{}\n"


def parsed(name: str, content: str | bytes, media_type: str | None = None) -> Parsed:
    return parse(name, media_type, content, limits=LIMITS)


CELL = "<table:table-row><table:table-cell><text:p>Vier Wochen.</text:p></table:table-cell></table:table-row>"
ODS = opendocument("spreadsheet", f"<table:table>{CELL}</table:table>")
EACH = [
    ("a.md", "# Fristen\n\nVier Wochen.", Profile.MARKDOWN),
    ("a.html", "<h1>Fristen</h1><p>Vier Wochen.</p>", Profile.HTML),
    ("a.txt", "Vier Wochen.", Profile.TEXT),
    ("a.pdf", pdf_of("Fristen\nVier Wochen."), Profile.PDF),
    ("a.docx", docx_of("Fristen", "Vier Wochen."), Profile.DOCX),
    ("a.odt", odt("<text:p>Vier Wochen.</text:p>"), Profile.ODT),
    ("a.odp", opendocument("presentation", "<draw:page><text:p>Vier Wochen.</text:p></draw:page>"), Profile.ODP),
    ("a.ods", ODS, Profile.ODS),
    ("a.py", "def fristen():\n    return 'Vier Wochen.'\n", Profile.CODE),
    ("a.pptx", pptx(shape("Vier Wochen.")), Profile.PPTX),
    ("a.xlsx", xlsx({"Fristen": [["Vier Wochen."]]}), Profile.XLSX),
    ("a.eml", MAIL.replace(b"{}", b"Vier Wochen."), Profile.EMAIL),
    ("a.csv", "Frist;Dauer\nEinspruch;Vier Wochen.", Profile.CSV),
    ("a.epub", epub({"a.xhtml": "<p>Vier Wochen.</p>"}), Profile.EPUB),
]


@pytest.mark.parametrize(("name", "content", "profile"), EACH)
def test_each_format_has_its_parser(name: str, content: str | bytes, profile: Profile) -> None:
    document = parsed(name, content)

    assert document.profile is profile
    assert "Vier Wochen." in document.document.text


@pytest.mark.parametrize("name", ["a.txt", "a.eml"])
def test_words_broken_by_a_hyphen_are_whole_in_plain_text_and_mails(name: str) -> None:
    text = "Die Frist ist lang, und für die Kündi-\ngung ist das gut."

    document = parsed(name, text if name == "a.txt" else MAIL.replace(b"{}", text.encode())).document

    last = document.blocks[-1]
    assert document.text[last.start : last.end] == "Die Frist ist lang, und für die Kündigung ist das gut."


@pytest.mark.parametrize(("name", "content", "profile"), EACH)
def test_what_is_parsed_can_come_back_from_another_process(name: str, content: str | bytes, profile: Profile) -> None:
    document = parsed(name, content)

    travelled: Parsed = pickle.loads(pickle.dumps(document))  # noqa: S301 - just written

    assert travelled == document
    assert travelled.profile is profile


def test_every_profile_has_sizes_of_chunks_and_a_version_of_its_parser() -> None:
    assert limits_of(ChunkingSettings()).keys() == PARSER_VERSIONS.keys() == set(Profile)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", "x" * 1_001), ("a.docx", docx_of("", "x" * 1_001)), ("a.eml", MAIL.replace(b"{}", b"x " * 999))],
)
def test_what_is_too_long_is_refused_and_names_the_setting(name: str, content: str | bytes) -> None:
    with pytest.raises(UnreadableContent, match=rf"\A{name}: \d+ characters .* FREKI_CHUNKING__MAX_CHARACTERS\Z"):
        parsed(name, content)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pdf", pdf_of("1", "2", "3", "4"), "FREKI_PARSING__MAX_PAGES"),
        ("a.pdf", pdf_of("Geheim", locked=True), "without a password"),
        ("a.pdf", pdf_of("Seite")[:200], "damaged"),
        ("a.pdf", pdf_of("", ""), "OCR"),
        ("a.docx", docx_of("x" * 110_000), "FREKI_PARSING__MAX_UNPACKED_MB"),
        ("a.docx", docx_of("Text")[:300], "damaged"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_fix(name: str, content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableContent, match=rf"\A{name}: .*{reason}"):
        parsed(name, content)


@pytest.mark.parametrize(
    ("name", "content", "apart"),
    [
        ("a.md", "# Fristen", False),
        ("a.rst", b"Fristen\n=======\n", False),
        ("a.txt", "Vier Wochen.", False),
        ("a.md", "x" * (LIGHT_LENGTH + 1), True),
        ("a.html", "<p>Vier Wochen.", True),
        ("a.py", "x = 1", True),
        ("a.txt", b"<!doctype html><p>Vier Wochen.", False),
        ("a", b"<!doctype html><p>Vier Wochen.", True),
        ("a.md", pdf_of("Fristen"), True),
        ("a.md", RAGGED, True),
        ("a.md", RAGGED.encode().replace(b"\n", b"\r"), True),
        ("a.md", QUOTED, True),
        ("a.txt", RAGGED, False),
        ("a.md", "| Frist | Dauer |\n|---|---|\n" + "| Einspruch | 4 |\n" * 1_000, False),
    ],
)
async def test_all_but_short_text_is_parsed_apart(name: str, content: str | bytes, apart: bool) -> None:  # noqa: FBT001
    limits = ParseLimits(max_characters=LIGHT_LENGTH * 2, max_pages=3, max_unpacked_bytes=1)
    names: list[str] = []

    async def parse_apart(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        names.append(name)
        return parse(name, media_type, content, limits=limits)

    document = await by_weight(parse_apart, limits)(name, None, content)

    assert document == parse(name, None, content, limits=limits)
    assert bool(names) is apart


async def test_text_that_cannot_be_read_is_refused_where_it_is_met() -> None:
    parse_somewhere = by_weight(parse_here, LIMITS)

    with pytest.raises(UnreadableContent, match=r"a\.txt: NUL at character 3"):
        await parse_somewhere("a.txt", None, b"abc\x00def")
