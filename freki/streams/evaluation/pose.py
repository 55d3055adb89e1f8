"""How questions are asked while knobs are tuned: as they are, and some of them shortened to keywords."""

from collections.abc import Sequence

from freki.operators.analyse_query import analyse_query, searchable_text
from freki.operators.detect_language import detect_language
from freki.operators.evaluate import document_frequencies, shorten
from freki.schemas.evaluation import CorpusDocument, Question
from freki.schemas.names import record

# Room for the mark in the id.
_SHORTENED = "shortened "


@record
class Posed:
    """A question as it is asked."""

    question: Question
    keyword: bool
    """Is it answered as a short query of keywords?"""
    shortened: bool


def pose(questions: Sequence[Question]) -> list[Posed]:
    """Take questions as they are."""
    return [Posed(question=each, keyword=_is_keyword(each.text), shortened=False) for each in questions]


def keywords(questions: Sequence[Question], corpus: Sequence[CorpusDocument]) -> list[Posed]:
    """Shorten each question to its three rarest words in the corpus; leave out those that become no keyword query.

    For sets of whole sentences, as most are: people type less into a search field, and another alpha answers them.
    """
    frequencies = document_frequencies(_text(document) for document in corpus)
    short = [(each, shorten(each.text, frequencies)) for each in questions]
    return [
        Posed(question=_reworded(each, text), keyword=True, shortened=True)
        for each, text in short
        if text and _is_keyword(text)
    ]


def _is_keyword(text: str) -> bool:
    """Read the question as the retriever will."""
    searched = searchable_text(text)
    return analyse_query(searched, language=detect_language(searched)).keyword


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
