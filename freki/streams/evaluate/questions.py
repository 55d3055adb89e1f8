"""Questions of a tuning: as they are, and some of them shortened to keywords."""

from collections.abc import Sequence

from freki.operators.analyse_query import analyse_query, searchable_text
from freki.operators.detect_language import detect_language
from freki.operators.evaluate import document_frequencies, shorten
from freki.schemas.evaluation import CorpusDocument, Question
from freki.schemas.names import record

_SHORTENED = "shortened "
"""Prefix of the ids of shortened questions."""


@record
class TunedQuestion:
    """Question with the properties that decide which options apply to it."""

    question: Question
    keyword: bool
    """Whether the retriever treats it as a keyword query."""
    exact: bool
    """Whether it cites a section of a law."""
    shortened: bool


def tuned_questions(questions: Sequence[Question]) -> list[TunedQuestion]:
    """Return unchanged questions with their properties."""
    return [_tuned(each) for each in questions]


def keyword_questions(questions: Sequence[Question], corpus: Sequence[CorpusDocument]) -> list[TunedQuestion]:
    """Shorten each question to its three rarest words in the corpus; omit those that yield no keyword query.

    Most sets hold whole sentences, but users type keywords into search fields, and keyword queries have another alpha.
    """
    frequencies = document_frequencies(_text(document) for document in corpus)
    short = [(each, shorten(each.text, frequencies)) for each in questions]
    found = [_tuned(_reworded(each, text), shortened=True) for each, text in short if text]
    return [each for each in found if each.keyword]


def _tuned(question: Question, *, shortened: bool = False) -> TunedQuestion:
    """Analyse a question as the retriever does."""
    searched = searchable_text(question.text)
    read = analyse_query(searched, language=detect_language(searched))
    return TunedQuestion(
        question=question,
        keyword=read.keyword,
        exact=read.cites,
        shortened=shortened,
    )


def _reworded(question: Question, text: str) -> Question:
    return Question(
        question_id=f"{_SHORTENED}{question.question_id}",
        text=text,
        judgements=question.judgements,
        spans=question.spans,
        facts=question.facts,
    )


def _text(document: CorpusDocument) -> str:
    content = document.content
    return content if isinstance(content, str) else content.decode(errors="replace")
