"""No change makes answers worse unnoticed: small fixed sets through the whole pipeline, against recorded figures."""

from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_asyncio

from freki.operators.evaluate.figures import EMPTY
from tests.quality.gate import RECORD, SETS, compare, contents_of, differences, read_recorded
from tests.quality.pipeline import CONFIGURATIONS, SERVED, SURE, Measured, measure

# A client for Python is taken for the one for Java that somebody asks for.
MOST_DECEIVED = 1

each_set = pytest.mark.parametrize("directory", SETS, ids=lambda path: path.name)


@pytest_asyncio.fixture(scope="module")
async def measured() -> Measured:
    """Ask everything once."""
    return await measure(SETS)


@each_set
def test_the_recorded_figures_are_of_these_files(directory: Path) -> None:
    assert read_recorded().sets[directory.name].contents == contents_of(directory), f"record it again: {RECORD}"


@each_set
@pytest.mark.parametrize("title", CONFIGURATIONS)
async def test_answers_are_as_good_as_recorded(
    measured: Measured, directory: Path, title: str, show: Callable[[str], None]
) -> None:
    recorded = read_recorded()

    verdict = compare(
        f"{directory.name}, {title}",
        recorded.sets[directory.name].runs[title],
        measured.runs[directory.name][title],
    )

    if not verdict.passed:
        pytest.fail("\n".join([*verdict.lines, *differences(recorded.made_with, measured.made_with)]), pytrace=False)
    for line in verdict.lines:
        show(line)


@each_set
async def test_what_has_an_answer_is_never_answered_with_nothing(measured: Measured, directory: Path) -> None:
    empty = [
        answer.question_id
        for answer in measured.runs[directory.name][SERVED].answers
        if answer.figures.get(EMPTY, 0.0) > 0
    ]

    assert empty == []


@each_set
async def test_few_questions_without_an_answer_are_answered_with_certainty(measured: Measured, directory: Path) -> None:
    hopeless = [answer for answer in measured.runs[directory.name][SERVED].answers if not answer.relevant]

    deceived = {each.question_id: each.ranking[0] for each in hopeless if each.ranking[0].score >= SURE}

    assert len(hopeless) == 3
    assert len(deceived) <= MOST_DECEIVED, deceived


async def test_each_step_is_answered_without_complaint(measured: Measured) -> None:
    remarks = [remark for runs in measured.runs.values() for run in runs.values() for remark in run.remarks]

    assert remarks == []
