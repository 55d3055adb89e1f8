"""Synonyms of a domain, from a file in the form that Solr and Elasticsearch read too.

Kündigungsfrist, Frist zur Kündigung    each stands for the others
UVP => Umweltverträglichkeitsprüfung    only the left one is replaced
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import Stemmer

from freki.schemas.names import FORBIDDEN_IN_LINE, record

MOST_VARIANTS = 4
MAX_LINES = 100_000
MAX_TERM_CHARS = 100
MAX_TERMS = 64
_STEMMERS = {"de": "german", "en": "english"}
_WORDS = re.compile(r"[^\W_]+")
_Stems = tuple[str, ...]


class WrongThesaurus(ValueError):
    """A line of a thesaurus is wrong; the message begins with its number."""


@record
class Entry:
    """A term, and what may stand for it, the best first."""

    term: str
    others: tuple[str, ...]


def parse_thesaurus(text: str) -> list[Entry]:
    """Read a thesaurus: a line of terms with commas between, or with => between terms and what replaces them.

    Empty lines and those that begin with # count for nothing. Raises WrongThesaurus for a line that says nothing.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    if len(lines) > MAX_LINES:
        raise WrongThesaurus(f"line {MAX_LINES + 1}: more than {MAX_LINES} lines; split it, or leave some out")
    return [entry for number, line in enumerate(lines, start=1) for entry in _entries(number, line.strip())]


class Thesaurus:
    """Entries, looked up by the stems of a language."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._entries = tuple(entries)
        self._by_language: dict[str, _Lookup] = {}

    def variants(self, query: str, *, language: str) -> list[str]:
        """Return up to four variants of a query, with each known term replaced by its first, second, … synonym.

        The longest term at a place counts. Words are compared by stem in German and English, without case in others.
        Empty if the query has no known term.
        """
        if not self._entries:
            return []
        lookup = self._by_language.get(language) or self._by_language.setdefault(
            language, _Lookup(self._entries, language)
        )
        found = list(lookup.found(query))
        count = min(MOST_VARIANTS, max((len(others) for _, _, others in found), default=0))
        return [_replaced(query, found, place) for place in range(count)]


class _Lookup:
    """Entries by stems."""

    def __init__(self, entries: Sequence[Entry], language: str) -> None:
        self._stemmer = Stemmer.Stemmer(_STEMMERS[language], 0) if language in _STEMMERS else None
        others: dict[_Stems, dict[str, None]] = {}
        for entry in entries:
            known = others.setdefault(self._stems(_WORDS.findall(entry.term)), {})
            known |= dict.fromkeys(entry.others)
        self._others: Mapping[_Stems, tuple[str, ...]] = {stems: tuple(terms) for stems, terms in others.items()}
        self._longest = max(map(len, self._others))

    def found(self, query: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Yield begin, end and synonyms of each known term."""
        words = list(_WORDS.finditer(query))
        stems = self._stems([word[0] for word in words])
        at = 0
        while at < len(words):
            for length in range(min(self._longest, len(words) - at), 0, -1):
                others = self._others.get(stems[at : at + length])
                if others:
                    yield words[at].start(), words[at + length - 1].end(), others
                    at += length - 1
                    break
            at += 1

    def _stems(self, words: Sequence[str]) -> _Stems:
        folded = [word.casefold() for word in words]
        return tuple(folded if self._stemmer is None else self._stemmer.stemWords(folded))


def _entries(number: int, line: str) -> Iterator[Entry]:
    if not line or line.startswith("#"):
        return
    left, arrow, right = line.partition("=>")
    terms, others = _terms(number, left), _terms(number, right) if arrow else []
    if arrow:
        yield from (Entry(term=term, others=tuple(others)) for term in terms)
        return
    if len(terms) == 1:
        raise WrongThesaurus(f"line {number}: {terms[0]!r} stands alone; add its synonyms, separated by commas")
    for term in terms:
        yield Entry(term=term, others=tuple(other for other in terms if other != term))


def _terms(number: int, text: str) -> list[str]:
    terms = [" ".join(term.split()) for term in text.split(",")]
    for term in terms:
        if not _WORDS.search(term) or "=>" in term:
            raise WrongThesaurus(f"line {number}: a term without letters or digits; is there a comma or => too many?")
        if len(term) > MAX_TERM_CHARS or FORBIDDEN_IN_LINE.search(term):
            raise WrongThesaurus(
                f"line {number}: {term[:30]!r}… is no term of at most {MAX_TERM_CHARS} plain characters"
            )
    if len(terms) > MAX_TERMS:
        raise WrongThesaurus(f"line {number}: {len(terms)} terms are more than {MAX_TERMS}; split the line")
    return list(dict.fromkeys(terms))


def _replaced(query: str, found: Sequence[tuple[int, int, tuple[str, ...]]], place: int) -> str:
    parts, at = [], 0
    for begin, end, others in found:
        parts += [query[at:begin], others[min(place, len(others) - 1)]]
        at = end
    return "".join([*parts, query[at:]])
