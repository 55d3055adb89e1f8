"""What the wording of a question tells."""

import re
import unicodedata
from typing import NamedTuple

from freki.operators.analyse_query.exact import exact_terms
from freki.operators.analyse_query.wording import type_by_wording
from freki.schemas import ChunkLevel, ExactTerm, QueryType

MAX_KEYWORDS = 3

_DETAILS = (ChunkLevel.SECTION, ChunkLevel.PARAGRAPH)
_ALL = (ChunkLevel.DOCUMENT, *_DETAILS)
_QUESTION_WORDS = re.compile(
    r"\b(?:w(?:er|en|em|essen|as|o|ann|ie|arum|eshalb|ieso|elche[mnrs]?|ozu|omit|oher|ohin|oran|orauf|oraus|ofür|"
    r"ogegen|obei|odurch|orin|ovon|ovor|orüber|orum)|who|whom|whose|what|where|when|why|which|how)\b"
)


class QueryReading(NamedTuple):
    """What the wording of a question tells."""

    query_type: QueryType | None
    """Null: no rule fits."""
    keyword: bool
    """At most three words, and no question: BM25 knows better than the vectors what they mean."""
    exact: tuple[ExactTerm, ...]


def analyse_query(text: str, *, language: str) -> QueryReading:
    """Read the kind of answer, keyword-ness and exact terms. Give a bounded text, such as `searchable_text` makes."""
    wording = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    words = sum(any(letter.isalnum() for letter in word) for word in wording.split())
    asks = "?" in wording or _QUESTION_WORDS.search(wording) is not None
    return QueryReading(
        query_type=type_by_wording(text, language=language),
        keyword=0 < words <= MAX_KEYWORDS and not asks,
        exact=exact_terms(text),
    )


def levels_of(query_type: QueryType) -> tuple[int, ...]:
    """Return the chunk levels that hold such answers: only lists look at whole documents."""
    return _ALL if query_type is QueryType.AGGREGATIVE else _DETAILS
