"""Gold questions in YAML: a list, or a mapping with `corpus:`, a path relative to the file, and `questions:`."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from freki.infra.evaluation_sets.beir import read_corpus
from freki.infra.evaluation_sets.text import read_text, refused
from freki.infra.sources import read_source, read_stream, walk
from freki.schemas import DocumentId
from freki.schemas.errors import Rejected
from freki.schemas.evaluation import CorpusDocument, EvaluationSet, Question

_MAX_FILE_BYTES = 64_000_000
"""Maximum size of a document: the default limit of workers."""
_SUGGESTIONS = 3


class _Gold(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    question: str = Field(min_length=1)
    id: str | None = None
    expected_documents: tuple[str, ...] | None = None
    expected_spans: tuple[str, ...] = ()
    expected_facts: tuple[str, ...] = ()
    expected_sections: dict[str, tuple[str, ...]] = {}

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        if self.documents is None and not self.expected_spans and not self.expected_facts:
            raise ValueError(
                "give expected_documents, expected_sections, expected_spans or expected_facts; "
                "`expected_documents: []` says that nothing answers the question"
            )
        return self

    @property
    def documents(self) -> tuple[str, ...] | None:
        """Relevant documents, including those named by sections."""
        if self.expected_documents is None:
            return tuple(self.expected_sections) or None
        return (*self.expected_documents, *self.expected_sections)


class _GoldSet(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: Path | None = None
    questions: list[Any] = Field(min_length=1)


def read_gold(path: Path, *, corpus: Path | None = None) -> EvaluationSet:
    """Read gold questions; without a corpus of their own or of the caller, they are for an existing index.

    The corpus is a folder or file as for `freki publish`, a recorded stream, of which the final state counts, or a
    `corpus.jsonl`. Raises Rejected, with the line, for an invalid question, or one that expects a document outside of
    the corpus.
    """
    gold, lines = _gold_set(path)
    where = corpus if gold.corpus is None else path.parent / gold.corpus
    documents = None if where is None else _read_documents(where)
    known = None if documents is None else sorted(document.document_id for document in documents)
    questions: dict[str, Question] = {}
    for number, (given, line) in enumerate(zip(gold.questions, lines, strict=True), start=1):
        question = _question(given, number, known, f"{path}, line {line}")
        if question.question_id in questions:
            raise Rejected(f"{path}, line {line}: id {question.question_id!r} is there twice")
        questions[question.question_id] = question
    return EvaluationSet(name=path.stem, corpus=documents, questions=tuple(questions.values()))


def _gold_set(path: Path) -> tuple[_GoldSet, list[int]]:
    """Return the content of the file, and the line of each question."""
    loader = yaml.SafeLoader(read_text(path))
    try:
        node = loader.get_single_node()
        given = None if node is None else loader.construct_document(node)
        gold = _GoldSet.model_validate({"questions": given} if isinstance(given, list) else given)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise Rejected(f"{path}{line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise Rejected(f"{path}: {error}") from error
    except ValidationError as error:
        raise refused(error, str(path)) from error
    if isinstance(node, yaml.MappingNode):
        node = next(value for key, value in node.value if key.value == "questions")
    return gold, [item.start_mark.line + 1 for item in node.value]


def _question(given: object, number: int, known: list[DocumentId] | None, place: str) -> Question:
    try:
        gold = _Gold.model_validate(given)
    except ValidationError as error:
        raise refused(error, place) from error
    for name in gold.documents or ():
        if known is not None and name not in known:
            near = get_close_matches(name, known, n=_SUGGESTIONS, cutoff=0.3) or known[:_SUGGESTIONS]
            raise Rejected(f"{place}: the corpus has no document {name!r}; it has {', '.join(near)}")
    return Question(
        question_id=gold.id or str(number),
        text=gold.question,
        judgements=None if gold.documents is None else {DocumentId(name): 1 for name in gold.documents},
        spans=gold.expected_spans,
        facts=gold.expected_facts,
        sections={DocumentId(name): headings for name, headings in gold.expected_sections.items()},
    )


def _read_documents(path: Path) -> tuple[CorpusDocument, ...]:
    """Read files with the ids of `freki publish`, a recorded stream, or a `corpus.jsonl`."""
    if path.name.endswith((".jsonl", ".jsonl.zst")):
        return _last_states(path) if _is_stream(path) else read_corpus(path)
    return tuple(
        CorpusDocument(
            document_id=file.document_id,
            name=file.path.name,
            media_type=file.media_type,
            content=read_source(file, max_bytes=_MAX_FILE_BYTES),
        )
        for file in walk([path])
    )


def _is_stream(path: Path) -> bool:
    """Return whether the first line is a change of a document, not a document."""
    return '"op"' in read_text(path).partition("\n")[0]


def _last_states(path: Path) -> tuple[CorpusDocument, ...]:
    documents: dict[str, CorpusDocument] = {}
    for change in read_stream(path):
        if change.content is None:
            documents.pop(change.document_id, None)
            continue
        documents[change.document_id] = CorpusDocument(
            document_id=DocumentId(change.document_id),
            name=change.name,
            media_type=change.media_type,
            content=change.content,
        )
    return tuple(documents.values())
