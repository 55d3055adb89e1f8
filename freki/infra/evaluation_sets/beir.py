"""Evaluation sets in BEIR format: corpus, queries and relevance judgements."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from freki.infra.text_files import read_lines, read_text
from freki.schemas import DocumentId
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.evaluation import CorpusDocument, EvaluationSet, Question

HEADER = "query-id\tcorpus-id\tscore"
_MAX_NAME_CHARS = 120
"""Maximum characters of a document name, below the limit of the pipeline."""


class _Line(BaseModel):
    # Some sets have numeric ids.
    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class _CorpusLine(_Line):
    document_id: str = Field(alias="_id", min_length=1)
    title: str = ""
    text: str


class _QueryLine(_Line):
    question_id: str = Field(alias="_id", min_length=1)
    text: str = Field(min_length=1)


def read_beir(directory: Path) -> EvaluationSet:
    """Read `corpus.jsonl`, `queries.jsonl`, both plain or `.zst`, and `qrels.tsv` or `qrels/test.tsv`.

    Queries without a relevant document are left out. Raises Misconfigured for a missing file, Rejected for
    invalid data.
    """
    corpus = read_corpus(_either(directory, "corpus.jsonl", "corpus.jsonl.zst"))
    queries = _either(directory, "queries.jsonl", "queries.jsonl.zst")
    qrels = _either(directory, "qrels.tsv", "qrels/test.tsv")
    judged: dict[str, dict[DocumentId, int]] = {}
    for question_id, document_id, grade in _judgements(qrels):
        judged.setdefault(question_id, {})[document_id] = grade
    found = [
        Question(question_id=line.question_id, text=line.text, judgements=judged[line.question_id])
        for line in read_lines(queries, _QueryLine, key="question_id")
        if line.question_id in judged
    ]
    asked = tuple(question for question in found if question.is_answerable)
    if not asked:
        raise Rejected(f"{qrels}: for no question of {queries} is any document relevant")
    return EvaluationSet(
        name=directory.resolve().name,
        corpus=corpus,
        questions=asked,
        notes=_notes(len(judged) - len(found), len(found) - len(asked), asked, {each.document_id for each in corpus}),
    )


def read_corpus(path: Path) -> tuple[CorpusDocument, ...]:
    """Read the documents of a corpus as Markdown: the text below its title."""
    return tuple(_published(line) for line in read_lines(path, _CorpusLine, key="document_id"))


def _published(line: _CorpusLine) -> CorpusDocument:
    title = " ".join(line.title.split())
    return CorpusDocument(
        document_id=DocumentId(line.document_id),
        name=title[:_MAX_NAME_CHARS].rstrip() or None,
        media_type="text/markdown" if title else "text/plain",
        content=f"# {title}\n\n{line.text}" if title else line.text,
    )


def _judgements(path: Path) -> Iterator[tuple[str, DocumentId, int]]:
    header, *lines = read_text(path).split("\n")
    if header.rstrip("\r") != HEADER:
        raise Rejected(f"{path}, line 1: the header must be {HEADER.replace(chr(9), ', ')}, separated by tabs")
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        try:
            question_id, document_id, grade = line.split("\t")
            yield question_id, DocumentId(document_id), int(grade)
        except ValueError as error:
            expected = "a question, a document and a whole number, separated by tabs"
            raise Rejected(f"{path}, line {number}: expected {expected}") from error


def _notes(unasked: int, hopeless: int, asked: Sequence[Question], known: Collection[DocumentId]) -> tuple[str, ...]:
    strangers = sum(name not in known for question in asked for name in question.judgements or ())
    counted = (
        (unasked, "judged questions are not among the queries"),
        (hopeless, "questions have no relevant document and are not asked"),
        (strangers, "judged documents are not in the corpus: no answer can hold them, and they count as missed"),
    )
    return tuple(f"{count} {what}" for count, what in counted if count)


def _either(directory: Path, *names: str) -> Path:
    found = [directory / name for name in names if (directory / name).is_file()]
    if not found:
        raise Misconfigured(f"{directory} is no evaluation set: {' or '.join(names)} is missing")
    return found[0]
