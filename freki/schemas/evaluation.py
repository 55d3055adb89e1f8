"""What an evaluation asks, and of which documents. None of it crosses a topic."""

from collections.abc import Mapping
from dataclasses import field

from freki.schemas.names import DocumentId, record


@record
class CorpusDocument:
    """A document as its set gives it."""

    document_id: DocumentId
    name: str | None
    media_type: str | None
    content: str | bytes


@record
class Question:
    """A question, and what its answer should hold."""

    question_id: str
    text: str
    judgements: Mapping[DocumentId, int] | None = None
    """Grades of documents, above 0 where relevant; empty: judged, and nothing answers it; None: nobody judged."""
    spans: tuple[str, ...] = ()
    """Text of documents that the context should quote."""
    facts: tuple[str, ...] = ()
    """Words that the context should hold, wherever they come from."""
    sections: Mapping[DocumentId, tuple[str, ...]] = field(default_factory=dict)
    """Where in its document the answer stands: headings, or how they begin, such as `§ 535`; any of them will do."""

    @property
    def is_answerable(self) -> bool:
        """Say whether anything should be found."""
        return bool(self.spans or self.facts or any(grade > 0 for grade in (self.judgements or {}).values()))


@record
class EvaluationSet:
    """Questions with what is known of their answers."""

    name: str
    corpus: tuple[CorpusDocument, ...] | None
    """None: the questions are for what is indexed already."""
    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()
    """What a reader of the figures should know of the set."""
