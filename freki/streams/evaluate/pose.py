"""How questions are asked while options are tuned: as they are, and some of them shortened to keywords."""

from collections.abc import Sequence

from freki.operators.analyse_query import analyse_query, searchable_text
from freki.operators.detect_language import detect_language
from freki.operators.evaluate import document_frequencies, shorten
from freki.schemas import ExactKind
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
    exact: bool
    """Does it name a norm?"""
    shortened: bool


def pose(questions: Sequence[Question]) -> list[Posed]:
    """Take questions as they are."""
    return [_posed(each) for each in questions]


def keywords(questions: Sequence[Question], corpus: Sequence[CorpusDocument]) -> list[Posed]:
    """Shorten each question to its three rarest words in the corpus; leave out those that become no keyword query.

    For sets of whole sentences, as most are: people type less into a search field, and another alpha answers them.
    """
    frequencies = document_frequencies(_text(document) for document in corpus)
    short = [(each, shorten(each.text, frequencies)) for each in questions]
    found = [_posed(_reworded(each, text), shortened=True) for each, text in short if text]
    return [each for each in found if each.keyword]


def _posed(question: Question, *, shortened: bool = False) -> Posed:
    """Read the question as the retriever will."""
    searched = searchable_text(question.text)
    read = analyse_query(searched, language=detect_language(searched))
    return Posed(
        question=question,
        keyword=read.keyword,
        exact=any(term.kind is ExactKind.SECTION for term in read.exact),
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
