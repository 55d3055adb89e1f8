"""Synonyms from OpenThesaurus (German) and WordNet (English); NOTICE has their licences."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import Stemmer

MOST_SYNONYMS = 2
_STEMMERS = {"de": "german", "en": "english"}
_WORDS = re.compile(r"[^\W\d_]+")


class _Thesaurus(NamedTuple):
    """Synonyms by stem, empty for ambiguous words; missing stems are unknown words."""

    synonyms: Mapping[str, tuple[str, ...]]
    stemmer: Stemmer.Stemmer


def with_synonyms(query: str, *, language: str) -> tuple[str, ...]:
    """Return up to two variants of a query, with unambiguous words replaced by their first or second synonym.

    Empty where no word has synonyms. Inflected words are looked up by stem and replaced by the base form, which search
    stems anyway. Synonyms are in the order of the thesaurus.
    """
    if language not in _STEMMERS:
        return ()
    choices = [synonyms_of(word, language=language) for word in _WORDS.findall(query)]
    count = min(MOST_SYNONYMS, max(map(len, choices), default=0))
    return tuple(_replaced(query, choices, place) for place in range(count))


def synonyms_of(word: str, *, language: str) -> tuple[str, ...]:
    """Return the synonyms of a word; empty for ambiguous and unknown words."""
    synonyms, stemmer = _thesaurus(language)
    return synonyms.get(stemmer.stemWord(word.casefold()), ())


def is_word(word: str, *, language: str) -> bool:
    """Return whether a word of any inflection is in the thesaurus."""
    if language not in _STEMMERS:
        return False
    synonyms, stemmer = _thesaurus(language)
    return stemmer.stemWord(word.casefold()) in synonyms


def load_synonyms() -> None:
    """Read the thesauruses, which takes .2 s, before the first word is looked up."""
    for language in _STEMMERS:
        _thesaurus(language)


def _replaced(query: str, choices: Sequence[tuple[str, ...]], place: int) -> str:
    each = iter(choices)

    def other(found: re.Match[str]) -> str:
        words = next(each)
        return words[min(place, len(words) - 1)] if words else found[0]

    return _WORDS.sub(other, query)


@cache
def _thesaurus(language: str) -> _Thesaurus:
    # Without a cache, which more words than it holds make three times as slow.
    stemmer = Stemmer.Stemmer(_STEMMERS[language], 0)
    text = files(__package__).joinpath("data", f"synonyms_{language}.txt").read_text("utf-8")
    meanings = [line.partition(" | ") for line in text.splitlines() if not line.startswith("#")]
    read = [(words.split(), asked.split()) for words, _, asked in meanings]
    stems = [[stemmer.stemWord(word.casefold()) for word in (*words, *asked)] for words, asked in read]
    count = Counter(stem for each in stems for stem in set(each))
    synonyms: dict[str, tuple[str, ...]] = {}
    for (words, _), own in zip(read, stems, strict=True):
        for stem in own:
            others = (word for word, its in zip(words, own, strict=False) if its != stem)
            # Synonyms of German verbs and adverbs are rarely interchangeable.
            is_sure = count[stem] == 1 and (language != "de" or words[0][0].isupper())
            synonyms[stem] = tuple(others) if is_sure else ()
    return _Thesaurus(synonyms, stemmer)
