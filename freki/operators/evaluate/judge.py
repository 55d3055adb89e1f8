"""Metrics of answers, by question."""

import unicodedata
from collections.abc import Mapping, Sequence

from freki.operators.evaluate.figures import FAILED, MRR, NDCG, RECALL_10, RECALL_100
from freki.schemas import ContextHit, DocumentId

Judgements = Mapping[DocumentId, int]
CUTOFF_FAILED = 20
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
"""Soft hyphens, and spaces without width: texts of the web and of word processors have them within words."""


def judge_rankings(
    rankings: Mapping[str, Sequence[DocumentId]], judgements: Mapping[str, Judgements]
) -> dict[str, dict[str, float]]:
    """Return nDCG@10, MRR, Recall@10, Recall@100 and failed@20 of each question that has a relevant document.

    rankings: documents by question, best first; a missing or empty one gets the worst values. A grade above 0 is
    relevant; unjudged documents are not relevant. Gains are the grades, as in trec_eval.
    Source: Järvelin and Kekäläinen, TOIS 2002, doi:10.1145/582415.582418 (nDCG), computed by ir-measures.
    """
    from ir_measures import RR, Qrel, R, ScoredDoc, Success, iter_calc, nDCG  # noqa: PLC0415 - in the extra `eval`

    measures = {nDCG @ 10: NDCG, RR: MRR, R @ 10: RECALL_10, R @ 100: RECALL_100, Success @ CUTOFF_FAILED: FAILED}
    asked = {name: graded for name, graded in judgements.items() if any(grade > 0 for grade in graded.values())}
    found = {name: dict.fromkeys(measures.values(), 0.0) for name in asked}
    qrels = [Qrel(name, document, grade) for name, graded in asked.items() for document, grade in graded.items()]
    # Scores by rank only: rankings need not be sorted by their own scores.
    run = [
        ScoredDoc(name, document, float(-place))
        for name in asked
        for place, document in enumerate(rankings.get(name, ()))
    ]
    for metric in iter_calc(list(measures), qrels, run) if run else ():
        found[metric.query_id][measures[metric.measure]] = float(metric.value)
    for figures in found.values():
        figures[FAILED] = 1.0 - figures[FAILED]
    return found


def false_positives(hits: Sequence[ContextHit], judgements: Judgements, *, threshold: float) -> float | None:
    """Return the share of hits scored at or above the threshold whose document is judged 0 or not judged.

    None where there is none. Only meaningful for calibrated scores in 0..1, so hits without reranker score are left
    out.
    """
    passed = [hit for hit in hits if hit.rerank_score is not None and hit.score >= threshold]
    if not passed:
        return None
    return sum(judgements.get(hit.document_id, 0) <= 0 for hit in passed) / len(passed)


def place_in_sections(hits: Sequence[ContextHit], sections: Mapping[DocumentId, Sequence[str]]) -> int | None:
    """Return the 1-based rank of the first hit in an expected section; None where there is none.

    sections: headings by document, or prefixes of whole words: `§ 5` matches `§ 5 Stammkapital`, not `§ 57`.
    """
    return next(
        (
            place
            for place, hit in enumerate(hits, start=1)
            if stands_in(hit.heading_path, sections.get(hit.document_id, ()))
        ),
        None,
    )


def stands_in(heading_path: Sequence[str], expected: Sequence[str]) -> bool:
    """Return whether a text stands in an expected section; expected: headings, or prefixes of whole words.

    Compared as `share_found` compares, but with case.
    """
    return any(
        f"{_visible(heading)} ".startswith(f"{_visible(each)} ") for heading in heading_path for each in expected
    )


def share_found(texts: Sequence[str], context: str) -> float:
    """Return the share of texts contained in the context, ignoring case, white space, and what nobody sees.

    Raises ValueError if there is no text.
    """
    if not texts:
        raise ValueError("a share of no texts is not defined")
    held = _folded(context)
    return sum(_folded(text) in held for text in texts) / len(texts)


def _folded(text: str) -> str:
    return _visible(text.casefold())


def _visible(text: str) -> str:
    """Return a text as a person would type it: letters composed, without soft hyphens, white space as single spaces."""
    return " ".join(unicodedata.normalize("NFC", text.translate(_INVISIBLE)).split())
