"""How often each confidence is said of questions that are answered and of such as are not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from freki.schemas import Confidence

LEVELS = (Confidence.HIGH, Confidence.LOW, Confidence.NONE)


class Case(StrEnum):
    """What is known of a question."""

    ANSWERED = "answered"
    REMOVED = "removed"
    """The documents that answer it are taken away; those around them are there."""
    FOREIGN = "foreign"
    """It is of another set."""
    NOWHERE = "nowhere"
    """It is of no set: written for this, about everyday matters."""


class Form(StrEnum):
    """How a question is asked."""

    QUESTION = "question"
    KEYWORDS = "keywords"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a result has to say for itself."""

    index: str
    case: Case
    language: str
    """Of the question, and of the documents if that is another one: `de on en`."""
    form: Form
    question: str
    text: str
    right: bool
    """Is a hit among the documents that answer the question?"""
    confidence: Confidence
    probability: float
    """Of the hit that the reranker is surest of."""
    similarity: float
    """Of the nearest hit."""


def table(found: Sequence[Evidence]) -> str:
    """Return how often each level is said, by language, form and case, and how often it is then right."""
    return "\n".join([*_said(found), "", *_right(found), ""])


def share(found: Sequence[Evidence], level: Confidence) -> float:
    """Return the share of results with a confidence; 0 without any."""
    return sum(each.confidence is level for each in found) / len(found) if found else 0.0


def _said(found: Sequence[Evidence]) -> Iterator[str]:
    yield "| language | form | case | asked | HIGH | LOW | NONE |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: |"
    for language, form in _groups(found):
        for case in Case:
            # A question whose answer is there and not found is neither answered nor unanswerable.
            asked = [
                each
                for each in found
                if (each.language, each.form, each.case) == (language, form, case)
                and (each.right or case is not Case.ANSWERED)
            ]
            if asked:
                shares = " | ".join(f"{share(asked, level):.2f}" for level in LEVELS)
                yield f"| {language} | {form} | {case} | {len(asked)} | {shares} |"


def _right(found: Sequence[Evidence]) -> Iterator[str]:
    yield "| language | form | share with an answer among the hits: HIGH | LOW | NONE |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for language, form in _groups(found):
        asked = [each for each in found if (each.language, each.form) == (language, form)]
        said = [[each.right for each in asked if each.confidence is level] for level in LEVELS]
        shares = " | ".join(f"{sum(right) / len(right):.2f} ({len(right)})" if right else "–" for right in said)
        yield f"| {language} | {form} | {shares} |"


def _groups(found: Sequence[Evidence]) -> list[tuple[str, Form]]:
    return sorted({(each.language, each.form) for each in found})
