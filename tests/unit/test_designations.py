import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.analyse_query import absent_designations, designations, exact_terms


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What does PEP 8 say about ISO 27001?", ("PEP 8", "ISO 27001")),
        ("Verordnung (EU) 2016/679 über Daten", ("2016/679",)),
        ("BGBl I 1997, 566", ("1997", "566")),
        ("ADR-017 oder max_size in TikTok", ("ADR-017", "max_size", "TikTok")),
        ("Was galt 1985?", ("1985",)),
        ("§ 4711 BGB, §§ 535 bis 540, Artikel 123 Absatz 1", ()),
        ("500 Stunden, 500 €, € 500, 10.000 Leute, 24/7, Phase 7, 2024/03/01, 3/1/2024", ()),
        ("01-02-2024, 03/01/2024, 08:00-16:00 Uhr", ()),
        ("„PEP 8“ für MitarbeiterInnen", ()),
        ("StudentInnenausweis für Mitarbeiter_innen und eine Nutzer_in", ()),
        ("ArbSchG, BetrSichV, BayStrWG", ()),
        ("CO2-Ausstoß, A4-Blatt, Covid-19-Impfung, ADR-017", ("CO2", "A4", "Covid-19", "ADR-017")),
        ("IBAN DE89 3704 0044 0532 0130 00?", ("DE89 3704 0044 0532 0130 00",)),
        ("Was kostet Teil 4713-1004, 4711-0815, 100-200-30?", ("4713-1004", "4711-0815", "100-200-30")),
        ("Rechnung 2024-0815 und 24-001234", ("2024-0815", "24-001234")),
        # Spans, days, months and seasons.
        ("2010-2012, Seiten 120-150, PLZ 10115-10119, 150-2000 Euro, 2024-02-01, 1-2-2024, 2024-02, 2023-24", ()),
        # Hyphens of word processors, at which no line ends.
        (
            "KX\u2011200, DIN EN 18040\u20111, 4711\u20110815, ISO\u201027001, 2024\u201101\u201131",
            ("DIN EN 18040-1", "ISO-27001", "KX-200", "4711-0815"),
        ),
        ("Tel. 030 90227-5050, +49 170 1234567?", ("030 90227-5050", "+49 170 1234567")),
        # File numbers of courts and offices.
        ("1 BvR 16/13, 1 bvr 16/13, VIII ZR 8/20", ("1 BvR 16/13", "1 bvr 16/13", "VIII ZR 8/20")),
        ("LSG Bayern, L 7 AS 100/19 B ER vom 3. Mai", ("L 7 AS 100/19",)),
        ("BVerwG, Urteil vom 12.3.2020 - 5 C 12.19 -", ("5 C 12.19",)),
        ("EuGH, C\u2011131/12 und T-201/04", ("C-131/12", "T-201/04")),
        ("2 Ws 3/20, 11 Sa 4/19, 6 AZR 1/2020, 4 StR 5/21", ("2 Ws 3/20", "11 Sa 4/19", "6 AZR 1/2020", "4 StR 5/21")),
        ("Geschäftszeichen: 602-4-2020/11, Az.: 50.11.02-12", ("602-4-2020/11", "50.11.02-12")),
        ("case no. AB.12.345", ("AB.12.345",)),
        ("Az. 602 - 4 - 2020/11, nicht 2020/21 - 2022/23", ("602 - 4 - 2020/11", "2020/21", "2022/23")),
        (
            "BMF, IV C 5 - S 2334/19/10009:002 und III C 2 – S 7100",
            ("IV C 5 - S 2334/19/10009:002", "III C 2 – S 7100"),
        ),
        # Registration numbers of vehicles.
        ("Kennzeichen B-AB 1234, M-XY12 oder HH-E 7E", ("B-AB 1234", "M-XY12", "HH-E 7E")),
        ("EU-VO 2016, IT-SG 2, U-Bahn 7, KI-RL 3", ("2016",)),
        ("Tel. 030/18 580-0", ("030/18 580-0",)),
        # Codes of numbers and letters with signs between them.
        ("V-2020/17, 4A-33-B7, BV/2020/0123", ("V-2020/17", "4A-33-B7", "BV/2020/0123")),
        ("100.234.5, 0200.5720, 192.168.0.1, 10.1000/182", ("100.234.5", "0200.5720", "192.168.0.1", "10.1000/182")),
        ("24V/5A, 3.14159265, 1.234.567, 12.500-15.000 Euro, 01.02.2024-03.04.2024, 2019/2020-2021", ()),
        ("3-jährig, StGB 5a/7b, Haus-12-Garten-13, 2024-02-01T10:00", ("Haus-12-Garten-13",)),
        ("5 EUR 12/20, Punkt 3 Nr 12/20, Heft 1-2/2020, Akte X, KW 3/20, Seite 3 Abl 12/20", ()),
    ],
)
def test_what_a_question_names_by_a_number_or_an_identifier(text: str, named: tuple[str, ...]) -> None:
    assert designations(text, exact_terms(text)) == named


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("PEP 8", "peps/pep-0008.rst"),
        ("PEP 8", "PEP: 8"),
        ("ISO 27001", "nach ISO/IEC 27001:2013"),
        ("ISO/IEC 27001", "nach ISO 27001"),
        ("DIN EN 18040-1", "DIN 18040-1"),
        ("2016/679", "(EU) 2016/679"),
        ("4711", "4.711 Stück"),
        ("566", "BGBl I: 1997, 566"),
        ("1 bvr 16/13", "Beschluss vom 5. Mai 2015 – 1 BvR 16/13 –"),
        ("5 C 12.19", "Az. 5 C 12/19"),
        ("602-4-2020/11", "Gz.: 602-4-2020/11"),
        ("602-4-2020/11", "Gz.: 602 - 4 - 2020/11"),
        ("602 - 4 - 2020/11", "Gz.: 602-4-2020/11"),
        ("IV C 5 - S 2334/19/10009:002", "GZ IV C 5-S 2334/19/10009:002"),
        ("B-AB 1234", "Pkw B AB-1234"),
        ("030/18 580-0", "(030) 18580-0"),
        ("ADR-017", "adr 17"),
        ("max_size", "`max_size`=3"),
        ("3.14", "Python 3.14.1"),
        ("--dry-run", "with --dry-run"),
        ("DE89370400440532013000", "DE89 3704 0044 0532 0130 00"),
        ("DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("01701234567", "+49 170 1234567"),
        ("+49 170 1234567", "0170/1234567"),
        ("030 902275050", "(030) 90227-5050"),
        ("eRechnungen", "die E-Rechnung"),
        ("maxSize", "max_size"),
        ("v2", "API, Version 2"),
        ("47150031", "Endschalter 4715-0031"),
        ("4715-0031", "Endschalter 47150031"),
        ("4715-0031", "4715.0031"),
    ],
)
def test_a_designation_may_be_written_with_other_signs(named: str, text: str) -> None:
    assert absent_designations([named], ["", text]) == ()


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("PEP 8", "PEP 257, PEP 80, chapter 8"),
        ("ISO 27001", "ISO 9001, 27001"),
        ("DIN 18040-2", "DIN 18040-1"),
        ("2016/679", "2016/424 and 679"),
        ("1 BvR 16/13", "1 BvR 6/13, 1 BvR 16/131, 11 BvR 16/13, 1 BvL 16/13"),
        ("VIII ZR 8/20", "VIII ZR 18/20 und XVIII ZR 8/20"),
        ("602-4-2020/11", "602-4-2020/12, 1602-4-2020/11"),
        ("602 - 4 - 2020/11", "602 - 4 - 2020/12"),
        ("B-AB 1234", "B-AB 123, B-A 1234, BB-AB 1234"),
        ("566", "1566, 5660, 12.566"),
        ("ADR-017", "ADR-171, ADR-18"),
        ("3.14", "3.140"),
        ("TikTok", "tick"),
        ("--dry-run", "damage by dry running"),
        ("max_size", "maximal sizes, max_sizeof"),
        ("os.path", "os.pathlib"),
        ("DE89370400440532013000", "DE89 3704 0044 0532 0130 01"),
        ("030 90227-5050", "030 90227-5051"),
        ("47150031", "4715-0032, 1-4715-0031, 47150 031"),
        ("4715-0031", "4715-0032, 4715 und 0031, 14715-0031"),
        ("471500", "47-15-00-31"),
        ("BGB", "BGBl. I 2007, BGBEG"),
        ("SGB I", "SGB II, SGB XI"),
    ],
)
def test_a_part_of_a_designation_is_another_one(named: str, text: str) -> None:
    assert absent_designations([named], [text]) == (named,)


@given(
    parts=st.lists(st.text(alphabet="AKsz19", min_size=1, max_size=5), min_size=1, max_size=8),
    signs=st.lists(st.sampled_from(["-", "/", ".", " ", ", "]), min_size=8, max_size=8),
)
def test_what_a_text_names_stands_in_it(parts: list[str], signs: list[str]) -> None:
    text = "".join(part + sign for part, sign in zip(parts, signs, strict=False))

    assert absent_designations(designations(text, exact_terms(text)), [text]) == ()
