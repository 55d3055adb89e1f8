"""Words that a hyphen breaks at the end of a line of plain text are whole again, and nothing else is joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.join_words import join_words
from freki.operators.parse_text import parse_text
from freki.schemas.outline import BlockKind
from tests.unit.outlines import assert_outline, parts, texts

_GERMAN = "Die Frist ist lang, und der Mieter darf nicht mit ihr rechnen.\n\n"
_ENGLISH = "The period of notice is long, and the tenant of the flat is not to rely on it.\n\n"


def joined(lines: str, *, language: str = _GERMAN) -> str:
    document = join_words(parse_text(language + lines))
    assert_outline(document)
    return document.text.removeprefix(language)


@pytest.mark.parametrize(
    ("lines", "whole"),
    [
        ("Die Kündi-\ngungsfrist beträgt drei Mo-\n  nate.", "Die Kündigungsfrist beträgt drei Monate."),
        ("„Kündi-\ngung“ (Kün-\ndigung), Kündi\u2010\ngung", "„Kündigung“ (Kündigung), Kündigung"),
        ("Wohn-Miet-\nverhältnis", "Wohn-Mietverhältnis"),
        ("Mo-\r\nnate", "Monate"),
        ("Kün\u00addi\u00ad\ngungs\u00adfrist", "Kündigungsfrist"),
    ],
)
def test_broken_words_of_german_are_whole(lines: str, whole: str) -> None:
    assert joined(lines) == whole


@pytest.mark.parametrize(
    "lines",
    [
        "Ein-\nund Ausgabe",
        "Vor- oder Nach-\nbzw. Nebenteil",
        "E-Mail-\nAdresse",
        "Müller-\nLüdenscheidt",
        "EU-\nweit",
        "USt-\nfrei",
        "x-\nbeliebig",
        "17-\njährig",
        "nicht-\nöffentlich",
        "deutsch-\nfranzösische Grenze",
        "Know-\nhow",
        "http://a.de/foo-\nbar",
        "--dry-\nrun",
        "foo-\nbar_baz",
        "foo-\nbar.baz",
        "foo-\nbar()",
        "Kündi-\n\ngungsfrist",
        "Kündi-\n\fgungsfrist",
        "Kündi -\ngungsfrist",
        "> Kündi-\n> gungsfrist",
    ],
)
def test_what_has_its_hyphen_of_its_own_is_kept(lines: str) -> None:
    assert joined(lines) == lines


def test_a_word_that_the_text_has_with_its_hyphen_keeps_it() -> None:
    assert joined("Das rot-grüne Dach. Ein rot-\ngrüne Wand.") == "Das rot-grüne Dach. Ein rot-\ngrüne Wand."


def test_other_languages_break_lines_at_hyphens_so_that_only_known_words_are_joined() -> None:
    assert joined("A long-\nterm plan", language=_ENGLISH) == "A long-\nterm plan"
    assert joined("A termina-\ntion. No termination!", language=_ENGLISH) == "A termination. No termination!"
    assert joined("The world-\nwide, world-wide, worldwide", language=_ENGLISH).startswith("The world-\nwide,")
    assert joined("A termina\u00ad\ntion.", language=_ENGLISH) == "A termination."


def test_blocks_are_those_of_the_lines() -> None:
    source = (
        _GERMAN + "3 Tage nach der Kündi-\ngungsfrist\n\n- Mie-\n  ter – und\n- Vermie-\n  ter\n\nEnde der Fris-\nten"
    )

    document = join_words(parse_text(source))

    assert_outline(document)
    assert texts(document, BlockKind.PROSE)[1:] == ["3 Tage nach der Kündigungsfrist", "Ende der Fristen"]
    assert parts(document, document.blocks[2]) == ["- Mieter – und", "- Vermieter"]


@given(st.text(st.sampled_from("ab-. \n\tÄ\u00ad1"), max_size=60))
def test_blocks_hold_all_that_is_visible(source: str) -> None:
    assert_outline(join_words(parse_text(_GERMAN + source)))
