"""A reviewer sees the beginning of the section that should answer."""

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.parse_markdown import parse_markdown
from freki.streams.evaluate.excerpt import section_excerpt

PAGE = """# Urlaub

Vorwort.

## Antrag

Der Antrag ist
schriftlich zu stellen.

### Frist

- drei Wochen
- vorher

## Danach

Etwas anderes.
"""


def test_a_section_ends_at_the_next_heading_of_its_level() -> None:
    expected = "Der Antrag ist schriftlich zu stellen.\nFrist\n- drei Wochen\n- vorher"

    assert section_excerpt(parse_markdown(PAGE), ["Antrag"], 500) == expected


def test_a_long_section_is_cut_at_a_word_and_an_unknown_one_is_the_document() -> None:
    assert section_excerpt(parse_markdown(PAGE), ["Antrag"], 16) == "Der Antrag ist …"
    assert section_excerpt(parse_markdown(PAGE), ["Nirgends"], 500).startswith("Urlaub\nVorwort.")


@given(st.text(max_size=200), st.integers(1, 50))
def test_an_excerpt_is_not_longer_than_wanted(text: str, characters: int) -> None:
    assert len(section_excerpt(parse_markdown(text), [], characters)) <= characters + len(" …")
