"""Searches the same question in other words, for those whose first search is not enough."""

import asyncio
import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from freki.operators.analyse_query import searchable_text
from freki.operators.analyse_text.compounds import compound_parts
from freki.operators.define import find_definitions
from freki.operators.doubt import PLACE, looks_weak
from freki.operators.rephrase import (
    as_statement,
    corrected,
    feedback_terms,
    feedback_vector,
    is_word,
    made_short,
    spelt_out,
    with_joined,
    with_split,
    with_synonyms,
)
from freki.operators.situate import situated
from freki.schemas import NoticeKind, Widening, WidenWhen
from freki.streams.ports import AnalyseText
from freki.streams.retrieval.attempts import FINISHING, LOOKING_UP, Attempts
from freki.streams.retrieval.rewrite import STAGE, Rewriter, is_written
from freki.streams.retrieval.search import Searcher
from freki.streams.retrieval.trail import Trail, Way, timed

VARIANTS_WEIGHT = 0.5
"""Of all variants together, where the question itself has 1."""
MOST_VARIANTS = 12
FEEDBACK_TEXTS = 10
FEEDBACK_VECTORS = 5
_WORDS = re.compile(r"[^\W\d_]+")


class Widener:
    """Makes variants of those questions that want some, searches all of them at once, and fuses once for each."""

    def __init__(
        self, *, searcher: Searcher, analyse_text: AnalyseText, attempts: Attempts, rewriter: Rewriter | None
    ) -> None:
        self._searcher = searcher
        self._rewriter = rewriter
        self._analyse_text = analyse_text
        self._attempts = attempts
        self._makers: Mapping[Widening, Callable[[Trail], Iterable[Way]]] = {
            Widening.STATEMENT: self._rule(Widening.STATEMENT, _statements),
            Widening.SYNONYMS: self._rule(Widening.SYNONYMS, _synonyms),
            Widening.COMPOUNDS: self._rule(Widening.COMPOUNDS, _compounds),
            Widening.ABBREVIATIONS: self._rule(Widening.ABBREVIATIONS, _abbreviations),
            Widening.SPELLING: self._rule(Widening.SPELLING, self._spelling),
            Widening.TERMS: _terms,
            Widening.VECTOR: _vector,
        }

    def wants(self, trail: Trail) -> bool:
        """Tell whether further searches may be made, and whether there is time for them."""
        if not _kinds(trail):
            return False
        # They take about as long as the first ones did.
        if self._attempts.spare_s(trail, before=(*LOOKING_UP, *FINISHING)) > 0:
            return True
        message = f"the deadline of {trail.knobs.deadline_ms} ms left no time for further searches"
        trail.notice(STAGE, NoticeKind.SKIPPED, message)
        return False

    async def __call__(self, trails: Sequence[Trail]) -> None:
        """Search variants too; where that fails or takes too long, what the question itself found stays as it is."""
        if not trails:
            return
        # Changed as a whole or not at all.
        second = [trail.second_pass() for trail in trails]
        limit_s = min(self._attempts.spare_s(trail, before=FINISHING) for trail in trails)
        try:
            async with asyncio.timeout(limit_s):
                await self._add_ways(second)
                widened = [(trail, after) for trail, after in zip(trails, second, strict=True) if len(after.ways) > 1]
                went_well = bool(widened) and await self._search([after for _, after in widened])
        except TimeoutError:
            for trail in trails:
                trail.notice(STAGE, NoticeKind.DEGRADED, "further searches were given up: they took too long")
            return
        for trail, after in widened if went_well else ():
            trail.take_over(after)

    async def _search(self, trails: list[Trail]) -> bool:
        await self._searcher.embed(trails)
        return await self._searcher.find(trails, first=1) and await self._searcher.load(trails)

    async def _add_ways(self, trails: Sequence[Trail]) -> None:
        with timed(trails, STAGE, lambda trail: len(trail.ways) - 1):
            made = {id(trail): self.by_rule(trail) for trail in trails}
            for trail, kind, texts in await self._rewritten(trails):
                made[id(trail)] += self._ways(trail, kind, texts)
            for trail in trails:
                trail.ways += share_weight(made[id(trail)])

    def by_rule(self, trail: Trail) -> list[Way]:
        """Make the variants that need no language model, from the question and what was read for it."""
        return [way for kind in _kinds(trail) if not is_written(kind) for way in self._makers[kind](trail)]

    async def _rewritten(self, trails: Sequence[Trail]) -> list[tuple[Trail, Widening, list[str]]]:
        """Let the language model write what it shall."""
        asked = [(trail, kind) for trail in trails for kind in _kinds(trail) if is_written(kind)]
        if self._rewriter is not None:
            return await self._rewriter(asked, self._attempts)
        for trail, kind in asked:
            trail.notice(STAGE, NoticeKind.SKIPPED, f"no {kind.lower()}: set FREKI_LLM__URL and FREKI_LLM__MODEL")
        return []

    def _spelling(self, trail: Trail) -> Iterable[str]:
        language = trail.analysis.language
        stems = {term for found in trail.found for term in found.content.lexical.split()}

        def is_known(word: str) -> bool:
            """Tell whether it is a stop word, or the texts or a dictionary have it, in whatever inflection."""
            terms = [term for term in self._analyse_text(word, language=language).split() if not term.startswith("=")]
            return not terms or terms[0] in stems or is_word(word, language=language)

        return [corrected(trail.ways[0].text, _vocabulary(trail), is_known=is_known)]

    def _rule(self, kind: Widening, texts: Callable[[Trail], Iterable[str]]) -> Callable[[Trail], Iterable[Way]]:
        return lambda trail: self._ways(trail, kind, texts(trail))

    def _ways(self, trail: Trail, kind: Widening, texts: Iterable[str]) -> Iterator[Way]:
        """Make ways of texts; those that are empty, or the question itself, make none."""
        for text in texts:
            bounded = searchable_text(text)
            if bounded and bounded != trail.ways[0].text:
                terms = self._analyse_text(bounded, language=trail.analysis.language)
                yield Way(text=bounded, terms=terms, kind=kind)


def _kinds(trail: Trail) -> list[Widening]:
    """Give the kinds of variants that the first search calls for, each once."""
    kinds = list(dict.fromkeys(trail.knobs.widen))
    # What users judged may have moved the order.
    scores = heapq.nlargest(PLACE, (each.fused for each in trail.ranked))
    if trail.knobs.widen_when is WidenWhen.ALWAYS or looks_weak(scores):
        return kinds
    # A word that nobody writes so is a sign of its own, and without one there is no such variant.
    return [kind for kind in kinds if kind is Widening.SPELLING]


def _statements(trail: Trail) -> Iterable[str]:
    return [as_statement(trail.ways[0].text, language=trail.analysis.language)]


def _synonyms(trail: Trail) -> Iterable[str]:
    return with_synonyms(trail.ways[0].text, language=trail.analysis.language)


def _compounds(trail: Trail) -> Iterable[str]:
    if trail.analysis.language != "de":
        return ()
    question = trail.ways[0].text
    return [with_joined(question, _vocabulary(trail)), with_split(question, compound_parts)]


def _abbreviations(trail: Trail) -> Iterable[str]:
    question = trail.ways[0].text
    definitions = [each for text in _read(trail) for each in find_definitions(text)]
    return [spelt_out(question, definitions), made_short(question, definitions)]


def _terms(trail: Trail) -> Iterable[Way]:
    best = trail.found[:FEEDBACK_TEXTS]
    terms = feedback_terms(
        trail.ways[0].terms, [found.content.lexical for found in best], [max(0.0, found.fused) for found in best]
    )
    said = " ".join(dict.fromkeys(term for term in terms.split() if not term.startswith("=")))
    return [Way(text=said, terms=terms, kind=Widening.TERMS, embeds=False)] if terms else []


def _vector(trail: Trail) -> Iterable[Way]:
    question = trail.ways[0]
    near = [found.vector for found in trail.found[:FEEDBACK_VECTORS] if found.vector is not None]
    if question.vector is None or not near:
        return []
    moved = feedback_vector(question.vector, near)
    return [Way(text=question.text, terms="", kind=Widening.VECTOR, vector=moved)]


def _vocabulary(trail: Trail) -> Counter[str]:
    """Count the words of the texts that were read."""
    return Counter(word for text in _read(trail) for word in _WORDS.findall(text))


def _read(trail: Trail) -> list[str]:
    """Give the texts that the first search found, with what places them; the asker may read all of them."""
    return [situated(found.content.context, found.content.text) for found in trail.found]


def share_weight(ways: Sequence[Way]) -> list[Way]:
    """Take the first of them, each text once, and share the weight of variants among them."""
    kept = list({(way.text, way.embeds, way.terms): way for way in reversed(ways)}.values())[::-1][:MOST_VARIANTS]
    for way in kept:
        way.weight = VARIANTS_WEIGHT / len(kept)
    return kept
