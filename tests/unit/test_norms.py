import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import absent_norms, cited_norms, is_bare_citation

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


@pytest.mark.parametrize("part", ["§", "§ 1 ", "§ 1, ", "1, ", "§ 1 I ", "Art. ", "§ 1 bis ", "§ 1 Abs. 1 "])
def test_many_characters_take_no_longer_than_others(part: str) -> None:
    text = part * (200_000 // len(part))

    assert len(list(cited_norms(text))) <= len(text)
    assert is_bare_citation(text) in {True, False}
