"""Marks of a question's words in the hits of its answer, by the analyser that found them."""

from freki.operators.analyse_text import query_terms, term_places
from freki.operators.mark import mark
from freki.schemas import ContextHit, ContextResult
from freki.schemas.answer_marks import HitMarks, Spans

_GAP = "\n\n"


def marks_of(question: str, result: ContextResult) -> list[HitMarks]:
    """Return where the question's words stand in each hit, in whatever form: `Kündigung` also in `Kündigungsfrist`."""
    language = result.analysis.language if result.analysis else "und"
    terms = frozenset(query_terms(question, language=language).split())
    return [_marks(hit, terms) for hit in result.hits]


def _marks(hit: ContextHit, terms: frozenset[str]) -> HitMarks:
    section, start = _section_of(hit)
    return HitMarks(
        rank=hit.rank,
        text=_spans(hit.text, hit.language, terms),
        around=_spans(section, hit.language, terms),
        section=section,
        hit=(start, start + len(hit.text)) if section else (0, 0),
    )


def _section_of(hit: ContextHit) -> tuple[str, int]:
    """Return the text around a hit with the hit in it, and where the hit begins there."""
    if hit.parent is not None and (start := hit.parent.text.find(hit.text)) >= 0:
        return ("", 0) if hit.parent.text == hit.text else (hit.parent.text, start)
    before = "".join(f"{part.text}{_GAP}" for part in hit.before)
    after = "".join(f"{_GAP}{part.text}" for part in hit.after)
    return (f"{before}{hit.text}{after}", len(before)) if before or after else ("", 0)


def _spans(text: str, language: str, terms: frozenset[str]) -> Spans:
    places = ((place.start, place.end, place.terms.split()) for place in term_places(text, language=language))
    return tuple((start, end) for start, end in mark(places, terms))
