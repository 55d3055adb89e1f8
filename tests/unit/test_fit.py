from dataclasses import replace
from typing import Any

import pytest

from freki.operators.fit import mismatches
from tests.contract.index_records import GENERATION, WITH_KIND_EMBEDDER
from tests.memory_archive import start_of

START = start_of(GENERATION)


def test_an_archive_fits_the_index_that_it_was_made_from_whatever_its_name() -> None:
    assert mismatches(START, replace(GENERATION, name="g2"), layout=6) == []
    assert mismatches(start_of(WITH_KIND_EMBEDDER), WITH_KIND_EMBEDDER, layout=6) == []


@pytest.mark.parametrize(
    ("generation", "layout", "different"),
    [
        (replace(GENERATION, embedder="model@2"), 6, [("embedder", "model@1", "model@2")]),
        (replace(GENERATION, dim=8), 6, [("dim", 4, 8)]),
        (replace(GENERATION, analyser="plain@1"), 6, [("analyser", "snowball@1", "plain@1")]),
        (WITH_KIND_EMBEDDER, 6, [("embedders", {}, {"CODE": ("coder@1", 3)})]),
        (GENERATION, 7, [("layout", 6, 7)]),
        (replace(GENERATION, dim=8, embedder="x"), 6, [("embedder", "model@1", "x"), ("dim", 4, 8)]),
    ],
)
def test_what_differs_is_named(generation: Any, layout: int, different: list[tuple[str, Any, Any]]) -> None:
    assert mismatches(START, generation, layout=layout) == different


def test_another_format_of_the_files_does_not_fit() -> None:
    assert mismatches(replace(START, format=2), GENERATION, layout=6) == [("format", 2, 1)]
