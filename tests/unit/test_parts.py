"""A command asks the questions of its part, without those dropped in review."""

from collections.abc import Sequence

from freki.schemas.evaluation import EvaluationSet, Question, ReviewState, SetPart
from freki.streams.evaluate.parts import PartChoice, select_questions

TUNING, TEST = SetPart.TUNING, SetPart.TEST
OPEN, KEPT, DROPPED = ReviewState.OPEN, ReviewState.KEPT, ReviewState.DROPPED


def a_set(*questions: tuple[SetPart | None, ReviewState | None]) -> EvaluationSet:
    return EvaluationSet(
        name="handbook",
        corpus=None,
        questions=tuple(
            Question(question_id=str(number), text="?", part=part, review=review)
            for number, (part, review) in enumerate(questions)
        ),
        notes=("as read",),
    )


def ids(one: EvaluationSet) -> Sequence[str]:
    return [each.question_id for each in one.questions]


def test_a_set_without_parts_is_asked_as_a_whole() -> None:
    given = a_set((None, None), (None, None))

    for part in PartChoice:
        assert select_questions(given, part, reviewed=False) == given


def test_tuning_and_test_share_no_question_and_together_are_all() -> None:
    given = a_set((TUNING, KEPT), (TEST, KEPT), (TUNING, None), (None, None))

    tuning = select_questions(given, PartChoice.TUNING, reviewed=False)
    test = select_questions(given, PartChoice.TEST, reviewed=False)

    assert ids(tuning) == ["0", "2"]
    # No option was chosen on a question without a part.
    assert ids(test) == ["1", "3"]
    assert ids(select_questions(given, PartChoice.ALL, reviewed=False)) == ["0", "1", "2", "3"]
    assert tuning.notes == ("as read", "part tuning: 2 of 4 questions, 2 of the other part left out")


def test_dropped_questions_are_left_out_and_unread_ones_are_counted() -> None:
    given = a_set((TEST, OPEN), (TEST, KEPT), (TEST, DROPPED), (TEST, OPEN))

    found = select_questions(given, PartChoice.TEST, reviewed=False)

    assert ids(found) == ["0", "1", "3"]
    assert found.notes[1:] == (
        "part test: 4 of 4 questions",
        "1 dropped in review left out",
        "2 of 3 questions were not reviewed",
    )


def test_only_kept_questions_count_as_reviewed() -> None:
    given = a_set((TEST, OPEN), (TEST, KEPT), (TEST, DROPPED), (TEST, None))

    found = select_questions(given, PartChoice.TEST, reviewed=True)

    assert ids(found) == ["1", "3"]
    assert "1 not reviewed left out" in found.notes
