"""Analysis of the wording of a query."""

import re
import unicodedata
from typing import NamedTuple

from freki.operators.analyse_query.asked_term import asked_abbreviation
from freki.operators.analyse_query.clauses import cited_clauses
from freki.operators.analyse_query.designations import designations
from freki.operators.analyse_query.divisions import cited_divisions
from freki.operators.analyse_query.exact import exact_terms
from freki.operators.analyse_query.norms import is_bare_citation
from freki.operators.analyse_query.wording import type_by_wording
from freki.schemas import ChunkLevel, ExactKind, ExactTerm, QueryType

MAX_KEYWORDS = 3
MAX_QUESTION_WORDS = 32
"""Longer texts, such as letters and logs, have numbers, dates and names that decide nothing."""
MAX_DESIGNATIONS = 32
"""Each is looked for in all texts of candidates."""
MAX_SAME_LETTERS = 3
"""Letters of a word that may be all the same, as in AAA and www."""

_DETAILS = (ChunkLevel.SECTION, ChunkLevel.PARAGRAPH)
_ALL = (ChunkLevel.DOCUMENT, *_DETAILS)
_QUESTION_WORDS = re.compile(
    r"\b(?:w(?:er|en|em|essen|as|o|ann|ie|arum|eshalb|ieso|elche[mnrs]?|ozu|omit|oher|ohin|oran|orauf|oraus|ofür|"
    r"ogegen|obei|odurch|orin|ovon|ovor|orüber|orum)|who|whom|whose|what|where|when|why|which|how)\b"
)
_WORD = re.compile(r"[^\W_]+")


class QueryReading(NamedTuple):
    """Analysis of the wording of a query."""

    query_type: QueryType | None
    """Type by rules; None where no rule matches."""
    keyword: bool
    """Whether it has at most three words and is no question: BM25 is then better than vectors."""
    exact: tuple[ExactTerm, ...]
    cites: bool
    """Whether it cites a section or article of a law, a numbered clause, or a division such as an annex."""
    designations: tuple[str, ...]
    """Standards, identifiers and numbers that it names; none if it is longer than a question."""
    abbreviation: str
    """Abbreviation that it is, or whose meaning it asks for; empty: none."""


def analyse_query(text: str, *, language: str) -> QueryReading:
    """Return the type, whether it is a keyword query, and exact terms of a bounded text, as from `searchable_text`."""
    wording = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    words = sum(any(letter.isalnum() for letter in word) for word in wording.split())
    asks = "?" in wording or _QUESTION_WORDS.search(wording) is not None
    # Examples are whole questions: the nearest to a mere citation, or to signs, says nothing of its type.
    is_plain = says_nothing(text) or is_bare_citation(text)
    exact = exact_terms(text)
    return QueryReading(
        query_type=type_by_wording(text, language=language) or (QueryType.FACTUAL if is_plain else None),
        keyword=0 < words <= MAX_KEYWORDS and not asks,
        exact=exact,
        cites=any(term.kind is ExactKind.SECTION for term in exact)
        or any(cited_clauses(text))
        or any(cited_divisions(text)),
        designations=designations(text, exact)[:MAX_DESIGNATIONS] if is_short(text) else (),
        abbreviation=asked_abbreviation(text),
    )


def is_short(text: str) -> bool:
    """Return whether a query is no longer than a question."""
    return len(text.split()) <= MAX_QUESTION_WORDS


def says_nothing(text: str) -> bool:
    """Return whether a query has no word and no number: only signs, or one letter again and again."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return not any(len(word) <= MAX_SAME_LETTERS or word.isdecimal() or len(set(word)) > 1 for word in words)


def levels_of(query_type: QueryType) -> tuple[int, ...]:
    """Return the chunk levels to search for a type: only lists include whole documents."""
    return _ALL if query_type is QueryType.AGGREGATIVE else _DETAILS
