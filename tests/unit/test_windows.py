"""Windows for late chunking: each leaf is in one, and an edit changes few."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.operators.chunk import Windowed, late_windows
from freki.operators.parse_markdown import parse_markdown
from freki.operators.parse_text import parse_text
from freki.schemas import ChunkKind
from freki.schemas.outline import ParsedDocument
from tests.unit.test_chunk import LIMITS, SMALL, chunked, count_tokens

paragraphs = st.lists(
    st.integers(0, 10**6).map(lambda number: f"Absatz {number} sagt etwas über {number % 97} Dinge und mehr."),
    max_size=60,
)


def windowed(document: ParsedDocument, most: int = 64) -> Windowed:
    return late_windows(document.text, chunked(document, SMALL), count_tokens=count_tokens, max_tokens=most)


@given(given=paragraphs)
def test_each_leaf_stands_in_its_window_and_a_summary_in_none(given: Sequence[str]) -> None:
    chunks, windows = windowed(parse_text("\n\n".join(given)))

    for chunk in chunks:
        if chunk.kind is ChunkKind.SUMMARY:
            assert chunk.window == -1
        else:
            end = chunk.window_start + len(chunk.text)
            assert windows[chunk.window][chunk.window_start : end] == chunk.text
    assert {chunk.window for chunk in chunks} - {-1} == set(range(len(windows)))


@given(given=paragraphs)
def test_windows_are_about_as_long_as_the_model_reads(given: Sequence[str]) -> None:
    _, windows = windowed(parse_text("\n\n".join(given)))

    assert all(tokens <= 1.25 * 64 for tokens in count_tokens(windows))


def test_a_document_that_fits_is_one_window() -> None:
    document = parse_markdown("# Bienen\n\nDer Imker kommt.\n\n# Honig\n\nEr schmeckt.\n")

    chunks, windows = windowed(document)

    assert windows == [document.text]
    assert {chunk.window for chunk in chunks if chunk.kind is not ChunkKind.SUMMARY} == {0}


def test_windows_overlap() -> None:
    told = [f"Absatz {number} sagt etwas über {number % 97} Dinge und mehr davon." for number in range(40)]

    chunks, windows = windowed(parse_text("\n\n".join(told)))

    inner = windows[len(windows) // 2]
    own = [chunk.text for chunk in chunks if chunk.window == len(windows) // 2]
    assert sum(map(len, own)) < 0.95 * len(inner)


def test_an_edit_changes_only_the_windows_that_hold_it() -> None:
    told = [f"Absatz {number} sagt etwas über {number * 7919 % 1009} Dinge und mehr davon." for number in range(200)]
    _, before = windowed(parse_text("\n\n".join(told)))

    _, after = windowed(parse_text("\n\n".join([*told[:50], "Hier steht nun etwas Neues.", *told[50:]])))

    assert len(before) > 20
    assert len(set(after) - set(before)) <= 4


def test_nothing_gives_no_windows() -> None:
    assert late_windows("", [], count_tokens=count_tokens, max_tokens=64) == ([], [])


def test_a_window_needs_room() -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        late_windows("", [], count_tokens=count_tokens, max_tokens=7)


def test_chunks_have_no_window_unless_they_are_given_one() -> None:
    assert {chunk.window for chunk in chunked(parse_text("Eins.\n\n" * 50), LIMITS)} == {-1}
