"""Searches the same question in other words, for those whose first search is not enough."""

import asyncio
import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from freki.operators.analyse_query import searchable_text
from freki.operators.analyse_text.compounds import compound_parts
from freki.operators.breadcrumb import with_context
from freki.operators.define import find_definitions
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
from freki.operators.weak_ranking import PLACE, looks_weak
from freki.schemas import NoticeKind, Widening, WidenWhen
from freki.streams.ports import AnalyseText
from freki.streams.retrieve.budget.attempts import FINISHING, LOOKING_UP, Attempts
from freki.streams.retrieve.query_state import QueryState, QueryVariant, timed
from freki.streams.retrieve.steps.rewrite import STAGE, Rewriter, is_written
from freki.streams.retrieve.steps.search import Searcher

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
        self._makers: Mapping[Widening, Callable[[QueryState], Iterable[QueryVariant]]] = {
            Widening.STATEMENT: self._rule(Widening.STATEMENT, _statements),
            Widening.SYNONYMS: self._rule(Widening.SYNONYMS, _synonyms),
            Widening.COMPOUNDS: self._rule(Widening.COMPOUNDS, _compounds),
            Widening.ABBREVIATIONS: self._rule(Widening.ABBREVIATIONS, _abbreviations),
            Widening.SPELLING: self._rule(Widening.SPELLING, self._spelling),
            Widening.TERMS: _terms,
            Widening.VECTOR: _vector,
        }

    def wants(self, state: QueryState) -> bool:
        """Tell whether further searches may be made, and whether there is time for them."""
        if not _kinds(state):
            return False
        # They take about as long as the first ones did.
        if self._attempts.spare_s(state, before=(*LOOKING_UP, *FINISHING)) > 0:
            return True
        message = f"the deadline of {state.options.deadline_ms} ms left no time for further searches"
        state.notice(STAGE, NoticeKind.SKIPPED, message)
        return False

    async def __call__(self, states: Sequence[QueryState]) -> None:
        """Search variants too; where that fails or takes too long, what the question itself found stays as it is."""
        if not states:
            return
        # Changed as a whole or not at all.
        second = [state.second_pass() for state in states]
        limit_s = min(self._attempts.spare_s(state, before=FINISHING) for state in states)
        try:
            async with asyncio.timeout(limit_s):
                await self._add_variants(second)
                widened = [
                    (state, after) for state, after in zip(states, second, strict=True) if len(after.query_variants) > 1
                ]
                went_well = bool(widened) and await self._search([after for _, after in widened])
        except TimeoutError:
            for state in states:
                state.notice(STAGE, NoticeKind.DEGRADED, "further searches were given up: they took too long")
            return
        for state, after in widened if went_well else ():
            state.take_over(after)

    async def _search(self, states: list[QueryState]) -> bool:
        await self._searcher.embed(states)
        return await self._searcher.find(states, first=1) and await self._searcher.load(states)

    async def _add_variants(self, states: Sequence[QueryState]) -> None:
        with timed(states, STAGE, lambda state: len(state.query_variants) - 1):
            made = {id(state): self.by_rule(state) for state in states}
            for state, kind, texts in await self._rewritten(states):
                made[id(state)] += self._variants_of(state, kind, texts)
            for state in states:
                state.query_variants += share_weight(made[id(state)])

    def by_rule(self, state: QueryState) -> list[QueryVariant]:
        """Make the variants that need no language model, from the question and what was read for it."""
        return [variant for kind in _kinds(state) if not is_written(kind) for variant in self._makers[kind](state)]

    async def _rewritten(self, states: Sequence[QueryState]) -> list[tuple[QueryState, Widening, list[str]]]:
        """Let the language model write what it shall."""
        asked = [(state, kind) for state in states for kind in _kinds(state) if is_written(kind)]
        if self._rewriter is not None:
            return await self._rewriter(asked, self._attempts)
        for state, kind in asked:
            state.notice(STAGE, NoticeKind.SKIPPED, f"no {kind.lower()}: set FREKI_LLM__URL and FREKI_LLM__MODEL")
        return []

    def _spelling(self, state: QueryState) -> Iterable[str]:
        language = state.analysis.language
        stems = {term for found in state.found for term in found.content.lexical.split()}

        def is_known(word: str) -> bool:
            """Tell whether it is a stop word, or the texts or a dictionary have it, in whatever inflection."""
            terms = [term for term in self._analyse_text(word, language=language).split() if not term.startswith("=")]
            return not terms or terms[0] in stems or is_word(word, language=language)

        return [corrected(state.query_variants[0].text, _vocabulary(state), is_known=is_known)]

    def _rule(
        self, kind: Widening, texts: Callable[[QueryState], Iterable[str]]
    ) -> Callable[[QueryState], Iterable[QueryVariant]]:
        return lambda state: self._variants_of(state, kind, texts(state))

    def _variants_of(self, state: QueryState, kind: Widening, texts: Iterable[str]) -> Iterator[QueryVariant]:
        """Make variants of texts; those that are empty, or the question itself, make none."""
        for text in texts:
            bounded = searchable_text(text)
            if bounded and bounded != state.query_variants[0].text:
                terms = self._analyse_text(bounded, language=state.analysis.language)
                yield QueryVariant(text=bounded, terms=terms, kind=kind)


def _kinds(state: QueryState) -> list[Widening]:
    """Give the kinds of variants that the first search calls for, each once."""
    kinds = list(dict.fromkeys(state.options.widen))
    # What users judged may have moved the order.
    scores = heapq.nlargest(PLACE, (each.fused for each in state.ranked))
    if state.options.widen_when is WidenWhen.ALWAYS or looks_weak(scores):
        return kinds
    # A word that nobody writes so is a sign of its own, and without one there is no such variant.
    return [kind for kind in kinds if kind is Widening.SPELLING]


def _statements(state: QueryState) -> Iterable[str]:
    return [as_statement(state.query_variants[0].text, language=state.analysis.language)]


def _synonyms(state: QueryState) -> Iterable[str]:
    return with_synonyms(state.query_variants[0].text, language=state.analysis.language)


def _compounds(state: QueryState) -> Iterable[str]:
    if state.analysis.language != "de":
        return ()
    question = state.query_variants[0].text
    return [with_joined(question, _vocabulary(state)), with_split(question, compound_parts)]


def _abbreviations(state: QueryState) -> Iterable[str]:
    question = state.query_variants[0].text
    definitions = [each for text in _read(state) for each in find_definitions(text)]
    return [spelt_out(question, definitions), made_short(question, definitions)]


def _terms(state: QueryState) -> Iterable[QueryVariant]:
    best = state.found[:FEEDBACK_TEXTS]
    terms = feedback_terms(
        state.query_variants[0].terms,
        [found.content.lexical for found in best],
        [max(0.0, found.fused) for found in best],
    )
    said = " ".join(dict.fromkeys(term for term in terms.split() if not term.startswith("=")))
    return [QueryVariant(text=said, terms=terms, kind=Widening.TERMS, embeds=False)] if terms else []


def _vector(state: QueryState) -> Iterable[QueryVariant]:
    question = state.query_variants[0]
    near = [found.vector for found in state.found[:FEEDBACK_VECTORS] if found.vector is not None]
    if question.vector is None or not near:
        return []
    moved = feedback_vector(question.vector, near)
    return [QueryVariant(text=question.text, terms="", kind=Widening.VECTOR, vector=moved)]


def _vocabulary(state: QueryState) -> Counter[str]:
    """Count the words of the texts that were read."""
    return Counter(word for text in _read(state) for word in _WORDS.findall(text))


def _read(state: QueryState) -> list[str]:
    """Give the texts that the first search found, with what places them; the asker may read all of them."""
    return [with_context(found.content.context, found.content.text) for found in state.found]


def share_weight(variants: Sequence[QueryVariant]) -> list[QueryVariant]:
    """Take the first of them, each text once, and share the weight of variants among them."""
    kept = list({(variant.text, variant.embeds, variant.terms): variant for variant in reversed(variants)}.values())[
        ::-1
    ][:MOST_VARIANTS]
    for variant in kept:
        variant.weight = VARIANTS_WEIGHT / len(kept)
    return kept
