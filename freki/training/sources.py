"""Known files: conversion of lines to documents, sampling weights and licences.

Real documents have headings, some of which are questions, so some documents get one.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from freki.training.dataset import Entry, Pair

T = TypeVar("T")
Rule = Callable[[Sequence[Pair], np.random.Generator], Iterator[Entry]]

_MOST_SECTIONS = 7000
_SECTIONS_ASKED = 3500
_MOST_SENTENCES = 9000
_MOST_ANSWERS = 6000
_SHORTEST_HEADING = 9
_LAW = re.compile(r"\s*\([^)]*\)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Rules for reading a file."""

    rule: Rule
    licence: str


def plain(
    pairs: Sequence[Pair], rng: np.random.Generator, *, share: float = 1.0, titled: bool = True
) -> Iterator[Entry]:
    """Yield each line unchanged."""
    del rng
    for pair in pairs:
        yield Entry(pair.title if titled else "", pair.passage, (pair.question,), share)


def laws(pairs: Sequence[Pair], rng: np.random.Generator) -> Iterator[Entry]:
    """Yield paragraphs of laws, queried by heading, with and without the name of the law; half show the heading."""
    for number, pair in enumerate(_some(pairs, rng, _MOST_SECTIONS)):
        heading = _LAW.sub("", pair.question).strip()
        law = "" if pair.title.startswith("(") else pair.title
        title = f"{law} {heading}" if number % 2 else law
        question = pair.question if number // 2 % 2 == 0 else heading
        asked = number < _SECTIONS_ASKED and len(heading) >= _SHORTEST_HEADING
        yield Entry(title, pair.passage, (question,) if asked else (), 0.5)


def sections(pairs: Sequence[Pair], rng: np.random.Generator) -> Iterator[Entry]:
    """Yield sections of a manual, queried by heading, below the title of their page; half of the pages lose it."""
    for number, pair in enumerate(_some(pairs, rng, _MOST_SECTIONS)):
        title = pair.title if pair.kind == "section" or number % 2 else ""
        yield Entry(title, pair.passage, (pair.question,) if number < _SECTIONS_ASKED else (), 0.5)


def sentences(pairs: Sequence[Pair], rng: np.random.Generator) -> Iterator[Entry]:
    """Yield sentences with one query each; half of those with a second query have it as heading."""
    asked: defaultdict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        asked[pair.passage].append(pair.question)
    for number, (passage, questions) in enumerate(_some(list(asked.items()), rng, _MOST_SENTENCES)):
        if len(questions) > 1 and number % 2 == 0:
            yield Entry(questions[0], passage, (questions[1],), 1.0)
        else:
            yield Entry("", passage, (questions[0],), 0.4)


def answers(pairs: Sequence[Pair], rng: np.random.Generator) -> Iterator[Entry]:
    """Yield answers, half of them queried by their question; the heading is the question or its subject."""
    subjects: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        subjects[pair.title].append(pair)
    chosen = (pair for subject in _some(list(subjects), rng, len(subjects)) for pair in subjects[subject])
    for _, pair in zip(range(_MOST_ANSWERS), chosen, strict=False):
        by_question, asked = rng.random(2) < (0.6, 0.5)
        yield Entry(pair.question if by_question else pair.title, pair.passage, (pair.question,) if asked else (), 0.7)


_WIKIPEDIA = "texts of Wikipedia: CC-BY-SA-3.0"
SOURCES = {
    "mlqa-de": Source(rule=partial(plain, share=2.0), licence="CC-BY-SA-3.0"),
    "gesetze-headings-de": Source(rule=laws, licence="official works, not protected (§ 5 UrhG)"),
    "mdn-headings-de": Source(rule=sections, licence="CC-BY-SA-2.5"),
    "squad-sent-en": Source(rule=sentences, licence="CC-BY-SA-4.0"),
    "medquad-en": Source(rule=answers, licence="CC-BY-4.0"),
    "selqa-en": Source(rule=partial(plain, share=0.8), licence=f"questions: not stated; {_WIKIPEDIA}"),
    "nq-open-oracle-en": Source(rule=plain, licence="CC-BY-SA-3.0"),
    "covidqa-en": Source(rule=partial(plain, titled=False), licence="Apache-2.0; articles: see each, mostly CC-BY"),
}
OTHER = Source(rule=plain, licence="not stated")
"""Rules for unknown files."""


def _some(values: Sequence[T], rng: np.random.Generator, most: int) -> Iterator[T]:
    """Yield at most `most` values in random order."""
    return (values[place] for place in rng.permutation(len(values))[:most])
