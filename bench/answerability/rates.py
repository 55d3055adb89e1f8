"""How often a threshold is wrong, for questions that are answered and for such as are not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

LEAST = (0.02, 0.05, 0.1, 0.2, 0.5)
SIMILARITY = (0.4, 0.5, 0.6, 0.75, 0.9)


class Case(StrEnum):
    """What is known of a question."""

    ANSWERED = "answered"
    REMOVED = "removed"
    """The documents that answer it are taken away; those around them are there."""
    FOREIGN = "foreign"
    """It is of another set."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a result has to say for itself."""

    index: str
    case: Case
    question: str
    right: bool
    """Is a hit among the documents that answer the question?"""
    probability: float
    """Of the hit that the reranker is surest of."""
    similarity: float
    """Of the nearest hit."""


def share(found: Sequence[Evidence], case: Case, *, least: float, similarity: float) -> float:
    """Return the share of questions of a case whose results stay below both thresholds; 0 without any."""
    asked = [each for each in found if each.case is case]
    below = sum(each.probability < least and each.similarity < similarity for each in asked)
    return below / len(asked) if asked else 0.0


def table(found: Sequence[Evidence]) -> str:
    """Return the rates by thresholds."""
    return "\n".join([*_rows(found), ""])


def _rows(found: Sequence[Evidence]) -> Iterator[str]:
    yield "| probability below | similarity below | false alarm | missed, removed | missed, foreign |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for least in LEAST:
        for similarity in (*SIMILARITY, 9.0):
            alarm = share(found, Case.ANSWERED, least=least, similarity=similarity)
            missed = [
                1 - share(found, case, least=least, similarity=similarity) for case in (Case.REMOVED, Case.FOREIGN)
            ]
            yield f"| {least} | {similarity} | {alarm:.3f} | {missed[0]:.3f} | {missed[1]:.3f} |"
