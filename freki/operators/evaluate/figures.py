"""Definitions of the metrics. All are means over questions, in 0..1."""

from freki.schemas.names import record


@record
class Figure:
    """A metric, with its name and explanation in reports."""

    name: str
    higher_is_better: bool
    meaning: str


NDCG = "nDCG@10"
MRR = "MRR"
RECALL_10 = "Recall@10"
RECALL_100 = "Recall@100"
FAILED = "failed@20"
EMPTY = "empty answers"
FALSE_POSITIVES = "false positives"
SPANS = "spans quoted"
FACTS = "facts found"
HIT_1 = "hit@1"
HIT_5 = "hit@5"

FIGURES = (
    Figure(name=NDCG, higher_is_better=True, meaning="relevant documents stand early among the first 10, by grade"),
    Figure(name=MRR, higher_is_better=True, meaning="1 / place of the first relevant document"),
    Figure(name=RECALL_10, higher_is_better=True, meaning="share of the relevant documents among the first 10"),
    Figure(name=RECALL_100, higher_is_better=True, meaning="share of the relevant documents among the first 100"),
    Figure(name=FAILED, higher_is_better=False, meaning="no relevant document among the first 20"),
    Figure(name=EMPTY, higher_is_better=False, meaning="nothing was found, though something is there"),
    Figure(
        name=FALSE_POSITIVES,
        higher_is_better=False,
        meaning="share of the hits at or above the threshold whose document is judged 0 or not judged; "
        "0 where nothing answers the question, and no hit is",
    ),
    Figure(name=SPANS, higher_is_better=True, meaning="share of the expected quotations in the context text"),
    Figure(name=FACTS, higher_is_better=True, meaning="share of the expected facts in the context text"),
    Figure(name=HIT_1, higher_is_better=True, meaning="the first hit stands in an expected section"),
    Figure(name=HIT_5, higher_is_better=True, meaning="one of the first 5 hits stands in an expected section"),
)
"""Metrics in the order of reports; questions of a set are compared by the first one that it has."""
