"""Terms of words: folded, stemmed, and split at capitals, hyphens, points and underscores."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files

import Stemmer

from freki.operators.analyse_text.compounds import compound_parts

_STEMMERS = {
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
_STOPPED = ("da", "de", "en", "es", "fr", "it", "nl", "pl", "pt", "sv")
# Queries for a text of uncertain language may be in either.
_LIKELY = ("de", "en")
_SAME = {"eur": "eur", "euro": "eur", "euros": "eur", "usd": "usd", "dollar": "usd", "dollars": "usd", "gbp": "gbp"} | {
    "prozent": "prozent",
    "percent": "prozent",
}
# Longer words, such as encoded data, are truncated.
_LONGEST = 128
# Maximum length within an abbreviation; longer parts are words of a name such as PowerPoint.
_LONGEST_SYLLABLE = 3
_ACCENTS = re.compile("[\u0300-\u0307\u0309-\u036f]")
# Not in `neue`, `Quelle`, `Steuer`: there the u belongs to the sound before it.
_SPELT_OUT = re.compile("(?<![aeq])ue|ae|oe")
_UMLAUTS = {"ae": "ä", "oe": "ö", "ue": "ü"}
_HUMPS = re.compile(r"(?<=[^\W\d_A-ZÄÖÜ])(?=[A-ZÄÖÜ])|(?<=[A-ZÄÖÜ])(?=[A-ZÄÖÜ][^\W\d_A-ZÄÖÜ])")
_JOINTS = re.compile(r"[-._'’]+")
# The number of a sentence or note may stand directly at a word: `1Mietverträge`, `Frist2`, but not `utf8` or `10GB`.
_NUMBERED = re.compile(r"(?:\d{1,2}(?=[^\W\d_a-zäöüß][^\W\d_A-ZÄÖÜ]{2}))?([^\W\d_]+)(?:(?<=[^\W\d_]{4})\d{1,2})?")


def word_terms(word: str, language: str) -> str:
    """Return the terms of a word, or of words that hyphens, points, underscores or capitals join."""
    # Cut before the cache, whose keys would hold encoded files and the like as a whole.
    return _word_terms(word[:_LONGEST], language)


def compound_terms(word: str, language: str) -> list[str]:
    """Return those terms of a word that are parts of a compound; empty for any other word."""
    parts = [] if language in _STEMMERS and language != "de" else _compound_parts(word.casefold())
    return [_stem(part, "de") for part in parts]


@lru_cache(maxsize=1 << 16)
def _word_terms(word: str, language: str) -> str:
    folded = word.casefold().replace("’", "'")
    if folded in _stop_words(language) and not (word.isupper() and len(word) > 1):
        return ""
    bare = re.sub("['’]s$", "", word)
    parts = [part for joint in _JOINTS.split(bare) for part in _HUMPS.split(joint)]
    if any(len(part) == 1 and part.isupper() for part in parts) or _is_abbreviation(bare, parts):
        # GmbH, PhD and StGB are words.
        parts = _JOINTS.split(bare)
    if len(parts) == 1:
        return " ".join(_plain(bare, language))
    joined = bare.casefold().replace("’", "'").replace("-", "")
    whole = _stems(joined, language) if joined.isalnum() else [joined]
    return " ".join(filter(None, [*whole, *(word_terms(part, language) for part in parts)]))


def _is_abbreviation(word: str, parts: Sequence[str]) -> bool:
    return word[:1].isupper() and word.isalpha() and max(map(len, parts)) <= _LONGEST_SYLLABLE


def _plain(word: str, language: str) -> list[str]:
    """Return the word, its stem, and the stems of its parts."""
    folded = word.casefold()
    if folded in _SAME:
        return [_SAME[folded]]
    if not folded.isalpha():
        numbered = _NUMBERED.fullmatch(word)
        beside = word_terms(numbered[1], language) if numbered and numbered[1] != word else ""
        return [folded, beside] if beside else [folded]
    return [f"={_unaccented(folded)}", *_stems(folded, language), *compound_terms(folded, language)]


def _compound_parts(word: str) -> list[str]:
    """Split a compound; with `ae`, `oe`, `ue`, the reading with more parts wins."""
    parts = compound_parts(word)
    if not _SPELT_OUT.search(word):
        return parts
    spelt = compound_parts(_SPELT_OUT.sub(lambda found: _UMLAUTS[found[0]], word))
    return spelt if len(spelt) > len(parts) else parts


def _stems(word: str, language: str) -> list[str]:
    languages = (language,) if language in _STEMMERS else _LIKELY
    return list(dict.fromkeys(_stem(word, each) for each in languages))


def _stem(word: str, language: str) -> str:
    if language in _LIKELY and not word.isascii():
        # Both know no accents but German umlauts.
        word = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", word)))
    return _unaccented(_stemmer(language).stemWord(word))


def _unaccented(word: str) -> str:
    if word.isascii():
        return word
    letters = (letter for letter in unicodedata.normalize("NFD", word) if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", "".join(letters))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    # Without its own cache, which costs more than a stem: `word_terms` has one.
    return Stemmer.Stemmer(_STEMMERS[language], 0)


@cache
def _stop_words(language: str) -> frozenset[str]:
    if language not in _STEMMERS:
        return frozenset().union(*map(_stop_words, _LIKELY))
    if language not in _STOPPED:
        return frozenset()
    text = files(__package__).joinpath("data", f"stop_{language}.txt").read_text("utf-8")
    return frozenset(line for line in text.splitlines() if not line.startswith("#"))
