"""Evaluation: metrics of answers, and comparison of configurations.

figures    definitions of the metrics
overlap    agreement of two rankings
rank       hits to a ranking of documents
judge      metrics of rankings and contexts, by question
summarise  means with confidence intervals
compare    paired comparison of two configurations
gain       paired comparison over several sets of equal weight
cost       paired comparison of latencies
tune       selection of the value of an option, with cross-validation
share      a share of recorded queries
shorten    questions as keyword queries
"""

from freki.operators.evaluate.compare import Comparison, compare, most_changed
from freki.operators.evaluate.cost import Cost, cost_of
from freki.operators.evaluate.figures import FIGURES, Figure
from freki.operators.evaluate.gain import Gain, QuestionKey, gain_of, interval_over_sets, less, mean_over_sets
from freki.operators.evaluate.judge import false_positives, judge_rankings, place_in_sections, share_found, stands_in
from freki.operators.evaluate.overlap import Overlap, overlap
from freki.operators.evaluate.rank import RankedDocument, rank_documents
from freki.operators.evaluate.share import is_in_share
from freki.operators.evaluate.shorten import document_frequencies, shorten
from freki.operators.evaluate.summarise import Mean, mean_of, summarise
from freki.operators.evaluate.tune import Choice, TuningVerdict, choose, cross_validate, first_part, folds_of, survivors

__all__ = [
    "FIGURES",
    "Choice",
    "Comparison",
    "Cost",
    "Figure",
    "Gain",
    "Mean",
    "Overlap",
    "QuestionKey",
    "RankedDocument",
    "TuningVerdict",
    "choose",
    "compare",
    "cost_of",
    "cross_validate",
    "document_frequencies",
    "false_positives",
    "first_part",
    "folds_of",
    "gain_of",
    "interval_over_sets",
    "is_in_share",
    "judge_rankings",
    "less",
    "mean_of",
    "mean_over_sets",
    "most_changed",
    "overlap",
    "place_in_sections",
    "rank_documents",
    "share_found",
    "shorten",
    "stands_in",
    "summarise",
    "survivors",
]
