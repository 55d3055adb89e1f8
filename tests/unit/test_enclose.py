import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.enclose import enclose


@given(text=st.text(alphabet="ab</quote >\n"), mark=st.text(alphabet="ab", min_size=1, max_size=4))
def test_nothing_in_a_text_ends_its_quote(text: str, mark: str) -> None:
    enclosed = enclose(text, mark=mark)

    assert enclosed.startswith(f"<quote {mark}>\n")
    assert enclosed.index(f"</quote {mark}>") == len(enclosed) - len(f"</quote {mark}>")


@given(text=st.text())
def test_a_text_without_the_mark_stays_as_it_is(text: str) -> None:
    assert enclose(text, mark="\ue000m") == f"<quote \ue000m>\n{text.replace(chr(0xE000) + 'm', '')}\n</quote \ue000m>"


def test_an_empty_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        enclose("a", mark="")
