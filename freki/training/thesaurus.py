"""Packs the synonyms of OpenThesaurus and WordNet for `operators/rephrase`: words of one meaning, for each language.

Input are the files of the Debian packages `mythes-de` (th_de_DE_v2.dat) and `wordnet-base` (index.sense, data.noun, …).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

GERMAN_HEAD = """Words of one meaning a line; behind | those that ask but do not answer: colloquial, dated, regional.
From OpenThesaurus, openthesaurus.de, (C) Daniel Naber and the users of openthesaurus.de, GNU LGPL 2.1 or later:
see NOTICE. Made of the Debian package mythes-de 20160424-4: python -m freki.training thesaurus."""
ENGLISH_HEAD = """Words of one meaning a line, those that nearly always have it.
From WordNet 3.0, (C) 2006 Princeton University: see NOTICE.
Made of the Debian package wordnet-base 1:3.0-37: python -m freki.training thesaurus."""
MOST_WORDS = 6
"""Of one meaning: what has more is loose."""
LEAST_SHARE = 0.8
"""A word of several meanings counts as one where so many of its uses have it (WordNet's counts)."""
LEAST_USES = 5
"""How often it must have been counted for that."""
_PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
_WORD = re.compile(r"[A-Za-zÄÖÜäöüß]{3,24}")
_LOOSE = re.compile(r"\((?:Oberbegriff|Unterbegriff|Assoziation|Antonym|Hauptform)\)|\.\.\.")
_REMARK = re.compile(r"\s*\([^()]*\)")
_TERM_OF_ART = re.compile(r"\s*\(fachspr\.\)")

Meaning = tuple[tuple[str, ...], tuple[str, ...]]
"""Words that may stand for each other, and words that only ask: colloquial, dated, regional."""


def german(path: Path) -> list[Meaning]:
    """Read OpenThesaurus: meanings of which each word has this one only; broader terms are left out."""
    lines = path.read_text("utf-8").splitlines()[1:]
    meanings: dict[tuple[str, ...], None] = {}
    counts: defaultdict[str, int] = defaultdict(int)
    at = 0
    while at < len(lines):
        word, _, number = lines[at].rpartition("|")
        senses = {tuple(line.split("|")[1:]) for line in lines[at + 1 : at + 1 + int(number)]}
        counts[word.casefold()] = len(senses)
        meanings.update(dict.fromkeys(sorted(senses)))
        at += 1 + int(number)
    return sorted({found for meaning in meanings if (found := _german(meaning, counts))})


def english(directory: Path) -> list[Meaning]:
    """Read WordNet: of each word the only meaning, or the one that it nearly always has."""
    meanings: defaultdict[str, list[str]] = defaultdict(list)
    for synset, word in _first_senses(directory):
        meanings[synset].append(word)
    return sorted((tuple(words), ()) for words in meanings.values() if 1 < len(words) <= MOST_WORDS)


def packed(meanings: Iterable[Meaning], head: str) -> str:
    """Write one meaning a line: its words, then behind `|` those that only ask; `head` as comments before them."""
    lines = (" ".join(words) + (f" | {' '.join(asked)}" if asked else "") for words, asked in meanings)
    return "\n".join([*(f"# {line}" for line in head.splitlines()), *lines, ""])


def _german(meaning: tuple[str, ...], counts: defaultdict[str, int]) -> Meaning | None:
    words: list[str] = []
    asked: list[str] = []
    for entry in meaning:
        if _LOOSE.search(entry):
            continue
        plain = _TERM_OF_ART.sub("", entry)
        word = _REMARK.sub("", plain).strip()
        if _WORD.fullmatch(word) and counts[word.casefold()] == 1:
            (words if word == plain.strip() else asked).append(word)
    if not words or len(words) > MOST_WORDS or len(words) + len(asked) == 1:
        return None
    return tuple(words), tuple(asked)


def _first_senses(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield meanings, by part of speech and place, and the words that mostly have them."""
    uses = _uses(directory / "cntlist.rev")
    for part in _PARTS:
        spelt = _spelt(directory / f"data.{part}")
        for line in (directory / f"index.{part}").read_text("utf-8").splitlines():
            if line.startswith(" "):
                continue
            word, *fields = line.split()
            places = fields[-int(fields[1]) :]
            counted = [uses.get((word, part, number), 0) for number in range(1, len(places) + 1)]
            clear = len(places) == 1 or (sum(counted) >= LEAST_USES and counted[0] >= LEAST_SHARE * sum(counted))
            if clear and _WORD.fullmatch(word) and word in spelt[places[0]]:
                yield f"{part}{places[0]}", word


def _spelt(path: Path) -> dict[str, set[str]]:
    """Read the words of each meaning that are written small: names are no synonyms."""
    found = {}
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith(" "):
            place, _, _, number, *rest = line.split()
            found[place] = set(rest[: 2 * int(number, 16) : 2])
    return found


def _uses(path: Path) -> dict[tuple[str, str, int], int]:
    """Read how often each meaning of a word was counted in texts."""
    parts = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
    found = {}
    for line in path.read_text("utf-8").splitlines():
        key, number, count = line.split()
        word, _, rest = key.partition("%")
        found[word, parts[rest[0]], int(number)] = int(count)
    return found
