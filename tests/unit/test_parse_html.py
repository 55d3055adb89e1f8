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


def test_options_are_left_out_however_many_a_menu_has() -> None:
    # What is quadratic would run into the suite's timeout.
    options = "<option>" * 600_000
    document = parse_html(f"<p>Ort</p><select>{options}</select><datalist><option>Zwei</datalist><p>Zeit</p>")

    assert document.text == "Ort\n\nZeit"


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


XHTML = '<html xmlns="http://www.w3.org/1999/xhtml">'
ICON = "<svg>" + '<path d="M0 0"/>' * 520 + "</svg>"


@pytest.mark.parametrize(
    "page",
    [
        f"{XHTML}<head><title/></head><body><h1>Wartung</h1><p>Filter tauschen.</p></body></html>",
        f'{XHTML}<head><script src="a.js"/><style/></head><body><h1>Wartung</h1><p>Filter tauschen.</p></body></html>',
        f"{XHTML}<body><div hidden='hidden'/><h1>Wartung</h1><h2/><p>Filter tauschen.</p></body></html>",
        '<?xml version="1.0"?><html><title /><body><ul/><h1>Wartung</h1><p>Filter tauschen.</p></body></html>',
        '<script src="a.js"/><textarea/><iframe src="a"/><h1>Wartung</h1><object data="a"/><p>Filter tauschen.</p>',
        f"<main>{ICON}<h1>Wartung</h1><span>Filter tauschen.</span></main>",
        f"<main>{'<math><mspace/></math><x-icon/>' * 520}<h1>Wartung</h1><span>Filter tauschen.</span></main>",
        "<svg><g><g/><text>Bild</text></g></svg><h1>Wartung</h1><p>Filter<br/>tauschen.</p>",
    ],
)
def test_a_tag_that_closes_itself_hides_nothing_behind_it(page: str) -> None:
    document = parse_html(page)

    assert document.text.replace("\n", " ") == "Wartung  Filter tauschen."
    assert (headings(document), document.title) == ([(1, "Wartung")], None)


def test_behind_tags_that_close_themselves_parts_are_still_told_apart() -> None:
    page = f"<main><h1>Wartung</h1>{ICON}<ul><li>eins</ul><script>var a=1;</script></main><footer>Fuß</footer>"

    assert parse_html(page).text == "Wartung\n\n- eins"


@pytest.mark.parametrize(
    "subset",
    [
        """<!ENTITY x "y">""",
        """<!ENTITY x "a ]> b">\n<!ENTITY z 'c "]>" d'>""",
        """<!-- it's ]> --><!ELEMENT p (#PCDATA)><?target it's ]> ?>%names;""",
        "",
    ],
)
@pytest.mark.parametrize("prolog", ["", '<?xml version="1.0"?>\n<!-- [ -->\n'])
@pytest.mark.parametrize("name", ["html", 'html PUBLIC "-//W3C//DTD XHTML 1.0//EN" "xhtml1.dtd"'])
def test_declarations_of_a_document_type_are_not_text(name: str, prolog: str, subset: str) -> None:
    document = parse_html(f"{prolog}<!DOCTYPE {name} [ {subset} ] >{XHTML}<body><p>Text</p></body></html>")

    assert document.text == "Text"


@pytest.mark.parametrize(
    "page",
    ["<!DOCTYPE html [ <p>Text</p>", "<!DOCTYPE html><p>a[1]&gt;2 <!-- <!DOCTYPE x [ --> Text</p><p>]&gt;</p>"],
)
def test_a_page_without_such_declarations_loses_nothing(page: str) -> None:
    assert "Text" in parse_html(page).text


def test_outside_of_xhtml_a_slash_does_not_close_a_part_that_is_closed_later() -> None:
    page = "<div><main><div class=box/><p>Text</p></div><p>Ende</p></main></div>"

    assert texts(parse_html(page), BlockKind.PROSE) == ["Text", "Ende"]


@pytest.mark.parametrize(
    ("part", "titles"),
    [
        ('<section id="cookie-banner"><h2>Cookie-Banner</h2>{}</section>', ["Cookie-Banner"]),
        (
            '<div id="breadcrumbs-fur-seiten-1"><h2>4.2 Breadcrumbs für Seiten</h2>{}</div>',
            ["4.2 Breadcrumbs für Seiten"],
        ),
        ('<h2 id="cookie-banner">Cookie-Banner</h2>{}', ["Cookie-Banner"]),
        ('<div role="heading" class="cookie-banner">Cookie-Banner</div>{}', ["Cookie-Banner"]),
        ('<dl><dt id="breadcrumbs">{}</dl>', []),
        ('<div class="layout no-breadcrumbs">{}</div>', []),
        ('<div class="page--with-cookie-notice">{}</div>', []),
        ('<div class="cookie-notice-open"><div role=main>{}</div></div>', []),
    ],
)
def test_a_part_that_is_named_like_an_overlay_is_read(part: str, titles: list[str]) -> None:
    document = parse_html(f"<p>Anfang</p>{part.format('<p>So geht es.</p>')}<p>Ende</p>")

    assert [title for _, title in headings(document)] == titles
    assert all(words in document.text for words in [*titles, "So geht es."])


def test_the_title_of_a_page_is_read_where_it_stands_in_a_banner() -> None:
    page = '<section class="breadcrumb-area"><h1>Wartung</h1></section><p>Filter tauschen.</p>'

    assert headings(parse_html(page)) == [(1, "Wartung")]


@pytest.mark.parametrize(
    "overlay",
    [
        '<div id="cookie-banner"><h2>Wir verwenden Cookies</h2><p>Ja?</p></div>',
        '<div class="cookie-banner no-js"><p>Ja?</p></div>',
        '<ol class="page-breadcrumbs"><li>Start</ol>',
        '<div id="onetrust-consent-sdk"><h2>Privacy</h2></div>',
    ],
)
def test_overlays_are_left_out(overlay: str) -> None:
    assert parse_html(f"{overlay}<p>Ende</p>").text == "Ende"


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


@pytest.mark.parametrize(
    ("attributes", "labels"),
    [
        ("type=a", ["a.", "b.", "c."]),
        ("type=A start=26", ["Z.", "AA.", "AB."]),
        ("type=i start=3", ["iii.", "iv.", "v."]),
        ("type=I", ["I.", "II.", "III."]),
        ("type=a start=0", ["0.", "a.", "b."]),
        ("type=disc", ["1.", "2.", "3."]),
        ("start=-1", ["-1.", "0.", "1."]),
        ("reversed", ["3.", "2.", "1."]),
    ],
)
def test_items_have_the_labels_that_their_list_states(attributes: str, labels: list[str]) -> None:
    document = parse_html(f"<ol {attributes}><li>x<li>x<li>x</ol>")

    assert document.text.split() == [word for label in labels for word in (label, "x")]


def test_an_item_may_state_its_number() -> None:
    assert parse_html("<ol><li>eins<li value=5>fünf<li>sechs</ol>").text == "1. eins\n5. fünf\n6. sechs"


def test_a_table_has_a_line_a_row() -> None:
    document = parse_html("<table><tr><th>Amt<th>Zeit</tr><tr><td><p>Bau</p><p>Süd</p><td>9 Uhr</table>")

    (table,) = document.blocks
    assert table.kind is BlockKind.TABLE
    assert parts(document, table) == ["Amt | Zeit", "Bau Süd | 9 Uhr"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            ["<th>A<th>B<th>C", "<td>1<td><td>3", "<td><td>2<td>3", "<td>1<td><td>"],
            ["A | B | C", "1 |  | 3", " | 2 | 3", "1"],
        ),
        (["<th>A<th>B<th>C", "<td colspan=2>1<td>3"], ["A | B | C", "1 |  | 3"]),
        (["<th>A<th>B<th>C", "<td rowspan=2>1<td>2<td>3", "<td>4<td>5"], ["A | B | C", "1 | 2 | 3", " | 4 | 5"]),
        (["<th colspan=9>Titel", "<th>A<th>B", "<td>1<td>2"], ["Titel", "A | B", "1 | 2"]),
        (["<th>A<th>B", "<td>1<br><td>2", "<td>3<td><ul><li>4</ul>"], ["A | B", "1 | 2", "3 | 4"]),
        (["<td><td>&nbsp;<td>x<td><td>y<td>", "<td><td><td>z"], ["x | y", "z"]),
        (["<th>A<th>B", "<td><td>", "<td>1<td>2"], ["A | B", "1 | 2"]),
        (["<th>A<th>B", "<td colspan=x rowspan=-2>1<td>2", "<td>3<td>4"], ["A | B", "1 | 2", "3 | 4"]),
    ],
)
def test_values_stand_in_their_columns(rows: list[str], expected: list[str]) -> None:
    document = parse_html(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")

    assert_outline(document)
    assert document.text.split("\n") == expected
    assert len(parts(document, document.blocks[0])) == len(expected)


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


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "source",
    [
        "<div>" * 100_000 + "x",
        "<ul><li>x" * 30_000,
        "<table><tr><td>x" * 20_000,
        "<table><tr>" + "<td colspan=1000 rowspan=60000>x" * 2_000 + "<tr><td>x" * 20_000,
        f"{'<div class=breadcrumb>' * 510}{'<p>x' * 20_000}<h1>x",
        "<script/>" * 50_000,
        "".join(f"<b id={number}><p>x" for number in range(20_000)),
        "<a " * 100_000 + "x",
        "<h1>x" * 20_000,
        "<" * 200_000,
        f"<button aria-expanded=false aria-controls=p>Titel</button><div hidden id=p>{'a.' * 300_000}",
        "a\x00b<p>\x00",
    ],
    ids=[
        "nested",
        "lists",
        "tables",
        "spans",
        "overlays",
        "scripts",
        "formatting",
        "open tags",
        "headings",
        "brackets",
        "panels",
        "NUL",
    ],
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


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>nach § 573<sup>2</sup> bleibt</p>", "nach § 573 2 bleibt"),
        ("<p>nach § 573<sup><a href='#f2'>2</a></sup> bleibt</p>", "nach § 573 2 bleibt"),
        ("<p><sup>2</sup>3 Monate vorher</p>", "2 3 Monate vorher"),
        ("<p><sup>1</sup>Der Vertrag über 20 m<sup>2</sup></p>", "1Der Vertrag über 20 m2"),
    ],
)
def test_a_raised_number_does_not_become_a_part_of_another_number(page: str, text: str) -> None:
    assert parse_html(page).text == text


def test_how_a_word_is_pronounced_is_left_out() -> None:
    ruby = "<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>駅"
    parts = "<ruby><rb>漢</rb><rt>kan<rb>字</rb><rt>ji</ruby>"

    assert parse_html(f"<p>{ruby} {parts}</p>").text == "東京駅 漢字"


def test_sections_that_a_button_in_their_heading_opens_are_read() -> None:
    document = parse_html(
        '<h2>Fragen</h2><h3><button aria-expanded="false" aria-controls="a">Welche Unterlagen?</button></h3>'
        '<div id="a" hidden><p>Ausweis.</p></div><div role="heading" aria-level="3"><button aria-expanded="false" '
        'aria-controls="b">Wie teuer?</button></div><div id="b" style="display:none">10 Euro.</div>'
        '<h3>Termin <button>Drucken</button></h3><button aria-expanded="false" aria-controls="c">Menü</button>'
        '<ul id="c" hidden><li>Start</ul><div id="d" hidden>Nein</div><p hidden="until-found">Gefunden</p>'
    )

    assert headings(document) == [(2, "Fragen"), (3, "Welche Unterlagen?"), (3, "Wie teuer?"), (3, "Termin")]
    assert texts(document, BlockKind.PROSE) == ["Ausweis.", "10 Euro.", "Gefunden"]


def _opener(title: str, panel: str, content: str, *, tag: str = "button", more: str = "") -> str:
    return (
        f'<{tag} aria-expanded="false" aria-controls="{panel}" {more}>{title}</{tag}>'
        f'<div id="{panel}" hidden>{content}</div>'
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (_opener("Wie lange?", "a", "<p>Sechs Wochen.</p>"), ["Wie lange?", "Sechs Wochen."]),
        (_opener("Öffnungszeiten", "a", "<dl><dt>Mo<dd>9 Uhr</dl>"), ["Öffnungszeiten", "Mo\n9 Uhr"]),
        (_opener("Was?", "a", "Das ist es.", tag="div", more="role=button"), ["Was?", "Das ist es."]),
        (_opener("Was?", "a", "Das ist es.", tag="a", more="role=button href=#"), ["Was?", "Das ist es."]),
        ("<h3>" + _opener("Was?", "a", "Alles", tag="a").replace("<div", "</h3><div"), ["Was?", "Alles"]),
        (
            '<div><button data-toggle="collapse" data-target="#a">Was?</button></div><div id="a">Das ist es.</div>',
            ["Was?", "Das ist es."],
        ),
        ("<h3><button>Was?</button></h3><p>Das.</p><h3>Wer <button>Drucken</button></h3>", ["Was?", "Das.", "Wer"]),
        (_opener("Menü", "a", "<ul><li><a href=/>Start</a><li><a href=/k>Kontakt und Anfahrt</a></ul>"), []),
        (_opener("Filter", "a", "<p>Wählen Sie aus.</p><input type=checkbox> Bauen"), []),
        (_opener("Konto", "a", "<p>Sie sind nicht angemeldet.</p>", more="aria-haspopup=true"), []),
        (f"<header>{_opener('Hinweis', 'a', 'Diese Seite ist neu.')}</header>", []),
        (f"<nav>{_opener('Hinweis', 'a', 'Diese Seite ist neu.')}</nav>", []),
        ('<button aria-expanded="false" aria-controls="fehlt">Mehr</button>', []),
    ],
)
def test_a_button_that_opens_content_is_its_title(content: str, expected: list[str]) -> None:
    document = parse_html(f"{content}<p>Ende</p>")

    assert [document.text[block.start : block.end] for block in document.blocks] == [*expected, "Ende"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<p>Frist: <del>zwei</del> <ins>drei</ins> Wochen</p>", "Frist: drei Wochen"),
        ("<p>Gebühr: <s class='alt'>10</s> <strike>15</strike> 20 Euro</p>", "Gebühr: 20 Euro"),
        ("<p style='text-decoration: underline line-through'>alt</p><p>neu</p>", "neu"),
        ("<p style='text-decoration:underline'>neu <S>alt</S> hier</p>", "neu hier"),
        ("<p><s>alt<p>neu", "neu"),
        ("<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><p><s/>neu</p></html>", "neu"),
    ],
)
def test_text_struck_through_is_left_out(content: str, expected: str) -> None:
    assert parse_html(content).text == expected


def test_of_many_attributes_the_first_count() -> None:
    many = " ".join(f"a{number}='{number}'" for number in range(20_000))

    assert parse_html(f"<p hidden {many}>Nein</p><p {many} hidden>Ja</p>").text == "Ja"


def test_what_tabs_show_is_read_whichever_is_chosen() -> None:
    content = (
        '<div role="tablist"><button role="tab" aria-controls="a">Ablauf</button></div>'
        '<div role="tabpanel" id="a">Stellen Sie den Antrag.</div>'
        '<div role="tabpanel" id="b" hidden>Es kostet 10 Euro.</div>'
        '<div role="dialog"><div role="tabpanel" hidden>Cookies</div></div>'
    )

    document = parse_html(content)

    assert document.text == "Stellen Sie den Antrag.\n\nEs kostet 10 Euro."


_FRACTION = "<mfrac><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow><mn>2</mn></mfrac>"


@pytest.mark.parametrize(
    ("formula", "line"),
    [
        (
            f"<semantics><mrow>\n<mi>a</mi> <mo>=</mo>\n{_FRACTION}</mrow><annotation>\\frac</annotation></semantics>",
            "a=(b+1)/2",
        ),
        ("<msup><mn>10</mn><mn>3</mn></msup><mo>+</mo><msub><mi>x</mi><mn>1</mn></msub>", "10^3+x_1"),
        ("<msqrt><mi>x</mi><mo>+</mo><mi>y</mi></msqrt>", "√(x+y)"),
        ("<msup><msqrt><mi>x</mi></msqrt><mn>4</mn></msup><mroot><mn>8</mn><mn>3</mn></mroot>", "(√x)^48^(1/3)"),
        ("<mi>f</mi><mfenced><mi>x</mi><mi>y</mi></mfenced>", "f(x,y)"),
        ("<mfrac><mstyle><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow></mstyle><mi>c</mi></mfrac>", "(a+b)/c"),
        ("<mi>sin</mi><mo>\u2061</mo><mi>x</mi><mo>\u2062</mo><mi>y</mi>", "sin xy"),
        (
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>",
            "∑_(i=1)^ni",
        ),
    ],
)
def test_a_formula_stands_in_its_sentence(formula: str, line: str) -> None:
    document = parse_html(f"<p>Es gilt <math>{formula}</math>, und so weiter.</p>")

    assert document.text == f"Es gilt {line}, und so weiter."
    assert [block.kind for block in document.blocks] == [BlockKind.PROSE]


def test_what_is_for_readers_of_screens_stands_apart() -> None:
    assert parse_html("<p>Im BGB<span class='link sr-only'>(extern)</span>nur</p>").text == "Im BGB (extern) nur"
    assert parse_html("<p>Im <span class=no-sr-only>BG</span>B</p>").text == "Im BGB"


def test_fields_of_forms_are_read_as_they_are_filled_in() -> None:
    document = parse_html(
        "<ul><li><input type=checkbox checked disabled>Fertig<li><input type=checkbox> Offen</ul>"
        "<table><tr><th>Frage<th>Ja<th>Nein<tr><td>Hund<td><input type=radio checked><td><input type=radio></table>"
        "<p><label>Name:<input value='Ada Meier'></label> <input type=date value=2024-03-01></p>"
    )

    assert document.text.split("\n\n") == [
        "- ☒ Fertig\n- ☐ Offen",
        "Frage | Ja | Nein\nHund | ☒ | ☐",
        "Name: Ada Meier 2024-03-01",
    ]


def test_fields_that_show_nothing_to_readers_are_left_out() -> None:
    secret = "".join(f"<input type={kind} value=x>" for kind in ("hidden", "PASSWORD", "search", "submit", "file"))

    assert parse_html(f"<div>{secret}</div><div><input type=checkbox id=menu></div><p>Text</p>").text == "Text"
