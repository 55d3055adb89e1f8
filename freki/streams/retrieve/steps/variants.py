"""Make variants of a query by rules: the same query in other words, or its vector moved."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from freki.operators.analyse_query import searchable_text
from freki.operators.analyse_text.compounds import compound_parts
from freki.operators.breadcrumb import with_context
from freki.operators.define import find_definitions
from freki.operators.rephrase import (
    Thesaurus,
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
from freki.schemas import Widening
from freki.streams.ports import AnalyseText
from freki.streams.retrieve.candidates import LoadedCandidates
from freki.streams.retrieve.parsed_query import BY_TERMS, EmbeddedQuery, ParsedQuery
from freki.streams.retrieve.search_result import QueryVariant

VARIANTS_WEIGHT = 0.5
"""Weight of all variants together in the fusion; that of the query itself is 1."""
MAX_VARIANTS = 12
FEEDBACK_TEXTS = 10
"""Best texts whose terms become a variant."""
FEEDBACK_VECTORS = 5
"""Best texts towards which the vector of the query is moved."""
_WORDS = re.compile(r"[^\W\d_]+")

Rule = Callable[[EmbeddedQuery, LoadedCandidates], Iterable[str]]


class VariantMaker:
    """Makes variants with the analyser of the index."""

    def __init__(self, analyse_text: AnalyseText, thesaurus: Thesaurus) -> None:
        self._analyse_text = analyse_text
        self._thesaurus = thesaurus
        self._rules: Mapping[Widening, Rule] = {
            Widening.STATEMENT: _statements,
            Widening.SYNONYMS: self._synonyms,
            Widening.COMPOUNDS: _compounds,
            Widening.ABBREVIATIONS: _abbreviations,
            Widening.SPELLING: self._spelling,
        }

    def by_rule(self, query: EmbeddedQuery, candidates: LoadedCandidates, kind: Widening) -> list[QueryVariant]:
        """Make the variants of a kind that needs no language model, from the query and the texts found for it."""
        match kind:
            case Widening.TERMS:
                return _terms(query, candidates)
            case Widening.VECTOR:
                return _vector(query, candidates)
            case _:
                return list(self.of_texts(query, kind, self._rules[kind](query, candidates)))

    def of_texts(self, query: ParsedQuery, kind: Widening, texts: Iterable[str]) -> Iterator[QueryVariant]:
        """Make variants of texts, without empty ones and the query itself."""
        for text in texts:
            bounded = searchable_text(text)
            if bounded and bounded != query.text:
                terms = self._analyse_text(bounded, language=query.analysis.language)
                yield QueryVariant(text=bounded, terms=terms, kind=kind)

    def _synonyms(self, query: EmbeddedQuery, _: LoadedCandidates) -> Iterable[str]:
        """Prefer the terms of the domain: what general dictionaries say of the other words would dilute them."""
        language = query.analysis.language
        return self._thesaurus.variants(query.text, language=language) or with_synonyms(query.text, language=language)

    def _spelling(self, query: EmbeddedQuery, candidates: LoadedCandidates) -> Iterable[str]:
        language = query.analysis.language

        @cache
        def stems() -> set[str]:
            return {term for each in candidates.found for term in each.row.lexical.split()}

        def is_known(word: str) -> bool:
            """Return whether a word is a stop word, or stands in a dictionary or the texts in any inflection."""
            if is_word(word, language=language):
                return True
            terms = [term for term in self._analyse_text(word, language=language).split() if not term.startswith("=")]
            return not terms or terms[0] in stems()

        return [corrected(query.text, lambda: _vocabulary(candidates), is_known=is_known)]


def of_kind(query: ParsedQuery, variants: Iterable[QueryVariant]) -> list[QueryVariant]:
    """Return variants as the kind of a query is searched for: by words alone, by vectors alone, or both."""
    by_terms = query.query.kind in BY_TERMS
    own = (
        replace(each, terms=each.terms if by_terms else "", embeds=each.embeds and query.is_embedded)
        for each in variants
    )
    return [each for each in own if each.terms or each.embeds]


def share_weight(variants: Sequence[QueryVariant]) -> list[QueryVariant]:
    """Return the first of different variants, with equal parts of the weight of variants."""
    different = {(each.text, each.embeds, each.terms): each for each in reversed(variants)}
    kept = list(different.values())[::-1][:MAX_VARIANTS]
    return [replace(each, weight=VARIANTS_WEIGHT / len(kept)) for each in kept]


def _statements(query: EmbeddedQuery, _: LoadedCandidates) -> Iterable[str]:
    return [as_statement(query.text, language=query.analysis.language)]


def _compounds(query: EmbeddedQuery, candidates: LoadedCandidates) -> Iterable[str]:
    if query.analysis.language != "de":
        return ()
    return [with_joined(query.text, _vocabulary(candidates)), with_split(query.text, compound_parts)]


def _abbreviations(query: EmbeddedQuery, candidates: LoadedCandidates) -> Iterable[str]:
    definitions = [each for text in _texts(candidates) for each in find_definitions(text)]
    return [spelt_out(query.text, definitions), made_short(query.text, definitions)]


def _terms(query: EmbeddedQuery, candidates: LoadedCandidates) -> list[QueryVariant]:
    best = candidates.found[:FEEDBACK_TEXTS]
    terms = feedback_terms(
        query.analysis.lexical, [each.row.lexical for each in best], [max(0.0, each.fused) for each in best]
    )
    text = " ".join(dict.fromkeys(term for term in terms.split() if not term.startswith("=")))
    return [QueryVariant(text=text, terms=terms, kind=Widening.TERMS, embeds=False)] if terms else []


def _vector(query: EmbeddedQuery, candidates: LoadedCandidates) -> list[QueryVariant]:
    near = [each.vector for each in candidates.found[:FEEDBACK_VECTORS]]
    if query.vector is None or not near:
        return []
    moved = feedback_vector(query.vector, near)
    return [QueryVariant(text=query.text, terms="", kind=Widening.VECTOR, vector=moved)]


def _vocabulary(candidates: LoadedCandidates) -> Counter[str]:
    """Count the words of the texts that were found."""
    return Counter(_WORDS.findall("\n".join(_texts(candidates))))


def _texts(candidates: LoadedCandidates) -> list[str]:
    """Return the texts that were found, with their context; the principals may read all of them."""
    return [with_context(each.row.context, each.row.text) for each in candidates.found]
