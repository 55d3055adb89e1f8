import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.settings import LexicalSettings
from freki.operators.analyse_text import (
    ANALYSER,
    MAX_BYTES,
    analyse_text,
    plain_terms,
    protected_words,
    query_terms,
    term_places,
)
from freki.operators.analyse_text.words import _STOPPED
from freki.operators.detect_language import CANDIDATES
from freki.schemas.errors import Misconfigured
from freki.streams.wire.from_settings import analyser_of
from tests.unit.allocated import allocated_by
from tests.unit.following_sections import FOLLOWING_SECTIONS


def terms(text: str, language: str = "de") -> list[str]:
    return analyse_text(text, language=language).split()


def stems(text: str, language: str = "de") -> str:
    """All terms but the marked words and numbers."""
    return " ".join(term for term in terms(text, language) if not term.startswith(("=", "#")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Der Hund und die Katzen", "hund katz"),
        ("KÜHNE Kühne Kuehne", "kuhn kuhn kuhn"),
        ("Straße Strasse STRASSE", "strass strass strass"),
        ("Cafe\u0301 Café Cafe", "caf caf caf"),
        ("Zi\u00adtro\u200bne", "zitron"),
        ("Wo und wann ist es?", ""),
        ("", ""),
        (" \n\t", ""),
    ],
)
def test_german_words_are_folded_and_stemmed_without_stop_words(text: str, expected: str) -> None:
    assert stems(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "The dogs weren't running, Peter's was", "dog run peter"),
        ("fr", "les maisons de la ville", "maison vill"),
        ("es", "las casas de la ciudad", "cas ciud"),
        ("it", "le case della città", "cas citt"),
    ],
)
def test_each_language_has_its_own_rules(language: str, text: str, expected: str) -> None:
    assert stems(text, language) == expected


@pytest.mark.parametrize("language", ["und", "ja", ""])
def test_without_a_certain_language_words_are_stemmed_as_german_and_as_english(language: str) -> None:
    assert stems("the Kühne und houses", language) == "kuhn kuhne hous"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("§ 242 BGB", "§242 242 bgb"),
        ("§242", "§242 242"),
        ("§ 312a", "§312a 312a"),
        ("§§ 535, 536 ff. BGB", "§535 535 §536 536 ff bgb"),
        ("§§ 535 bis 540", "§535 535 §540 540"),
        ("Paragraph 535", "§535 535"),
        ("§ 573 c BGB", "§573c 573c bgb"),
        ("§ 5 I BGB", "§5 5 i bgb"),
        ("§ 5 a.F.", "§5 5 a.f a f"),
        ("§ 535 Abs. 1 S. 2", "§535 535 abs1 1 s 2"),
        ("Absatz 2a", "abs2a 2a"),
        ("Text\n(2) Der Mieter", "text abs2 2 miet"),
        ("der Mieter (2) zahlt", "miet 2 zahlt"),
        ("Nr. 4 und Nummer 5", "nr4 4 nr5 5"),
        ("Nr. 1.234", "nr 1234"),
        ("Art. 5 GG", "art5 5 gg"),
        ("Art 5", "art5 5"),
        ("(EU) 2016/679", "eu 2016/679 2016 679"),
        ("info@example.org", "info@example.org info example.org exampl org"),
        (
            "https://www.example.org/a/Miete.html#b,",
            "example.org/a/miete.html#b example.org exampl org a miete.html miet html b",
        ),
        ("Artikel 5", "art5 5"),
        ("DIN 18040-1", "din 18040 1 din18040 din18040-1"),
        ("din 18040", "din 18040 din18040"),
        ("DIN EN ISO 9001:2015", "din en iso 9001 din9001 en9001 iso9001 2015"),
        ("UVP", "uvp"),
        ("IT und WHO", "it who"),
        ("50.000 EUR", "50000 eur"),
        ("50.000,00 €", "50000 eur"),
        ("50000 Euro", "50000 eur"),
        ("50 000 €", "50000 eur"),
        ("€ 50,000.00", "eur 50000"),
        ("50.000EUR", "50000 eur"),
        ("1.234,56 EUR", "1234.56 eur"),
        ("3,5 %", "3.5 prozent"),
        ("3.5 Prozent", "3.5 prozent"),
        ("0,125", "0.125"),
        ("1.2.2024", "2024-02-01 2024-02 2024"),
        ("01. 02. 2024", "2024-02-01 2024-02 2024"),
        ("2024-02-01", "2024-02-01 2024-02 2024"),
        ("2024-02-01T10:15", "2024-02-01 2024-02 2024 10 15"),
        ("1. Februar 2024", "februar 2024-02-01 2024-02 2024"),
        ("February 1st, 2024", "february 2024-02-01 2024-02 2024"),
        ("März 2023", "marz 2023-03 2023"),
        ("32.13.2024", "32.13.2024"),
        ("45. Mai 2024", "mai 2024"),
        ("Python 3.11.7", "python 3.11.7 3.11"),
        ("v2.0.1", "2.0.1 2.0"),
        ("3.10", "3.10"),
        ("192.168.0.1", "192.168.0.1 192.168"),
        ("14:30", "14 30"),
        ("COVID-19", "covid19 covid 19"),
        ("E-Mails", "email e mail"),
        ("getUserById", "getuserbyid get user by id"),
        ("HTTPServer", "httpserv http serv"),
        ("GmbH", "gmbh"),
        ("StGB VwGO PowerPoint", "stgb vwgo powerpoint pow point"),
        ("max_tokens", "max_tokens max tok"),
        ("os.path", "os.path os path"),
        ("C++ C# 5G", "c++ c# 5g"),
        ("1990er-Jahre", "1990erjahr 1990er jahr"),
        ("2-Zimmer", "2zimm 2 zimm"),
    ],
)
def test_what_means_something_in_its_form_is_kept(text: str, expected: str) -> None:
    assert stems(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1Mietverträge gelten", "1mietverträge mietvertrag miet vertrag gelt"),
        ("Kündigungsfrist1", "kündigungsfrist1 kundigungsfrist kundig frist"),
        ("1Miete-Frist2", "1mietefrist2 1miete miet frist2 frist"),
        ("1Der Mieter", "1der miet"),
        ("python3 Version12", "python3 python version12 version"),
        ("toHash24", "tohash24 to hash24 hash"),
    ],
)
def test_a_word_with_the_number_of_a_sentence_or_note_also_gives_its_own_terms(text: str, expected: str) -> None:
    assert stems(text) == expected


@pytest.mark.parametrize("name", ["H2O", "log4j", "utf8", "2FA", "10GB", "1st", "90er", "test2024"])
def test_letters_and_digits_of_a_name_stay_together(name: str) -> None:
    assert stems(name) == name.lower()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("§ 12¹ gilt", "§ 12 gilt"),
        ("§§ 12², 13³", "§§ 12, 13"),
        ("Art. 5 GG² und § 573c²", "Art. 5 GG und § 573c"),
        ("¹Mietverträge, ²Fristen", "Mietverträge, Fristen"),
        ("Kündigungsfrist¹² der EU¹", "Kündigungsfrist der EU"),
        ("10³ Stück", "10 Stück"),
        ("1½ Jahre", "1 Jahre"),
        ("½ Jahr", "1 2 Jahr"),
        ("m² und 5km², R², CO²", "m2 und 5km2, R2, CO2"),
        ("DIN EN 18040\u20111", "DIN EN 18040-1"),
        ("E\u2011Mail\u2010Adresse", "E-Mail-Adresse"),
    ],
)
def test_compatible_characters_change_neither_numbers_nor_words(text: str, same: str) -> None:
    assert terms(text) == terms(same)


def test_a_word_is_also_marked_as_it_is_written() -> None:
    assert analyse_text("Häuser kaufen", language="de") == "=hauser haus =kaufen kauf"


def test_a_mistaken_language_still_finds_the_word() -> None:
    assert set(terms("Häuser", "en")) & set(terms("die Häuser", "de")) == {"=hauser"}


@pytest.mark.parametrize(
    ("compound", "parts"),
    [
        ("Mietvertrag", "Miet Vertrag"),
        ("Mietverträge", "Miet Verträge"),
        ("Rundfunkbeitrag", "Rundfunk Beitrag"),
        ("Kündigungsfrist", "Kündigung Frist"),
        ("Brandschutzverordnung", "Brand Schutz Verordnung"),
        ("Straßenverkehrsordnung", "Straße Verkehr Ordnung"),
        ("Krankenversicherungsbeitrag", "Kranken Versicherung Beitrag"),
        ("Bundesverfassungsgericht", "Bund Verfassung Gericht"),
        ("Umweltverträglichkeitsprüfung", "Umwelt Verträglichkeit Prüfung"),
        ("Aufsichtsratsmitglied", "Aufsicht Rat Mitglied"),
        ("Softwareentwicklung", "Software Entwicklung"),
        ("Schreibtischlampe", "Schreib Tisch Lampe"),
        ("Atemschutzmaske", "Atem Schutz Maske"),
        ("Apfelbaum", "Apfel Baum"),
        ("Hundehütte", "Hund Hütte"),
        ("Schadensersatzpflicht", "Schaden Ersatz Pflicht"),
        ("Weltmeisterschaft", "Welt Meisterschaft"),
        ("Rauchmelder", "Rauch Melder"),
        ("Kaiserreich", "Kaiser Reich"),
    ],
)
def test_a_compound_gives_its_parts_too(compound: str, parts: str) -> None:
    assert stems(compound).split()[1:] == [stems(part) for part in parts.split()]


WHOLE = """
Vertrag Mieter Verordnung Gesellschaft Wirtschaft Versicherung Entwicklung Universität Information Kommission
Regierung Minister Professor Bibliothek Deutschland Mannschaft Geheimnis Untersuchung Erklärung Organisation
Software Programm Theater Schmetterling Flüchtling Verbrauch Gericht Geschichte Demokratie Substanz
Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft
"""


@pytest.mark.parametrize("word", WHOLE.split())
def test_what_is_no_compound_stays_whole(word: str) -> None:
    assert len(stems(word).split()) == 1


def test_other_languages_have_no_compounds() -> None:
    assert stems("Mietvertrag", "en") == "mietvertrag"
    assert stems("Mietvertrag", "und") == "mietvertrag miet vertrag"


@pytest.mark.parametrize(
    ("query", "chunk"),
    [
        ("§ 535 BGB", "BGB > § 535 Inhalt und Hauptpflichten des Mietvertrags"),
        ("Paragraph 535 BGB", "BGB > § 535 Inhalt und Hauptpflichten des Mietvertrags"),
        ("535 BGB", "§§ 535 ff. BGB"),
        ("DIN 18040", "nach DIN 18040-1 barrierefrei"),
        ("ISO 9001", "zertifiziert nach DIN EN ISO 9001:2015"),
        ("50000 Euro", "Höchstens 50.000,00 € werden gezahlt"),
        ("Kuehne", "Peter Kühne"),
        ("17.2.2024", "am 17. Februar 2024"),
        ("Python 3.11", "ab Python 3.11.7"),
        ("email", "per E-Mail"),
        ("max tokens", "`max_tokens=3`"),
        ("user", "getUserById()"),
        ("Fristen", "Die Kündigungsfrist endet"),
        ("Verträge zur Miete", "der Mietvertrag"),
        ("Kuendigung", "die Kündigungsfrist"),
        ("Prüfung", "Umweltvertraeglichkeitspruefung"),
        ("Art. 5 GG", "GG > Die Grundrechte > Art 5"),
        ("§ 80 Absatz 2", "VwGO > § 80\n(2) Die aufschiebende Wirkung entfällt"),
        ("example.org", "siehe https://www.example.org/impressum"),
        ("Verordnung 2016/679", "Verordnung (EU) 2016/679"),
        ("Kündigungsfrist", "1Kündigungsfristen1 gelten"),
        ("Python", "ab python3"),
    ],
)
def test_a_question_finds_all_its_terms(query: str, chunk: str) -> None:
    assert set(stems(query).split()) <= set(stems(chunk).split())


@pytest.mark.parametrize(("written", "spaced"), FOLLOWING_SECTIONS)
def test_following_sections_need_no_space_in_a_query(written: str, spaced: str) -> None:
    of_written, of_spaced = (query_terms(text, language="de").split() for text in (written, spaced))
    of_document = [term for term in terms(written) if re.fullmatch(r"\d+[a-z]?ff", term)]

    assert sorted(of_written) == sorted([*of_spaced, *of_document])
    assert bool(of_document) is ("ff" in written), "documents have it as one word"


@pytest.mark.parametrize("text", ["§ 5f BauGB", "Was steht in § 312f. Gilt das?", "Farbe 00ff", "§ 5 aff", "1ff"])
def test_other_letters_behind_numbers_stay_in_a_query(text: str) -> None:
    asked = query_terms(text, language="de").split()

    assert [term for term in asked if "#" not in term] == [term for term in terms(text) if "#" not in term]


@pytest.mark.parametrize(
    ("written", "cited"),
    [
        ("Was regelt Paragraf 551 BGB?", "Was regelt § 551 BGB?"),
        ("PARAGRAF 573 c", "§ 573c"),
        ("wegen des Paragrafs 5", "wegen des § 5"),
        ("Paragrafen 535 und 536 BGB", "§§ 535, 536 BGB"),
        ("Sec. 551 BGB", "§ 551 BGB"),
        ("in den Artikeln 8 und 9 des Grundgesetzes", "in Art. 8, Art. 9 des Grundgesetzes"),
        ("Art. 5, 6 und 9 DSGVO", "Art. 5, Art. 6, Art. 9 DSGVO"),
        ("articles 13 and 14", "Art. 13, Art. 14"),
        ("Paragrafen 48ff. VwVfG", "§§ 48 ff. VwVfG"),
        ("§ 535 II BGB", "§ 535 Abs. 2 BGB"),
        ("Art. 20 IV GG", "Art. 20 Abs. 4 GG"),
        ("§ 573 c I, § 5 XIX 2 SGB", "§ 573c Abs. 1, § 5 Abs. 19 2 SGB"),
        ("am 01.02.24", "am 01.02.2024"),
        ("vom 1.2.98", "vom 1.2.1998"),
    ],
)
def test_a_query_finds_a_section_by_any_word_for_it(written: str, cited: str) -> None:
    of_written, of_cited = (query_terms(text, language="de").split() for text in (written, cited))

    assert set(of_cited) <= set(of_written)
    assert set(terms(written)) <= set(of_written), "documents may have the word that is asked for"
    assert [term for term in of_written if "#" in term] == [term for term in of_cited if "#" in term]


@pytest.mark.parametrize(
    "text", ["article 5 and 30 days", "Paragrafenreiter 5", "30 sec 5", "section 5 I read", "Artikel 5 Abs. 1 und 2"]
)
def test_other_numbers_are_no_sections(text: str) -> None:
    asked = query_terms(text, language="de").split()

    assert [term for term in asked if "#" not in term] == [term for term in terms(text) if "#" not in term]


@pytest.mark.parametrize(
    "text", ["Python 3.11.10", "Version 10.12.14", "10.11.12.13", "31.31.24", "1.2.10", "01.02.24.5"]
)
def test_other_numbers_are_no_dates(text: str) -> None:
    assert query_terms(text, language="de").split() == terms(text)


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        ("bis zum\n31\\. Mai 2015", "bis zum\n31. Mai 2015"),
        ("max\\_size", "max_size"),
        ("\\_\\_init\\_\\_\\.py", "__init__.py"),
        ("E\\-Mail", "E-Mail"),
    ],
)
def test_escapes_of_markdown_change_no_term(escaped: str, text: str) -> None:
    assert analyse_text(escaped, language="de") == analyse_text(text, language="de")
    assert " ".join(place.terms for place in term_places(escaped, language="de")) == analyse_text(text, language="de")


def test_a_protected_word_may_be_escaped() -> None:
    assert analyse_text("max\\_size", language="en", protected=frozenset({"max_size"})) == "=max_size"


def test_other_terms_need_another_version() -> None:
    # An index holds the terms of its analyser: change this only together with its version.
    text = "Nach § 535 BGB zahlt der Vermieter 50.000 EUR Schadensersatz für E-Mails, die Peter Kühne am 1.2.2024 las."

    assert ANALYSER == "freki-terms@6"
    assert analyse_text(text, language="de") == (
        "§535 535 =bgb bgb =zahlt zahlt =vermieter vermiet 50000 eur =schadensersatz schadensersatz schad "
        "ersatz email =e e =mails mail =peter pet =kuhne kuhn 2024-02-01 2024-02 2024 =las las"
    )


def test_the_result_ends_at_a_term_before_the_stores_limit() -> None:
    analysed = analyse_text("übermut § 5 " * 10_000, language="und")

    assert MAX_BYTES - 20 < len(analysed.encode()) <= MAX_BYTES
    assert set(analysed.split()) == set(analyse_text("übermut § 5", language="und").split())


PIECES = "§ |§§|535|a|, |DIN |18040-1|50.000|,00| €|1.|2.|2024| März |v|camelCase|snake_|'s|’|-|ß|Ü|ﬁ|½|字| |\n|+|#|٣"
pieces = st.sampled_from([*PIECES.split("|"), "\u0308", "\u200b", "9" * 30, "²", "\u2011", "\u01f0", "1Der", "Frist2"])


@given(
    text=st.lists(pieces, max_size=30).map("".join) | st.text(max_size=60),
    language=st.sampled_from(["de", "en", "und"]),
)
def test_any_text_becomes_terms_that_a_splitter_at_spaces_gives_back(text: str, language: str) -> None:
    analysed = analyse_text(text, language=language)

    assert analysed == " ".join(analysed.split())
    # Letters of Cherokee fold to capitals.
    assert all(letter in {letter.lower(), letter.casefold()} for letter in analysed)


@given(text=st.text(max_size=40))
def test_composed_and_decomposed_letters_are_the_same(text: str) -> None:

    assert analyse_text(unicodedata.normalize("NFD", text), language="de") == analyse_text(
        unicodedata.normalize("NFC", text), language="de"
    )


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u2007"])
@pytest.mark.parametrize(
    "text",
    ["§ 573 c BGB", "§§ 535, 536 ff.", "BGB > § 535 Inhalt", "Art. 5 Abs. 1 Nr. 2", "DIN EN 60204-1", "50 000 Euro"],
)
def test_no_break_spaces_are_spaces(text: str, space: str) -> None:
    written = text.replace(" ", space)

    assert terms(written) == terms(text)
    assert list(term_places(written, language="de")) == list(term_places(text, language="de"))


@pytest.mark.parametrize("heading", ["§ 535 Inhalt", "BGB > Mietvertrag > § 535 Inhalt", "Eins\n§ 535 Inhalt"])
def test_the_number_of_a_heading_is_told_from_one_that_is_referred_to(heading: str) -> None:
    assert "#§535" in terms(heading)
    assert "#§535" not in terms("wie in § 535 steht")
    assert "#§535" in query_terms("Was steht in § 535 BGB?", language="de").split()
    assert query_terms("Was steht in Art. 5?", language="de") == "=steht steht art5 5 #art5 #art5"


def test_plain_terms_are_the_words_in_small_letters() -> None:
    assert plain_terms("Nach § 535 BGB\nzahlt der Vermieter.", language="de") == "nach § 535 bgb zahlt der vermieter."


HOSTILE = [
    "http://",
    "www.a.",
    "a@",
    "a.b@",
    "1/",
    "\n(1",
    "Nr. ",
    "abs 1.",
    "1",
    "a.",
    "DIN ",
    "111 ",
    "1,",
    "xX",
    "_",
    "a'",
    "§§ 1, ",
    "januar ",
    "1. ",
    "1.1.",
    "§",
    " ",
    "e\u0301",
    "DIN-1",
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_long(piece: str) -> None:
    # What is quadratic would run into the suite's timeout.
    assert len(analyse_text(piece * (300_000 // len(piece)), language="de").encode()) <= MAX_BYTES


@pytest.mark.exhaustive
@pytest.mark.parametrize("piece", ["§", "§ ", "§1", "§ 1,", "Art. 1 und ", "1,", "ff.", " "])
def test_no_query_takes_long(piece: str) -> None:
    assert len(query_terms("§ 1" + piece * (300_000 // len(piece)), language="de").encode()) <= MAX_BYTES


@pytest.mark.parametrize(
    ("language", "one", "other", "stopped"),
    [
        ("pl", "umowy", "umowa", "i nie było"),
        ("nl", "contracten", "contract", "de van het"),
        ("pt", "contratos", "contrato", "os de não"),
        ("sv", "avtalen", "avtalet", "och är"),
        ("da", "aftalerne", "aftale", "og er"),
    ],
)
def test_forms_of_a_word_have_one_stem_and_function_words_none(
    language: str, one: str, other: str, stopped: str
) -> None:
    assert stems(f"{one} {stopped}", language) == stems(other, language)
    assert "=" not in "".join(terms(stopped, language))


def test_each_language_that_is_detected_has_stop_words() -> None:
    assert set(CANDIDATES) <= set(_STOPPED)


def test_a_heading_of_markdown_within_a_chunk_counts_as_one() -> None:
    assert "#§537" in analyse_text("Text.\n\n## § 537 (weggefallen)", language="de").split()
    assert "#§537" not in analyse_text("Text nach § 537.", language="de").split()


def test_protected_words_are_neither_dropped_nor_stemmed_nor_split() -> None:
    words = protected_words("# Namen\nSein\u2011Haus\n\nWASSERWERK\nwill\n")

    for analyse in (analyse_text, query_terms):
        assert analyse("Will das Wasserwerk zum Sein-Haus?", language="de", protected=words).split() == [
            "=will",
            "=wasserwerk",
            "=sein-haus",
        ]


def test_other_protected_words_are_another_analyser(tmp_path: Path) -> None:
    versions = {analyser_of(LexicalSettings()).version}
    for name, text in (("a", "Wasserwerk"), ("b", "Wasserwerk\nSein"), ("c", "# the same as b\nsein\nWasserwerk\n")):
        (tmp_path / name).write_text(text)
        versions.add(analyser_of(LexicalSettings(protected=tmp_path / name)).version)

    assert len(versions) == 3
    with pytest.raises(Misconfigured, match="FREKI_LEXICAL__PROTECTED"):
        analyser_of(LexicalSettings(protected=tmp_path / "gone"))


def _grouped(number: int, sign: str) -> str:
    return f"{number:,}".replace(",", sign)


@given(st.integers(1, 10**9), st.integers(0, 99), st.sampled_from(["de", "en", "und"]))
def test_an_amount_has_the_same_terms_however_it_is_written(euros: int, cents: int, language: str) -> None:
    small = f"{cents:02}"
    german = [f"{euros},{small}", f"{_grouped(euros, '.')},{small}", f"{_grouped(euros, ' ')},{small}"]
    english = [f"{euros}.{small}", f"{_grouped(euros, ',')}.{small}"]
    numbers = [*german, *english]
    if cents == 0:
        numbers += [f"{euros}", _grouped(euros, "."), _grouped(euros, ","), _grouped(euros, " "), f"{euros},-"]
    amounts = [number + currency for number in numbers for currency in (" €", "€", " EUR", " Euro")]

    assert len({analyse_text(amount, language=language) for amount in amounts}) == 1
    assert {query_terms(amount, language=language) for amount in amounts} == {
        analyse_text(amounts[0], language=language)
    }


@given(st.integers(1, 999), st.integers(1, 999), st.integers(1, 99))
def test_what_looks_like_an_amount_and_is_none_keeps_its_own_terms(one: int, two: int, three: int) -> None:
    assert analyse_text(f"nach § {one} Abs. {two}", language="de") == f"§{one} {one} abs{two} {two}"
    assert f"{one}.{three}.{three}" in analyse_text(f"Version {one}.{three}.{three}", language="de").split()
    assert f"{one}/{two}" in analyse_text(f"Az. {one}/{two}", language="de").split()
    assert analyse_text("1.2.2024", language="de") == "2024-02-01 2024-02 2024"


def test_words_of_any_length_take_little_memory_once_they_are_analysed() -> None:
    analyse_text("wort", language="de")
    with allocated_by(__file__) as allocated:
        for number in range(20):
            analyse_text(chr(ord("a") + number) + "x" * 100_000, language="de")
        held_bytes = allocated.held_bytes()

    assert 0 < held_bytes < 100_000
