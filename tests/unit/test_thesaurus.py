from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.settings import RetrievalSettings
from freki.operators.rephrase import Thesaurus, WrongThesaurus, parse_thesaurus
from freki.operators.rephrase.thesaurus import MOST_VARIANTS, Entry
from freki.schemas import Widening, WidenWhen
from freki.schemas.errors import Misconfigured
from freki.streams.wire.from_settings import thesaurus_of
from tests.unit.questions import ask, retriever
from tests.unit.revisions import World, revision

FILE = """\ufeff# Amtsdeutsch
Bürgeramt, Meldebehörde, Einwohnermeldeamt

UVP => Umweltverträglichkeitsprüfung
Perso , Personalausweis
Personalausweis beantragen => Ausweis bestellen
"""


def variants(question: str, language: str = "de") -> list[str]:
    return Thesaurus(parse_thesaurus(FILE)).variants(question, language=language)


def test_each_term_stands_for_the_others_and_an_arrow_for_one_direction() -> None:
    assert variants("Wo ist das Bürgeramt?") == ["Wo ist das Meldebehörde?", "Wo ist das Einwohnermeldeamt?"]
    assert variants("Was prüft die UVP?") == ["Was prüft die Umweltverträglichkeitsprüfung?"]
    assert variants("Was ist eine Umweltverträglichkeitsprüfung?") == []


def test_words_are_found_in_any_inflection_and_case_and_the_longest_term_counts() -> None:
    assert variants("Zuständigkeit der BÜRGERÄMTER") == [
        "Zuständigkeit der Meldebehörde",
        "Zuständigkeit der Einwohnermeldeamt",
    ]
    assert variants("den Personalausweis beantragen") == ["den Ausweis bestellen"]
    assert variants("den Personalausweis verlängern") == ["den Perso verlängern"]


def test_in_other_languages_words_are_compared_as_they_are() -> None:
    assert variants("le bürgeramt", "fr") == ["le Meldebehörde", "le Einwohnermeldeamt"]
    assert variants("les Bürgerämter", "fr") == []


def test_of_several_lines_for_a_term_all_count() -> None:
    entries = parse_thesaurus("Kita, Krippe\nKita, Hort\n")

    assert Thesaurus(entries).variants("Kita", language="de") == ["Krippe", "Hort"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a, b\nallein\n", "line 2: 'allein' stands alone"),
        ("a,, b", "line 1: a term without letters or digits"),
        ("\n\na =>", "line 3: a term without letters or digits"),
        ("=> b", "line 1: a term without"),
        ("a => b => c", "line 1"),
        ("x" * 101 + ", b", "line 1: 'xxx"),
        ("a, " + ", ".join(f"b{number}" for number in range(70)), "line 1: 71 terms are more than 64"),
        ("a, b\x07", "line 1: 'b"),
    ],
)
def test_a_wrong_line_is_named(text: str, problem: str) -> None:
    with pytest.raises(WrongThesaurus, match=r"^line ") as raised:
        parse_thesaurus(text)

    assert problem in str(raised.value)


@given(
    terms=st.lists(st.text("abc ", min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=6),
    question=st.text("abc ,?", max_size=30),
)
def test_what_is_no_term_stays_as_it_is(terms: list[str], question: str) -> None:
    thesaurus = Thesaurus([Entry(term=term, others=("1", "2", "3", "4", "5", "6")) for term in terms])

    found = thesaurus.variants(question, language="und")

    assert len(found) in (0, MOST_VARIANTS)
    for place, variant in enumerate(found, start=1):
        assert variant.replace(str(place), "") in question or str(place) in variant
        assert set(variant) <= set(question) | {str(place)}


def test_a_file_that_is_wrong_or_missing_is_named_with_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "terms.txt"
    for content, problem in ((None, "cannot be read"), (b"a, b\nallein\n", "line 2: 'allein'"), (b"\xff", "not UTF-8")):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(Misconfigured, match="FREKI_RETRIEVAL__THESAURUS") as raised:
            thesaurus_of(RetrievalSettings(thesaurus=file))
        assert problem in str(raised.value)
        assert str(file) in str(raised.value)


async def test_a_text_with_other_words_of_the_domain_is_found_by_them() -> None:
    world = World()
    await world.feed(
        revision("a", 1, ["die hopfenstube öffnet um acht", "der garten ist groß", "das wetter wird schön"])
    )
    thesaurus = Thesaurus(parse_thesaurus("Kantine, Hopfenstube"))

    result = await ask(
        retriever(world, thesaurus=thesaurus),
        "Wann öffnet die Kantine?",
        widen=(Widening.SYNONYMS,),
        widen_when=WidenWhen.ALWAYS,
    )

    assert result.variants == ("Wann öffnet die Kantine?", "Wann öffnet die Hopfenstube?")
    assert result.widened == (Widening.SYNONYMS,)
    assert "hopfenstube" in result.hits[0].text
