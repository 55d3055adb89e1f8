"""Names in a query: of people, places and products, which say what it is about, but not what is asked of it."""

import re
from functools import lru_cache

from freki.operators.analyse_text import analyse_text
from freki.operators.analyse_text.compounds import is_common_noun
from freki.operators.rephrase import is_word
from freki.streams.retrieve.parsed_query import ParsedQuery

_WORDS = re.compile(r"(?<![\w'’])[^\W\d_]{3,}")
# Written in many ways, and in no dictionary.
_CALENDAR = frozenset(
    {"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"}
    | {"december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "jänner"}
)
# Endings of nouns and adjectives that are made from others; few names have them.
_DERIVED = re.compile(
    r"\w{3,}(?:ung|heit|keit|schaft|tion|tät|ismus|nis|ment|ator|ssor|isch|ness|ity|ship|ance|ence|ean|ese|ish)"
    r"(?:e[mnrs]?|se[ns]?|s)?"
)
# German nouns have articles, names seldom; names before other nouns have those of these: `im Kafka Cluster`.
_ARTICLE = re.compile(
    r"\b(?:d(?:er|ie|as|en|em|es)|im|am|zu[mr]|beim|vom|ins|fürs|ans|aufs|(?:[dkms]?ein|ihr|unser|eu(?:er|r))(?:e[mnrs]?)?"
    r"|(?:jed|dies|jen|welch|manch|solch|all|viel|einig|mehrer|wenig|beid)e[mnrs]?|\d+|zwei|drei|vier|fünf)"
    r"\s+(?:[a-zäöüß]+e[mnrs]?\s+)?$",
    re.IGNORECASE,
)
_NOUN_BEHIND = re.compile(r"\s?-?[A-ZÄÖÜ]")
_MOST_BEFORE = 40
"""Characters before a word that are read."""
_SENTENCE_END = re.compile(r"(?:^|[.!?:])\W*$")


def proper_names(query: ParsedQuery) -> tuple[str, ...]:
    """Return words with a capital, within a sentence or in keywords, that are in no dictionary; no abbreviations."""
    return _proper_names(query.text, query.analysis.language, keyword=query.analysis.keyword)


@lru_cache(maxsize=256)  # asked for twice in each query
def _proper_names(text: str, language: str, *, keyword: bool) -> tuple[str, ...]:
    words = list(_WORDS.finditer(text))
    capitals = [word for word in words if word[0][0].isupper() and (keyword or not _SENTENCE_END.search(_before(word)))]
    if language == "en" and len(capitals) > len(words) // 2:
        # A title, as headings have it.
        return ()
    return tuple(word[0] for word in capitals if not _is_common(word[0], language) and not _has_article(word, language))


def _has_article(word: re.Match[str], language: str) -> bool:
    """Return whether a word of a German text is a noun by what stands before it: `die Mahnung`, `zwei neue Cookies`."""
    is_behind_article = _ARTICLE.search(_before(word)) is not None
    return language != "en" and is_behind_article and not _NOUN_BEHIND.match(word.string, word.end())


def _before(word: re.Match[str]) -> str:
    return word.string[max(0, word.start() - _MOST_BEFORE) : word.start()]


def _is_common(word: str, language: str) -> bool:
    """Return whether a word is no name: a stop word, an abbreviation, derived from others, or in a dictionary.

    German has many English words, and English texts German ones.
    """
    if word.casefold() in _CALENDAR or not analyse_text(word, language=language):
        return True
    if not word[1:].islower():
        # Abbreviations have long forms.
        return True
    return (
        _DERIVED.fullmatch(word) is not None
        or any(is_word(form, language=each) for form in (word, word.removesuffix("s")) for each in ("de", "en"))
        or (language != "en" and is_common_noun(word))
    )
