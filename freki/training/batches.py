"""What the student sees at once: some questions with some of their candidates, and what it should make of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freki.infra.models.e5s1 import Floats
from freki.schemas.names import record
from freki.training.augment import typed
from freki.training.material import Collection
from freki.training.mining import Candidates
from freki.training.rows import Row, Rows
from freki.training.targets import SHOWN, order_of, shown
from freki.training.teachers import Vectors


@record
class Batch:
    """Pairs of questions and documents; each question, text and heading stands there once, as token ids."""

    questions: list[Row]
    rows: list[Row]
    """Texts, then headings."""
    lead: int
    """Tokens before the words of a question."""
    owner: NDArray[np.intp]
    """Place of each pair's question, (pairs,)."""
    text: NDArray[np.intp]
    """Place of its text among the rows, (pairs,)."""
    heading: NDArray[np.intp]
    """Place of its heading; where there is none, of its text."""
    fused: Floats
    """(pairs,)"""
    cosine: Floats
    """(pairs,)"""


@record
class Wanted:
    """What the student should make of a batch."""

    orders: Floats
    """Share of each candidate, (questions, candidates)."""
    questions: Floats
    """What either teacher makes of the questions, (questions, 2, dim); 0 where it has no say."""
    texts: Floats
    """The same for the rows that are texts."""
    headings: Floats
    """The same for the rows that are headings."""


@record
class Studied:
    """A collection with all that is known of it."""

    collection: Collection
    candidates: Candidates
    """The answer among them."""
    scores: Floats
    """Of the teachers, (questions, candidates)."""
    first: Vectors
    second: Vectors | None
    """None where this teacher does not know the language."""

    def answer(self, question: int) -> int:
        """Say which candidate answers a question."""
        answer = self.collection.questions[question].answer
        return int(np.flatnonzero(self.candidates.places[question] == answer)[0])

    def question_views(self, place: int) -> Floats:
        """Give what the teachers make of a question, (2, dim)."""
        return self._views(self.first.questions[place], None if self.second is None else self.second.questions[place])

    def title_views(self, place: int) -> Floats:
        """Give what the teachers make of a title, (2, dim)."""
        return self._views(self.first.titles[place], None if self.second is None else self.second.titles[place])

    def text_views(self, place: int) -> Floats:
        """Give what the second teacher makes of a document, (2, dim); the first one has read more of it."""
        return self._views(None, None if self.second is None else self.second.documents[place])

    def _views(self, first: Floats | None, second: Floats | None) -> Floats:
        silent = np.zeros(self.first.documents.shape[1], np.float32)
        return np.stack([silent if first is None else first, silent if second is None else second])


class Example(NamedTuple):
    """A question of a collection, by the places of both."""

    collection: int
    question: int


class Batches:
    """Makes batches of examples."""

    def __init__(self, studied: Sequence[Studied], rows: Rows) -> None:
        self._studied = studied
        self._rows = rows
        self._shown = min(SHOWN, *(each.candidates.places.shape[1] for each in studied))

    def learn(self, examples: Sequence[Example], rng: np.random.Generator) -> tuple[Batch, Wanted]:
        """Show some candidates of each question, the answer first; some questions are changed a little."""
        asked, chosen, orders = [], [], []
        for at, number in examples:
            studied = self._studied[at]
            asked.append(typed(studied.collection.questions[number].text, studied.collection.language, rng))
            width = studied.candidates.places.shape[1]
            chosen.append(shown(rng, studied.answer(number), width=width, count=self._shown))
            orders.append(order_of(studied.scores[number, chosen[-1]], 0))
        pool = self._pool(examples, chosen)
        return self._batch(pool, asked), self._wanted(pool, examples, np.stack(orders))

    def judge(self, examples: Sequence[Example], *, width: int) -> tuple[Batch, NDArray[np.bool_]]:
        """Show the best candidates of each question, and say which of the pairs are right, (pairs,)."""
        asked, chosen, right = [], [], []
        for at, number in examples:
            studied = self._studied[at]
            asked.append(studied.collection.questions[number].text)
            chosen.append(np.arange(min(width, studied.candidates.places.shape[1])))
            right.append(chosen[-1] == studied.answer(number))
        return self._batch(self._pool(examples, chosen), asked), np.concatenate(right)

    def _pool(self, examples: Sequence[Example], chosen: Sequence[NDArray[np.intp]]) -> "_Pool":
        pool = _Pool()
        for owner, ((at, number), places) in enumerate(zip(examples, chosen, strict=True)):
            found, title_of = self._studied[at].candidates, self._studied[at].collection.title_of
            for place in places:
                document = int(found.places[number, place])
                known = (float(found.fused[number, place]), float(found.cosines[number, place]))
                pool.add(owner, at, document, int(title_of[document]), known)
        return pool

    def _batch(self, pool: "_Pool", asked: Sequence[str]) -> Batch:
        collections = [studied.collection for studied in self._studied]
        texts = self._rows.texts([collections[at].documents[place] for at, place in pool.texts])
        headings = self._rows.headings([collections[at].titles[place] for at, place in pool.headings])
        after = [text if heading is None else len(texts) + heading for _, text, heading in pool.pairs]
        return Batch(
            questions=self._rows.questions(asked),
            rows=texts + headings,
            lead=self._rows.lead,
            owner=np.array([owner for owner, _, _ in pool.pairs], np.intp),
            text=np.array([text for _, text, _ in pool.pairs], np.intp),
            heading=np.array(after, np.intp),
            fused=np.array([fused for fused, _ in pool.known], np.float32),
            cosine=np.array([cosine for _, cosine in pool.known], np.float32),
        )

    def _wanted(self, pool: "_Pool", examples: Sequence[Example], orders: Floats) -> Wanted:
        return Wanted(
            orders=orders,
            questions=_stacked(self._studied[at].question_views(place) for at, place in examples),
            texts=_stacked(self._studied[at].text_views(place) for at, place in pool.texts),
            headings=_stacked(self._studied[at].title_views(place) for at, place in pool.headings),
        )


class _Pool:
    """Pairs whose texts and headings are counted once each, by collection and place there."""

    def __init__(self) -> None:
        self.texts: dict[tuple[int, int], int] = {}
        self.headings: dict[tuple[int, int], int] = {}
        self.pairs: list[tuple[int, int, int | None]] = []
        """Question, text and heading."""
        self.known: list[tuple[float, float]] = []

    def add(self, owner: int, collection: int, document: int, title: int, known: tuple[float, float]) -> None:
        text = self.texts.setdefault((collection, document), len(self.texts))
        heading = None if title < 0 else self.headings.setdefault((collection, title), len(self.headings))
        self.pairs.append((owner, text, heading))
        self.known.append(known)


def _stacked(views: Iterable[Floats]) -> Floats:
    """Put views together, (rows, 2, dim); none of them give no row."""
    found = list(views)
    return np.stack(found) if found else np.empty((0, 2, 0), np.float32)
