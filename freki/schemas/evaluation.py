"""Evaluation sets: questions, judgements and documents. None of it crosses a topic."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from freki.schemas.names import DocumentId, record


class Origin(StrEnum):
    """What a proposed question was made from."""

    FAQ = "faq"
    """A heading that is a question."""
    HEADING = "heading"
    ABBREVIATION = "abbreviation"
    DEFINITION = "definition"
    PASSAGE = "passage"
    """A passage, by a language model."""


class SetPart(StrEnum):
    """What a question is for: options are chosen on one part and measured on the other."""

    TUNING = "tuning"
    TEST = "test"


class ReviewState(StrEnum):
    """What a person decided about a proposed question."""

    OPEN = "open"
    KEPT = "kept"
    DROPPED = "dropped"


@record
class CorpusDocument:
    """A document of an evaluation set."""

    document_id: DocumentId
    name: str | None
    media_type: str | None
    content: str | bytes


@record
class Question:
    """A question with its judgements and expected content."""

    question_id: str
    text: str
    judgements: Mapping[DocumentId, int] | None = None
    """Grades of documents, above 0 where relevant; empty: judged unanswerable; None: not judged."""
    spans: tuple[str, ...] = ()
    """Passages that the context should quote."""
    facts: tuple[str, ...] = ()
    """Words that the context should contain, from any source."""
    sections: Mapping[DocumentId, tuple[str, ...]] = field(default_factory=dict)
    """Headings, or prefixes of headings such as `§ 535`, of sections that hold the answer; any one suffices."""
    part: SetPart | None = None
    """None: the set is not divided, or the question was added by hand."""
    review: ReviewState | None = None
    """None: written by a person."""

    @property
    def is_answerable(self) -> bool:
        """Whether anything should be found."""
        return bool(self.spans or self.facts or any(grade > 0 for grade in (self.judgements or {}).values()))


@record
class EvaluationSet:
    """Questions with judgements, and their corpus."""

    name: str
    corpus: tuple[CorpusDocument, ...] | None
    """Documents; None where the questions are for an existing index."""
    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()
    """Remarks on the set for readers of the figures."""
