"""Answers become figures, figures of two configurations a comparison.

figures    what is measured, and which way is better
rank       hits become a ranking of documents
judge      rankings and contexts against what is known of the answers
summarise  figures of questions become means with intervals
compare    the same questions, asked twice
gain       the same over several sets, each counting as much
cost       the same in milliseconds
tune       which value of an option is chosen, and what choosing so is worth
shorten    questions as people type them into a search field
"""

from freki.operators.evaluate.compare import Change, Comparison, compare, most_changed
from freki.operators.evaluate.cost import Cost, cost_of
from freki.operators.evaluate.figures import FIGURES, Figure
from freki.operators.evaluate.gain import Asked, Gain, gain_of, interval_over_sets, less, mean_over_sets
from freki.operators.evaluate.judge import false_positives, judge_rankings, place_in_sections, share_found
from freki.operators.evaluate.rank import RankedDocument, first_relevant, rank_documents
from freki.operators.evaluate.shorten import document_frequencies, shorten
from freki.operators.evaluate.summarise import Mean, mean_of, summarise
from freki.operators.evaluate.tune import Choice, TuningVerdict, choose, cross_validate, first_part, folds_of, survivors

__all__ = [
    "FIGURES",
    "Asked",
    "Change",
    "Choice",
    "Comparison",
    "Cost",
    "Figure",
    "Gain",
    "Mean",
    "RankedDocument",
    "TuningVerdict",
    "choose",
    "compare",
    "cost_of",
    "cross_validate",
    "document_frequencies",
    "false_positives",
    "first_part",
    "first_relevant",
    "folds_of",
    "gain_of",
    "interval_over_sets",
    "judge_rankings",
    "less",
    "mean_of",
    "mean_over_sets",
    "most_changed",
    "place_in_sections",
    "rank_documents",
    "share_found",
    "shorten",
    "summarise",
    "survivors",
]
