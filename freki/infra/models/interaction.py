"""Scores of query-text pairs: a second encoder for English, late interaction of tokens for all other languages.

English pairs use a second encoder, trained on other data than the first: the cosine of the query and the text or its
heading, whichever is higher. All other pairs compare tokens: each token of the query, weighted by its rarity, is
matched to the closest token of the text, in the states of the lowest layers of the first encoder. Both are summed with
the scores of search. Only the rarity of tokens is trained; the weights were chosen on the development split in
`docs/reranker.md`.
Source: Khattab and Zaharia, SIGIR 2020, doi:10.1145/3397271.3401075 (MaxSim). Deviations: encoders are not
fine-tuned; tokens are weighted by rarity.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from importlib import resources
from typing import NamedTuple, Protocol

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray
from tokenizers import Encoding

from freki.infra.models.packing import pack
from freki.infra.models.session import Model
from freki.infra.telemetry.calls import Calls
from freki.schemas.arrays import Floats
from freki.schemas.index import RerankPair

ENGLISH = "en"
ENGLISH_SHARE = 0.75
"""Minimum share of English candidates for which the second encoder is used."""
PIECE_WEIGHTS = "piece_weights.npy"


States = NDArray[np.floating]
"""Output of a model for a text: a vector (dim,), or states of tokens (tokens, dim)."""


class Owned(NamedTuple):
    """A text with its owners: tenant and readers of a document, or tenant and principals of a query."""

    owners: tuple[str, ...]
    text: str


class Remembered:
    """A cache of model outputs of recently scored texts, bounded in bytes. Not thread-safe.

    Entries are separate per owner: the time of scoring must not reveal that others have, or asked for, a text.
    """

    def __init__(self, most_bytes: int, calls: Calls | None = None) -> None:
        self._calls = calls or Calls()
        self._states: LRUCache[bytes, States] = LRUCache(most_bytes, getsizeof=lambda states: states.nbytes)

    def among(self, texts: Iterable[Owned]) -> dict[Owned, States]:
        """Return the cached entries of these texts."""
        looked_up = {text: self._states.get(_key(text)) for text in texts}
        found = {text: states for text, states in looked_up.items() if states is not None}
        self._calls.looked_up("rerank", hits=len(found), misses=len(looked_up) - len(found))
        return found

    def keep(self, text: Owned, states: States) -> None:
        """Store the output for a text, evicting the least recently used ones."""
        if states.nbytes <= self._states.maxsize:
            self._states[_key(text)] = states


def _key(owned: Owned) -> bytes:
    """Return a hash of a text and its owners."""
    # Lengths delimit the parts.
    parts = (part.encode() for part in (*owned.owners, owned.text))
    return blake2b(b"".join(b"%d:%b" % (len(part), part) for part in parts), digest_size=16).digest()


class Calibration(NamedTuple):
    """Linear map from a sum of features to a logit."""

    slope: float
    shift: float

    def __call__(self, sums: Floats) -> Floats:
        """Return logits."""
        logits: Floats = self.slope * sums + self.shift
        return logits


class Route(Protocol):
    """A method of scoring pairs; shared texts are encoded once. Calls block."""

    @property
    def lengths(self) -> Sequence[int]:
        """Number of tokens to encode for each pair."""

    def score(self, places: range) -> Floats:
        """Score the pairs in a range; return logits, (pairs,)."""


def read_piece_weights() -> Floats:
    """Return the rarity of each piece of the vocabulary of the first encoder, (pieces,)."""
    with resources.as_file(resources.files("freki.infra.models").joinpath(PIECE_WEIGHTS)) as file:
        weights: Floats = np.load(file, allow_pickle=False).astype(np.float32)
    return weights


def is_english(pairs: Sequence[RerankPair]) -> bool:
    """Return whether query and enough candidates are English."""
    readable = sum(pair.language == ENGLISH for pair in pairs)
    return all(pair.query_language == ENGLISH for pair in pairs) and readable >= ENGLISH_SHARE * len(pairs)


class _Texts:
    """Texts to be encoded, each once, unless cached."""

    def __init__(
        self, model: Model, rows: Sequence[Sequence[Owned]], remembered: Remembered, *, batch_tokens: int
    ) -> None:
        self._rows = rows
        self._remembered = remembered
        self._batch_tokens = batch_tokens
        texts = dict.fromkeys(text for row in rows for text in row)
        self.states = remembered.among(texts)
        unknown = [text for text in texts if text not in self.states]
        self._encodings = dict(zip(unknown, model.encode([each.text for each in unknown]), strict=True))
        self.lengths = self._costs()

    def missing(self, places: range) -> Iterable[tuple[list[Owned], list[Encoding]]]:
        """Yield the texts to be encoded for some rows, in batches."""
        texts = list(dict.fromkeys(text for place in places for text in self._rows[place] if text not in self.states))
        encodings = [self._encodings[text] for text in texts]
        for batch in pack([len(each) for each in encodings], budget=self._batch_tokens):
            yield [texts[at] for at in batch], [encodings[at] for at in batch]

    def keep(self, text: Owned, states: States) -> None:
        """Store the output of the model for a text."""
        self.states[text] = states
        self._remembered.keep(text, states)

    def _costs(self) -> list[int]:
        """Return the number of tokens that each row adds to those before it."""
        counted = set(self.states)
        costs = []
        for row in self._rows:
            costs.append(sum(len(self._encodings[text]) for text in row if text not in counted))
            counted.update(row)
        return costs


class SecondOpinion:
    """Route for English: cosines of a second encoder."""

    OPINION = 3.0
    LEXICAL = 0.4
    CALIBRATION = Calibration(2.281, -7.929)

    def __init__(self, model: Model, pairs: Sequence[RerankPair], remembered: Remembered, *, batch_tokens: int) -> None:
        self._model = model
        self._pairs = pairs
        passage, query = model.manifest.passage_prefix, model.manifest.query_prefix
        self._rows = [
            [
                Owned(pair.asker, query + pair.query),
                Owned(pair.readers, passage + pair.text),
                *([Owned(pair.readers, passage + pair.heading)] if pair.heading else []),
            ]
            for pair in pairs
        ]
        self._texts = _Texts(model, self._rows, remembered, batch_tokens=batch_tokens)

    @property
    def lengths(self) -> Sequence[int]:
        """Number of tokens to encode for each pair."""
        return self._texts.lengths

    def score(self, places: range) -> Floats:
        """Score the pairs in a range; return logits, (pairs,)."""
        for texts, encodings in self._texts.missing(places):
            for text, vector in zip(texts, self._model.vectors(encodings), strict=True):
                # Copy: a view would keep the whole batch in memory.
                self._texts.keep(text, vector.copy())
        return self.CALIBRATION(np.array([self._sum(place) for place in places], np.float32))

    def _sum(self, place: int) -> float:
        pair = self._pairs[place]
        question, *texts = (self._texts.states[text] for text in self._rows[place])
        opinion = max(float(question @ text) for text in texts)
        return pair.fused + self.OPINION * opinion + self.LEXICAL * pair.lexical


class Matching:
    """Route for all languages: late interaction of tokens."""

    MATCH = 4.0
    COSINE = 4.0
    CALIBRATION = Calibration(3.605, -25.882)

    def __init__(
        self,
        model: Model,
        piece_weights: Floats,
        pairs: Sequence[RerankPair],
        remembered: Remembered,
        *,
        batch_tokens: int,
    ) -> None:
        self._model = model
        self._piece_weights = piece_weights
        self._pairs = pairs
        passage, query = model.manifest.passage_prefix, model.manifest.query_prefix
        # Tokens before the words of a query: <s> and the prefix.
        self._lead = 1 + sum(model.count([query.strip()]))
        self._rows = [
            [Owned(pair.asker, query + pair.query), Owned(pair.readers, passage + pair.text)] for pair in pairs
        ]
        queries = list(dict.fromkeys(question for question, _ in self._rows))
        encodings = model.encode([question.text for question in queries])
        self._ids = {question: np.array(each.ids) for question, each in zip(queries, encodings, strict=True)}
        self._texts = _Texts(model, self._rows, remembered, batch_tokens=batch_tokens)

    @property
    def lengths(self) -> Sequence[int]:
        """Number of tokens to encode for each pair."""
        return self._texts.lengths

    def score(self, places: range) -> Floats:
        """Score the pairs in a range; return logits, (pairs,)."""
        for texts, encodings in self._texts.missing(places):
            for text, encoding, tokens in zip(texts, encodings, self._model.tokens(encodings), strict=True):
                # 16 bits are precise enough, and double the capacity of the cache.
                self._texts.keep(text, tokens[: len(encoding)].astype(np.float16))
        return self.CALIBRATION(np.array([self._sum(place) for place in places], np.float32))

    def _sum(self, place: int) -> float:
        pair, (query, text) = self._pairs[place], self._rows[place]
        return pair.fused + self.COSINE * pair.cosine + self.MATCH * self._match(query, text)

    def _match(self, query: Owned, text: Owned) -> float:
        ids = self._ids[query]
        # Without <s>, prefix and </s>, unless there are no other tokens.
        words = slice(self._lead, -1) if len(ids) > self._lead + 1 else slice(None)
        questions, answers = (self._texts.states[each].astype(np.float32) for each in (query, text))
        closest = (questions[words] @ answers.T).max(axis=1)
        return float(np.average(closest, weights=self._piece_weights[ids[words]]))
