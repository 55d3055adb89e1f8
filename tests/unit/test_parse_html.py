"""A page becomes what a reader sees of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_html import parse_html
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, headings, parts, texts


def test_headings_come_from_tags_and_roles() -> None:
    document = parse_html(
        "<h1>Über <b>uns</b></h1><h3>Ort\n &amp; Zeit</h3><div role=heading aria-level=4>Anfahrt</div>"
        "<div role=heading>Kontakt</div><h2></h2>"
    )

    assert headings(document) == [(1, "Über uns"), (3, "Ort & Zeit"), (4, "Anfahrt"), (2, "Kontakt")]


def test_what_a_reader_does_not_see_is_left_out() -> None:
    document = parse_html(
        "<nav>Menü</nav><script>if (a<b && c>d) x()</script><style>p{}</style><template>T</template>"
        "<noscript>N</noscript><p hidden>H</p><p aria-hidden=true>A</p><!-- C --><p>Text</p>"
    )

    assert document.text == "Text"


PAGE = """
<a class="skip-link" href="#m">Zum Inhalt</a>
<header><nav>Start</nav><h1>Amt</h1></header>
<div id="cookie-consent-banner"><p>Wir verwenden Cookies.</p><button>Ja</button></div>
<div class="breadcrumb">Start / Amt</div>
<div role="search">Suche</div><div role="dialog">Umfrage</div><div style="display: none">versteckt</div>
{}
<aside>Mehr zum Thema</aside><footer><p>Impressum</p></footer>
<div class="cc-window cc-banner">Cookies!</div>
"""


@pytest.mark.parametrize(
    "content",
    [
        "<main><h2>Fristen</h2><p>Vier Wochen.</p></main>",
        "<div role=main><h2>Fristen</h2><p>Vier Wochen.</p></div>",
        "<article><h2>Fristen</h2><p>Vier Wochen.</p></article>",
        "<div><h2>Fristen</h2><p>Vier Wochen.</p></div>",
    ],
)
def test_what_stands_around_the_content_is_left_out(content: str) -> None:
    document = parse_html(PAGE.format(content))

    assert headings(document) == [(1, "Amt"), (2, "Fristen")]
    assert texts(document, BlockKind.PROSE) == ["Vier Wochen."]


def test_the_title_above_the_main_part_is_left_out_where_it_has_one_itself() -> None:
    document = parse_html("<h1>Stadt Bonn</h1><p>Rathaus</p><main><h1>Fristen</h1>Vier Wochen.</main>")

    assert document.text == "Fristen\n\nVier Wochen."


def test_a_page_whose_main_part_is_empty_is_read_whole() -> None:
    assert parse_html("<main></main><p>Vier Wochen.").text == "Vier Wochen."


def test_notes_and_sources_within_the_content_are_read() -> None:
    document = parse_html(
        "<article><p>Text<aside>Hinweis</aside><blockquote>Zitat<footer>Goethe</footer></blockquote></article>"
    )

    assert texts(document, BlockKind.PROSE) == ["Text", "Hinweis", "Zitat", "Goethe"]


def test_a_page_about_cookies_is_read() -> None:
    document = parse_html(
        '<body class="cookie-notice-open"><h1 id="cookies">Cookies</h1><p class="cookie">Was sie sind.'
    )

    assert document.text == "Cookies\n\nWas sie sind."


def test_signs_for_clicking_behind_a_heading_are_left_out() -> None:
    document = parse_html('<h2>Fristen<a class="headerlink" href="#f" title="Link">¶</a></h2><h3>Ort ¶ 3</h3>')

    assert headings(document) == [(2, "Fristen"), (3, "Ort ¶ 3")]


def test_paragraphs_are_parted_and_white_space_is_folded() -> None:
    document = parse_html("lose <i>Worte</i>,\n   auch hier<p>Ein <a href='x'>Link</a>.<br>Neue Zeile<div>Kasten</div>")

    assert texts(document, BlockKind.PROSE) == ["lose Worte, auch hier", "Ein Link.\nNeue Zeile", "Kasten"]


def test_lists_keep_their_marks_and_depth() -> None:
    document = parse_html(
        "<ol><li>eins<li><p>zwei</p><ul><li>innen</ul></ol><dl><dt>Frist<dd>14 Tage<dt>Ort<dd>Bonn</dl>"
    )

    numbered, defined = document.blocks
    assert parts(document, numbered) == ["1. eins", "2. zwei\n  - innen"]
    assert parts(document, defined) == ["Frist\n14 Tage", "Ort\nBonn"]
    assert {numbered.kind, defined.kind} == {BlockKind.LIST}


def test_a_list_begins_with_the_number_that_it_states() -> None:
    assert parse_html("<ol start=4><li>vier<li>fünf</ol>").text == "4. vier\n5. fünf"


def test_a_table_has_a_line_a_row() -> None:
    document = parse_html("<table><tr><th>Amt<th>Zeit</tr><tr><td><p>Bau</p><p>Süd</p><td>9 Uhr</table>")

    (table,) = document.blocks
    assert table.kind is BlockKind.TABLE
    assert parts(document, table) == ["Amt | Zeit", "Bau Süd | 9 Uhr"]


def test_preformatted_text_keeps_its_lines() -> None:
    document = parse_html("<pre>\n  def f():\n      return 1\n\n</pre>")

    assert texts(document, BlockKind.CODE) == ["  def f():\n      return 1"]


def test_a_list_or_table_that_holds_headings_is_layout() -> None:
    document = parse_html("<ul><li><h3>Frage?</h3><p>Antwort.</ul><table><tr><td><h2>Titel</h2>Text</table>")

    assert headings(document) == [(3, "Frage?"), (2, "Titel")]
    assert texts(document, BlockKind.PROSE) == ["Antwort.", "Text"]


def test_title_language_and_named_metadata_are_read() -> None:
    document = parse_html(
        "<html lang='de'><head><title> Häufige\nFragen </title><meta name=Author content='Bauamt'>"
        "<meta name=viewport content=x></head><p>Text"
    )

    assert document.title == "Häufige Fragen"
    assert document.attributes == {"lang": "de", "author": "Bauamt"}


def test_an_empty_page_has_no_text() -> None:
    document = parse_html("<!doctype html><title></title>")

    assert (document.text, document.blocks, document.title) == ("", (), None)


@pytest.mark.parametrize(
    "source",
    [
        "<div>" * 100_000 + "x",
        "<ul><li>x" * 30_000,
        "<table><tr><td>x" * 20_000,
        "".join(f"<b id={number}><p>x" for number in range(20_000)),
        "<a " * 100_000 + "x",
        "<h1>x" * 20_000,
        "<" * 200_000,
        "a\x00b<p>\x00",
    ],
    ids=["nested", "lists", "tables", "formatting", "open tags", "headings", "brackets", "NUL"],
)
def test_hostile_pages_are_parsed(source: str) -> None:
    assert_outline(parse_html(source))


tags = st.sampled_from(
    "p div span b h1 h2 ul ol li dl dt dd table tr td pre br nav section a".split()  # noqa: SIM905 - a list to read
)
nodes = st.one_of(
    tags.map("<{}>".format),
    tags.map("</{}>".format),
    st.text(alphabet="ab \n.&<>\"'", max_size=6),
    st.just("<p hidden>"),
)


@given(source=st.lists(nodes, max_size=30).map("".join))
def test_blocks_hold_all_that_is_read(source: str) -> None:
    assert_outline(parse_html(source))
