"""What every parser of files promises, and how it meets what was made to harm it."""

from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freki.operators.errors import UnreadableContent
from freki.operators.parse_email import parse_email
from freki.operators.parse_html import parse_html
from freki.operators.parse_markdown import parse_markdown
from freki.operators.parse_office import parse_docx, parse_odp, parse_ods, parse_odt, parse_pptx, parse_xlsx
from freki.operators.parse_pdf import parse_pdf
from freki.operators.parse_text import parse_text
from freki.schemas.outline import ParsedDocument
from tests.unit.outlines import assert_outline
from tests.unit.packages import archive, docx, odt, opendocument, paragraph, pptx, shape, slide_table, word_table, xlsx
from tests.unit.pdfs import pdf, ruled, shown, shown_lines

Parse = Callable[..., ParsedDocument]
Write = Callable[[list[str]], bytes]

WORDS = [
    *("Kündigung", "Öffnungszeiten", "Straße", "ärztlich", "Miete", "gilt", "ab", "Euro", "Grüße", "Vertrag"),
    *("Notice", "opening", "street", "medical", "rent", "applies", "from", "pounds", "regards", "contract"),
]


def _docx(words: list[str]) -> bytes:
    heading = paragraph(words[0], '<w:outlineLvl w:val="0"/>')
    return docx(heading + "".join(map(paragraph, words)) + word_table(words[:2], words[2:4]))


def _odt(words: list[str]) -> bytes:
    listed = "".join(f"<text:list-item><text:p>{word}</text:p></text:list-item>" for word in words[:3])
    body = "".join(f"<text:p>{word}</text:p>" for word in words)
    return odt(f"<text:h>{words[0]}</text:h><text:list>{listed}</text:list>{body}")


def _odp(words: list[str]) -> bytes:
    slides = (
        f"<draw:page><draw:frame presentation:class='title'><draw:text-box><text:p>{word}</text:p></draw:text-box>"
        f"</draw:frame><draw:custom-shape><text:p>{word}</text:p></draw:custom-shape></draw:page>"
        for word in words
    )
    return opendocument("presentation", "".join(slides))


def _ods(words: list[str]) -> bytes:
    cells = "".join(f"<table:table-cell><text:p>{word}</text:p></table:table-cell>" for word in words)
    sheet = f"<table:table table:name='{words[0]}'><table:table-row>{cells}</table:table-row></table:table>"
    return opendocument("spreadsheet", sheet * 2)


def _pptx(words: list[str]) -> bytes:
    return pptx(
        *(shape(word, kind="title") + shape(*words, kind="body") for word in words), slide_table(words[:3], words[3:])
    )


def _xlsx(words: list[str]) -> bytes:
    return xlsx({"Blatt": [words, [], words[:2]], "Ende": [[word] for word in words]})


def _pdf(words: list[str]) -> bytes:
    table = ruled([72, 222, 372], [300, 330, 360])
    cells = b"".join(
        shown(76 + 150 * (number % 2), 342 - 30 * (number // 2), word) for number, word in enumerate(words[:4])
    )
    return pdf(*(shown(72, 790, word, size=20) + shown_lines(words) + table + cells for word in words))


def _email(words: list[str]) -> bytes:
    page = f"<h1>{words[0]}</h1><p>{' '.join(words)}"
    return f"Subject: {words[0]}\nContent-Type: text/html; charset=utf-8\n\n{page}".encode()


FILES: dict[str, tuple[Parse, Write]] = {
    "docx": (parse_docx, _docx),
    "odt": (parse_odt, _odt),
    "odp": (parse_odp, _odp),
    "ods": (parse_ods, _ods),
    "pptx": (parse_pptx, _pptx),
    "xlsx": (parse_xlsx, _xlsx),
    "pdf": (parse_pdf, _pdf),
    "email": (partial(parse_email, html=parse_html, text=parse_text, markdown=parse_markdown), _email),
}
PACKAGES = {name: FILES[name] for name in ("docx", "odt", "odp", "ods", "pptx", "xlsx")}
PAGED = {"odp", "ods", "pptx", "xlsx", "pdf"}

each_file = pytest.mark.parametrize("name", FILES)
each_package = pytest.mark.parametrize("name", PACKAGES)
word_lists = st.lists(st.sampled_from(WORDS), min_size=4, max_size=12)


@each_file
@settings(max_examples=25, deadline=None)
@given(words=word_lists)
def test_every_word_is_in_a_block_and_pages_ascend(name: str, words: list[str]) -> None:
    parse, write = FILES[name]

    document = parse(write(words))

    assert_outline(document)
    assert set(words) <= set(document.text.split())
    assert all(before <= start for before, start in pairwise((0, *document.page_starts, len(document.text))))
    assert bool(document.page_starts) == (name in PAGED)


@pytest.mark.parametrize("name", [name for name in FILES if name != "pdf"])
def test_words_are_whole_although_signs_without_width_part_them(name: str) -> None:
    parse, write = FILES[name]
    parted = [word[:2] + sign + word[2:] for word, sign in zip(WORDS, "\u00ad\u200b\u2060\ufeff" * 5, strict=True)]

    document = parse(write(parted))

    assert_outline(document)
    assert set(WORDS) <= set(document.text.split())
    assert not set("\u00ad\u200b\u2060\ufeff") & set(document.text)


@each_file
def test_the_same_bytes_give_the_same_document(name: str) -> None:
    parse, write = FILES[name]
    content = write(WORDS)

    assert parse(content) == parse(content)


@each_file
# The same each time: of all mutations that there are, one may make PDFium end this process.
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_file_is_refused_or_read(name: str, data: st.DataObject) -> None:
    content = bytearray(_written(name))
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    _assert_refused_or_read(FILES[name][0], bytes(content[: data.draw(st.integers(1, len(content)))]))


@cache
def _written(name: str) -> bytes:
    """Write a file once: archives hold the time."""
    return FILES[name][1](WORDS[:5])


@each_file
@given(content=st.binary())
def test_any_bytes_are_refused_or_read(name: str, content: bytes) -> None:
    _assert_refused_or_read(FILES[name][0], content)


def _assert_refused_or_read(parse: Parse, content: bytes) -> None:
    try:
        document = parse(content)
    except UnreadableContent:
        return
    assert_outline(document)


@each_package
def test_a_cut_off_package_is_refused(name: str) -> None:
    parse, write = FILES[name]

    with pytest.raises(UnreadableContent, match="cut off or damaged"):
        parse(write(WORDS)[:-40])


@each_package
def test_a_package_that_unpacks_to_too_much_is_refused(name: str) -> None:
    parse, write = FILES[name]

    with pytest.raises(UnreadableContent, match="more than 0 MB unpacked: split it"):
        parse(write([*WORDS, "a" * 100_000]), max_unpacked_bytes=2000)


@each_package
def test_a_package_of_too_many_parts_is_refused(name: str) -> None:
    with pytest.raises(UnreadableContent, match="more than 10000 parts"):
        FILES[name][0](archive({f"{number}.xml": "" for number in range(10_001)}))


DEEP = {
    "docx": docx("<w:tbl><w:tr><w:tc>" * 10_000 + "</w:tc></w:tr></w:tbl>" * 10_000),
    "odt": odt("<text:list><text:list-item>" * 10_000 + "</text:list-item></text:list>" * 10_000),
    "pptx": pptx("<p:grpSp>" * 10_000 + "</p:grpSp>" * 10_000),
}


@pytest.mark.parametrize("name", DEEP)
def test_a_document_that_is_nested_too_deep_is_refused(name: str) -> None:
    with pytest.raises(UnreadableContent, match="nested more than 200 deep"):
        FILES[name][0](DEEP[name])


FILE = '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd">]>'
LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{number + 1} "{f"&a{number};" * 10}">' for number in range(9))
    + "]>"
)


@pytest.mark.parametrize("declared", [FILE, LAUGHS], ids=["file", "laughs"])
def test_document_types_are_refused(declared: str) -> None:
    for content in (docx(paragraph("Text"), declared=declared), odt("<text:p>Text</text:p>", declared=declared)):
        parse = parse_docx if b"word/document.xml" in content else parse_odt
        with pytest.raises(UnreadableContent, match="declares a document type"):
            parse(content)


def test_sizes_that_the_directory_understates_are_refused() -> None:
    content = bytearray(docx(paragraph("Text" * 1000)))
    entry = content.rindex(b"word/document.xml") - 46
    content[entry + 24 : entry + 28] = (100).to_bytes(4, "little")

    with pytest.raises(UnreadableContent, match="cut off or damaged"):
        parse_docx(bytes(content))


@pytest.mark.exhaustive
def test_more_elements_than_memory_should_hold_are_refused() -> None:
    with pytest.raises(UnreadableContent, match="more than 1000000 elements"):
        parse_docx(docx("<w:p/>" * 1_000_001))


def test_a_parser_goes_on_after_what_it_refused() -> None:
    noise = bytes(range(256)) * 4
    for parse, write in FILES.values():
        _assert_refused_or_read(parse, noise)
        assert WORDS[0] in parse(write(WORDS)).text
