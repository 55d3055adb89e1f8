"""No change reads questions worse unnoticed: their types, and what of them is exact."""

from collections.abc import Callable

import pytest
import pytest_asyncio

from freki.operators.analyse_query import example_wordings
from tests.quality.reading import BOTH, EXAMPLES, HALVES, RULES, Read, labelled, read, right

RECORDED = {"development": 136, "held-out": 117}
"""Questions whose type is read rightly, as docs/queries.md has them."""
SPARE = 3
"""Processors round differently."""
LEAST_RECALL = 0.88
"""Of exact terms; `pip install` and `TCP` have no form that shows it."""

each_half = pytest.mark.parametrize("half", HALVES)


@pytest_asyncio.fixture(scope="module")
async def found() -> dict[str, list[Read]]:
    return await read()


@each_half
def test_types_are_read_as_well_as_recorded(
    found: dict[str, list[Read]], half: str, show: Callable[[str], None]
) -> None:
    counts = {way: right(found[half], way) for way in (RULES, EXAMPLES, BOTH)}

    show(f"types of {len(found[half])} {half} questions, right: {counts}")
    assert counts[BOTH] >= RECORDED[half] - SPARE, counts


@each_half
def test_examples_read_what_no_rule_knows(found: dict[str, list[Read]], half: str) -> None:
    assert right(found[half], BOTH) > max(right(found[half], RULES), right(found[half], EXAMPLES))


@each_half
def test_exact_terms_are_recognised_and_nothing_else(found: dict[str, list[Read]], half: str) -> None:
    wrong = {each.question.text: more for each in found[half] if (more := each.exact - each.question.exact)}
    wanted = sum(len(each.question.exact) for each in found[half])
    recognised = sum(len(each.exact & each.question.exact) for each in found[half])

    assert wrong == {}
    assert recognised >= LEAST_RECALL * wanted


@each_half
def test_sentences_are_no_keywords(found: dict[str, list[Read]], half: str) -> None:
    mistaken = [each.question.text for each in found[half] if each.keyword and not each.question.keyword]

    assert len(mistaken) <= 1


def test_no_labelled_question_is_among_the_examples_or_asked_twice() -> None:
    texts = [each.text for half in HALVES for each in labelled(half)]

    assert len(set(texts)) == len(texts) == 300
    assert not set(texts) & {example.text for example in example_wordings()}
