import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import (
    CitedPlace,
    absent_norms,
    citation_levels,
    cited_norms,
    is_bare_citation,
)

BGB = ("Bürgerliches Gesetzbuch", "§ 535 Inhalt des Mietvertrags")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("§ 5 BGB", "nach Paragraf 5"),
        ("Paragraph 5", "gemäß § 5 Abs. 1"),
        ("§ 5", "die §§ 5 und 6"),
        ("§ 6", "die §§ 5 und 6"),
        ("§ 8", "die §§ 5, 7 bis 9 gelten"),
        ("§ 573c", "die §§ 549 bis 577a"),
        ("§§ 535 bis 548", "nach § 540"),
        ("§ 6", "§ 5 f. BauGB"),
        ("§ 5a", "nach § 5 a der Satzung"),
        ("§ 5 a BGB", "nach §5a"),
        ("§ 535 II BGB", "§ 535 Absatz 2"),
        ("Artikel 8 des Grundgesetzes", "Art 8"),
        ("Art. 8 und 9 GG", "in Artikel 9"),
        ("Sec. 551 BGB", "section 551"),
        ("§ 5 GG", "Art. 5"),
        ("§\u00a05", "§ 5"),
        ("§§ 5\u20117", "§ 6"),
        ("§§ 48ff. VwVfG", "§ 48"),
    ],
)
def test_a_norm_is_found_in_other_spellings(asked: str, text: str) -> None:
    assert list(cited_norms(asked))
    assert absent_norms(cited_norms(asked), [f"Es gilt {text}, sonst nichts."], ()) == ()


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("§ 4711 BGB", "§ 471 und § 47111, Nr. 4711 von 4711"),
        ("§ 5", "§ 5a und § 15"),
        ("§ 5a", "§ 5 und § 5b"),
        ("§ 3", "§ 15 Abs. 2, 3"),
        ("§ 600", "die §§ 549 bis 577a"),
    ],
)
def test_another_number_is_another_norm(asked: str, text: str) -> None:
    asked_norms = tuple(cited_norms(asked))

    assert absent_norms(asked_norms, [text], BGB) == asked_norms != ()


@pytest.mark.parametrize("heading", ["5 Setup", "5. Einrichtung", "## 5.1 Setup", "§ 5 Frist"])
def test_a_heading_that_begins_with_the_number_is_the_section(heading: str) -> None:
    asked_norms = tuple(cited_norms("What does section 5 say?"))

    assert absent_norms(asked_norms, [], ["Manual", heading]) == ()
    assert absent_norms(asked_norms, [heading.removeprefix("§")], []) == asked_norms


@pytest.mark.parametrize(
    "text",
    [
        "§ 573c Abs. 1 BGB",
        "Sec. 551 BGB",
        "Art. 8 und 9 GG",
        "nach § 535 II BGB?",
        "Art 6 I 1 lit f DSGVO",
        "Artikel 5 des Grundgesetzes",
        "Section 535 of the German Civil Code",
        "§ 3 Absatz 2 Satz 1 Nummer 4 Buchstabe b",
        "§ 280 Abs. 1 i.V.m. § 241 BGB",
        "BGB § 573c",
        "DSGVO, Art. 6",
    ],
)
def test_a_mere_citation_is_told_from_a_question(text: str) -> None:
    assert is_bare_citation(text)
    assert not is_bare_citation(f"Was regelt {text}")


@pytest.mark.parametrize(
    "text", ["", "BGB", "§", "§ 551 BGB und die Höhe der Kaution bei Wohnungen", "Pflichten § 535"]
)
def test_more_or_less_is_no_mere_citation(text: str) -> None:
    assert not is_bare_citation(text)


@given(text=st.text(alphabet="§Art. 15abfISX,undbis-–()\n"))
def test_any_text_has_norms_of_numbers_in_order(text: str) -> None:
    for norms in cited_norms(text):
        assert norms.text
        assert norms.ranges
        is_there = any(first <= last for first, last in norms.ranges)
        assert not is_there or absent_norms([norms], [text], ()) == ()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "part",
    [
        "§",
        "§ 1 ",
        "§ 1, ",
        "1, ",
        "§ 1 I ",
        "Art. ",
        "§ 1 bis ",
        "§ 1 Abs. 1 ",
        "§ 1 Abs. 1 und 2, ",
        "Abs. 1 und ",
        "(1) und ",
        "§ 1 A b ",
    ],
)
def test_many_characters_take_no_longer_than_others(part: str) -> None:
    text = part * (200_000 // len(part))

    assert len(list(cited_norms(text))) <= len(text)
    assert is_bare_citation(text) in {True, False}


NETZDG = "Gesetz zur Verbesserung der Rechtsdurchsetzung in sozialen Netzwerken (NetzDG)"


def place(heading: str, text: str = "", *, document: str = "a", name: str = NETZDG) -> CitedPlace:
    return CitedPlace(document, name, (name, "Abschnitt 1", heading), text)


PLACES = [
    place("§ 3e Videosharing", "(2) Für Anbieter gilt § 3 Abs. 2 nicht."),
    place("§ 3 Umgang mit Beschwerden", "(1) Der Anbieter muss nach Absatz 2 handeln."),
    place("§ 3 Umgang mit Beschwerden", "(2) Das Verfahren muss gewährleisten, dass"),
    place("§ 3 Zuständigkeit", "(2) Zuständig ist das Amt.", document="b", name="Verordnung (ÖV)"),
    place("Art. 3 Schutz", "(1) Alle.\n\n(2) Niemand.", document="c", name="Grundgesetz (GG)"),
    place("§ 3 Grundsatz", document="e", name="Sozialgesetzbuch (SGB) Fünftes Buch (V)"),
    place("§ 3 Vorrang", document="f", name="Sozialgesetzbuch (SGB) Drittes Buch (III)"),
    CitedPlace("d", "notes.txt", (), "§ 3 Abs. 2 NetzDG"),
]


@pytest.mark.parametrize(
    ("query", "levels"),
    [
        ("§ 3 Abs. 2 NetzDG", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("§ 3 II NetzDG", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("§ 3 Abs. II NetzDG", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("§ 3 (2) NetzDG", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("§3(2) NetzDG", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("§ 3 Abs 2 S 1 Halbs 2 Nr 3 Buchst b NetzDG", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 UAbs. 1 Buchst. b Doppelbuchst. aa NetzDG", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("§ 3 Absatz 2 Unterabsatz 1 Halbsatz 2 Alternative 1 NetzDG", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("Was regelt § 3 NetzDG?", [0, 1, 1, 0, 0, 0, 0, 0]),
        ("§ 3e NetzDG", [1, 0, 0, 0, 0, 0, 0, 0]),
        ("§§ 3 bis 4 NetzDG", [1, 1, 1, 0, 0, 0, 0, 0]),
        ("§ 3f. NetzDG", [1, 1, 1, 0, 0, 0, 0, 0]),
        ("Art. 3 Absatz 2 GG", [0, 0, 0, 0, 2, 0, 0, 0]),
        ("§ 3 ÖV und § 3e NetzDG", [1, 0, 0, 1, 0, 0, 0, 0]),
        ("§ 3 SGB III", [0, 0, 0, 0, 0, 0, 1, 0]),
        ("§ 3 SGB", [0, 0, 0, 0, 0, 1, 1, 0]),
        # Of one document, the most relevant one, where the law has no short name.
        ("§ 3 Abs. 2", [0, 1, 2, 0, 0, 0, 0, 0]),
        ("Was steht in § 3 Absatz 2 des Netzwerkdurchsetzungsgesetzes?", [0, 1, 2, 0, 0, 0, 0, 0]),
        # The annex is meant, not what it belongs to.
        ("Anlage 1 zu § 3 Abs. 2 NetzDG", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("Anlage 1 (zu § 3e) und § 3 NetzDG", [0, 1, 1, 0, 0, 0, 0, 0]),
        # No law that is called so.
        ("§ 3 Abs. 2 StVO", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("Wie schnell werden Inhalte entfernt?", [0, 0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_places_that_a_query_cites_are_told_by_their_headings_clauses_and_law(query: str, levels: list[int]) -> None:
    assert citation_levels(query, PLACES) == levels


ITEMS = [
    place("§ 2 Betriebskosten", "13. die Versicherung\n\n15. die Antenne", name="Verordnung (BetrKV)"),
    place("§ 2 Betriebskosten", "14.  der Hauswart, nicht die Kosten nach Nr. 13", name="Verordnung (BetrKV)"),
    place("§ 2 Betriebskosten", "> 16\\. die Wäsche\n\n14a. der Garten", name="Verordnung (BetrKV)"),
    place("§ 3 Pflichten", "(1) Sie müssen\n\n1. melden,\n2. zahlen", name="Gesetz (PfG)"),
    place("§ 3 Pflichten", "(2) Sie müssen\n\n1. warten,", name="Gesetz (PfG)"),
    place("§ 3 Pflichten", "(2) Sie dürfen\n\n2. gehen,", name="Gesetz (PfG)"),
]


@pytest.mark.parametrize(
    ("query", "levels"),
    [
        ("§ 2 Nr. 14 BetrKV", [1, 2, 1, 0, 0, 0]),
        ("Was steht in Paragraph 2 Nummer 14 BetrKV?", [1, 2, 1, 0, 0, 0]),
        ("§ 2 Nr. 14a BetrKV", [1, 1, 2, 0, 0, 0]),
        ("§ 2 Nr. 16 BetrKV", [1, 1, 2, 0, 0, 0]),
        ("§ 2 BetrKV", [1, 1, 1, 0, 0, 0]),
        # An item counts within its clause.
        ("§ 3 Abs. 2 Nr. 2 PfG", [0, 0, 0, 1, 2, 3]),
        ("§ 3 II Nr. 2 PfG", [0, 0, 0, 1, 2, 3]),
        ("§ 3 Abs 2 S 1 Nr 2 PfG", [0, 0, 0, 1, 2, 3]),
        ("§ 3 Abs. 2 Ziff. 2 PfG", [0, 0, 0, 1, 2, 3]),
        ("§ 3 (2) Ziffer 2 PfG", [0, 0, 0, 1, 2, 3]),
        ("§ 3 Abs. 1 Satz 1 Nr. 2 PfG", [0, 0, 0, 3, 1, 1]),
        ("§ 3 Abs. 4 Nr. 2 PfG", [0, 0, 0, 1, 1, 1]),
    ],
)
def test_the_cited_item_of_a_section_or_clause_comes_before_others(query: str, levels: list[int]) -> None:
    assert citation_levels(query, ITEMS) == levels


MANY = [
    place("§ 3 Pflichten", "(1) Sie müssen", name="Gesetz (PfG)"),
    place("§ 3 Pflichten", "(2) Sie müssen\n\n1. melden,", name="Gesetz (PfG)"),
    place("§ 3 Pflichten", "(3) Sie dürfen\n\n4. gehen,", name="Gesetz (PfG)"),
    place("§ 3 Pflichten", "(4) Sie sollen\n\n2. warten,", name="Gesetz (PfG)"),
    place("§ 5 Fristen", "(1) Sie laufen.", name="Gesetz (PfG)"),
    place("Art. 6 Daten", "(1) Sie sind rechtmäßig.", document="c", name="Verordnung (DSV)"),
    place("Art. 7 Einwilligung", "(1) Sie ist frei.", document="c", name="Verordnung (DSV)"),
    place("Art. 7 Wahl", "(1) Sie ist frei.", document="d", name="Vertrag (WV)"),
]


@pytest.mark.parametrize(
    ("query", "levels"),
    [
        ("§ 3 Abs. 2 und 3 PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 bis 4 PfG", [1, 2, 2, 2, 0, 0, 0, 0]),
        ("§ 3 Abs. 1, 2 und 4 PfG", [2, 2, 1, 2, 0, 0, 0, 0]),
        ("Wie sind § 3 Absatz 1 und 2 auszulegen?", [2, 2, 1, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 und Abs. 4 PfG", [1, 2, 1, 2, 0, 0, 0, 0]),
        ("§ 3 Abs. 1 Satz 1 und 2 und Abs. 3 Satz 1 PfG", [2, 1, 2, 1, 0, 0, 0, 0]),
        ("§ 3 (2) und (3) PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§ 3 II, III PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("section 3(2) and (3)", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("section 3(2)(a) and (4)(b) of the PfG", [1, 2, 1, 2, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 Nr. 1 und Abs. 3 Nr. 4 PfG", [1, 3, 3, 1, 0, 0, 0, 0]),
        ("§ 3 Absätze 2 und 3 PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 u. 3 PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2/3 PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 & 3 PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§ 3 abs. 2 PfG", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("§ 3 ABS. 2 PfG", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 — 4 PfG", [1, 2, 2, 2, 0, 0, 0, 0]),
        ("§ 3 Abs. 2\u22124 PfG", [1, 2, 2, 2, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 f. PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§ 3 Nrn. 1 und 4 PfG", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§§ 3/5 PfG", [1, 1, 1, 1, 1, 0, 0, 0]),
        ("§§ 3 u. 5 PfG", [1, 1, 1, 1, 1, 0, 0, 0]),
        ("§§ 3—5 PfG", [1, 1, 1, 1, 1, 0, 0, 0]),
        ("§ 3/2024 PfG", [1, 1, 1, 1, 0, 0, 0, 0]),
        # The law behind any parts counts, and parts before the section, or behind its law.
        ("§ 3 Abs. 2 1. Halbsatz PfG", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("Art. 7 I f WV", [0, 0, 0, 0, 0, 0, 0, 2]),
        ("Art. 7 Abs. 1 S. 1 lit. f) WV", [0, 0, 0, 0, 0, 0, 0, 2]),
        ("Art. 7 Unterabs. 2 WV", [0, 0, 0, 0, 0, 0, 0, 1]),
        ("Absatz 2 des § 3 PfG", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("§ 3 PfG Abs. 2 und 3", [1, 2, 2, 1, 0, 0, 0, 0]),
        ("§ 5 Abs. 2, § 3 PfG", [1, 1, 1, 1, 1, 0, 0, 0]),
        ("§ 3 Nr. 1, 2 und 4 PfG", [1, 2, 2, 2, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 lit. a und b PfG", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("§§ 3 und 5 PfG", [1, 1, 1, 1, 1, 0, 0, 0]),
        ("Art. 6 und 7 DSV", [0, 0, 0, 0, 0, 1, 1, 0]),
        # The law behind the last counts for all.
        ("§ 3 Abs. 2 und § 5 PfG", [1, 2, 1, 1, 1, 0, 0, 0]),
        ("Art. 7 Abs. 1 i.V.m. Art. 6 DSV", [0, 0, 0, 0, 0, 1, 2, 0]),
        ("Articles 6 and 7", [0, 0, 0, 0, 0, 1, 1, 0]),
        # What is counted is no clause.
        ("Gilt § 3 Abs. 2 und 3 Monate Frist?", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2, 3 EUR Gebühr", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2 und 3 % Zinsen", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("§ 3 Abs. 2, 3. Mai", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("section 3(2) and 3 days", [1, 2, 1, 1, 0, 0, 0, 0]),
        ("§ 3 und 5 Kinder", [1, 1, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_all_that_is_cited_together_counts(query: str, levels: list[int]) -> None:
    assert citation_levels(query, MANY) == levels


def test_sections_in_a_heading_are_cited_together_before_its_title() -> None:
    assert citation_levels("§ 3 PfG", [place("§§ 2 und 3 Begriffe", name="Gesetz (PfG)")]) == [1]
    assert citation_levels("§ 3 PfG", [place("§ 2 bis 4 Begriffe", name="Gesetz (PfG)")]) == [1]


LAWS = [
    place("§ 5 Steuer", document="a", name="Gewerbesteuersatzung der Stadt Auental"),
    place("§ 5 Steuer", document="b", name="Hundesteuersatzung der Stadt Auental"),
    place("§ 5 Steuer", document="c", name="Abgabenordnung (AO)"),
    place("§ 5 Leistungen", document="d", name="Sozialgesetzbuch (SGB) Fünftes Buch (V)"),
    place("§ 5 Grundsatz", document="g", name="Sozialgesetzbuch (SGB) Zweites Buch (II) (BGBl. I S. 5) (SGB 2)"),
    place("§ 5 Ziel", document="h", name="Verordnung über Anlagen (4. BImSchV)"),
    place("§ 5 Ziel", document="i", name="Verordnung über Tankstellen (20. BImSchV)"),
    place("§ 5 Verfahren", document="e", name="Verwaltungsverfahrensgesetz (VwVfG)"),
    place("§ 5 Verfahren", document="f", name="Verwaltungsverfahrensgesetz für das Land NRW (VwVfG NRW)"),
]


@pytest.mark.parametrize(
    ("query", "documents"),
    [
        ("§ 5 AO", "c"),
        ("§ 5 der AO", "c"),
        ("§ 5 Abs. 1 Satz 2 und 3 AO", "c"),
        ("§ 5 in der AO", "c"),
        ("§ 5 Abgabenordnung (AO)", "c"),
        ("§ 5 SGB V", "d"),
        ("§ 5 SGB 5", "d"),
        ("§ 5 Abs. 1 SGB-II", "g"),
        ("§ 5 SGB I", ""),
        ("§ 5 SGB", "dg"),
        ("§ 5 der 4. BImSchV", "h"),
        ("§ 5 20. BImSchV", "i"),
        ("§ 5 BImSchV", "hi"),
        ("§ 5A AO", ""),
        ("§ 5 VwVfG NRW", "f"),
        ("§ 5 Verwaltungsverfahrensgesetz NRW", "f"),
        # The name of the law may stand before, and be no abbreviation.
        ("AO § 5", "c"),
        ("Was sagt die AO in § 5?", "c"),
        ("§ 5 der Hundesteuersatzung", "b"),
        ("Was regelt die Hundesteuersatzung in § 5?", "b"),
        # No laws are called so.
        ("Gilt § 5 auch für KFZ?", "a"),
        ("Muss ich nach § 5 als GmbH zahlen?", "a"),
        ("Gilt § 5 und auch die AO?", "c"),
        ("§ 5 StVO", ""),
        ("§ 5 der StVO auch für KFZ", ""),
        ("§ 5 der Straßenverkehrsordnung (StVO)", ""),
        ("§ 5 des Gesetzes über Ordnungswidrigkeiten (OWiG)", ""),
    ],
)
def test_the_name_of_a_law_stands_right_behind_its_section(query: str, documents: str) -> None:
    levels = citation_levels(query, LAWS)

    assert "".join(each.document for each, level in zip(LAWS, levels, strict=True) if level) == documents


def test_an_act_of_the_union_is_told_by_its_number() -> None:
    acts = [
        place("Art. 5 Ziele", document="a", name="Verordnung (EU) 2016/680"),
        place("Art. 5 Grundsätze", document="b", name="Verordnung (EU) 2016/679 (Datenschutz-Grundverordnung)"),
    ]

    for act in ("VO (EU) 2016/679", "der Verordnung (EU) Nr. 2016/679", "of Regulation (EU) 2016/679"):
        assert citation_levels(f"Art. 5 {act}", acts) == [0, 1]


def test_letters_of_sections_are_the_same_in_capitals() -> None:
    assert citation_levels("§ 3E NetzDG", PLACES)[:2] == [1, 0]


@given(
    st.lists(st.sampled_from(["§ 3", "Abs. 2", "Nr. 2", "NetzDG", "Art. 3", "II", "§§ 1 bis 3e", "GG", "und", "?"])),
    st.permutations(PLACES),
)
def test_only_headings_make_a_place_the_cited_one(words: list[str], places: list[CitedPlace]) -> None:
    found = citation_levels(" ".join(words), places)

    assert len(found) == len(places)
    assert set(found) <= {0, 1, 2, 3}
    assert found[places.index(PLACES[-1])] == 0


@given(st.text())
def test_any_query_has_levels(text: str) -> None:
    assert len(citation_levels(text, PLACES)) == len(PLACES)
