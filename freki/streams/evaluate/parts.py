"""Selection of the questions of a set by part and review."""

from dataclasses import replace
from enum import StrEnum

from freki.schemas.evaluation import EvaluationSet, Question, ReviewState, SetPart


class PartChoice(StrEnum):
    """Questions that a command asks."""

    TUNING = "tuning"
    TEST = "test"
    ALL = "all"


def select_questions(one: EvaluationSet, part: PartChoice, *, reviewed: bool) -> EvaluationSet:
    """Return the set with the questions of a part, without those dropped in review; notes say what was left out.

    A set without parts is asked as a whole. In a divided set a question without a part counts as one of `test`, since
    no option was chosen on it. reviewed: leave out open questions too. The result may have no questions.
    """
    divided = is_divided(one)
    of_part = [each for each in one.questions if not divided or _is_of(each, part)]
    standing = [each for each in of_part if each.review is not ReviewState.DROPPED]
    asked = [each for each in standing if not reviewed or each.review is not ReviewState.OPEN]
    unread = sum(each.review is ReviewState.OPEN for each in asked)
    notes: list[str] = []
    if divided:
        others = len(one.questions) - len(of_part)
        of_set = f"{len(of_part)} of {len(one.questions)} questions"
        notes.append(f"part {part}: {of_set}" + f", {others} of the other part left out" * bool(others))
    if dropped := len(of_part) - len(standing):
        notes.append(f"{dropped} dropped in review left out")
    if unreviewed := len(standing) - len(asked):
        notes.append(f"{unreviewed} not reviewed left out")
    if unread:
        notes.append(f"{unread} of {len(asked)} questions were not reviewed")
    return replace(one, questions=tuple(asked), notes=(*one.notes, *notes))


def is_divided(one: EvaluationSet) -> bool:
    """Return whether some question of a set has a part."""
    return any(each.part is not None for each in one.questions)


def _is_of(question: Question, part: PartChoice) -> bool:
    return part is PartChoice.ALL or (question.part or SetPart.TEST).value == part.value
