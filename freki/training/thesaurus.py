"""Packing of the synonyms of OpenThesaurus and WordNet for `operators/rephrase`, by language.

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
"""Maximum words of a meaning; larger groups are too loose."""
LEAST_SHARE = 0.8
"""Minimum share of one meaning in the uses of an ambiguous word (counts of WordNet) to count as its only one."""
LEAST_USES = 5
"""Minimum count of uses for that."""
_PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
_WORD = re.compile(r"[A-Za-zÄÖÜäöüß]{3,24}")
_LOOSE = re.compile(r"\((?:Oberbegriff|Unterbegriff|Assoziation|Antonym|Hauptform)\)|\.\.\.")
_REMARK = re.compile(r"\s*\([^()]*\)")
_TERM_OF_ART = re.compile(r"\s*\(fachspr\.\)")

Meaning = tuple[tuple[str, ...], tuple[str, ...]]
"""Interchangeable words, and words that are only replaced, not used as replacement: colloquial, dated, regional."""


def german(path: Path) -> list[Meaning]:
    """Return the meanings of unambiguous words of OpenThesaurus, without broader terms."""
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
    """Return the only or dominant meaning of each word of WordNet."""
    meanings: defaultdict[str, list[str]] = defaultdict(list)
    for synset, word in _first_senses(directory):
        meanings[synset].append(word)
    return sorted((tuple(words), ()) for words in meanings.values() if 1 < len(words) <= MOST_WORDS)


def packed(meanings: Iterable[Meaning], head: str) -> str:
    """Return one meaning per line: its words, then after `|` words that are only replaced; head: leading comments."""
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
    """Yield meanings, by part of speech and offset, with the words that mostly have them."""
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
    """Return the lower-case words of each meaning; names are left out."""
    found = {}
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith(" "):
            place, _, _, number, *rest = line.split()
            found[place] = set(rest[: 2 * int(number, 16) : 2])
    return found


def _uses(path: Path) -> dict[tuple[str, str, int], int]:
    """Return the number of uses of each meaning of a word."""
    parts = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}
    found = {}
    for line in path.read_text("utf-8").splitlines():
        key, number, count = line.split()
        word, _, rest = key.partition("%")
        found[word, parts[rest[0]], int(number)] = int(count)
    return found
