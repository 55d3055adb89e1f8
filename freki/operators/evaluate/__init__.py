"""Answers become figures, figures of two configurations a comparison.

figures    what is measured, and which way is better
rank       hits become a ranking of documents
judge      rankings and contexts against what is known of the answers
summarise  figures of questions become means with intervals
compare    the same questions, asked twice
"""

from freki.operators.evaluate.compare import Change, Comparison, compare, most_changed
from freki.operators.evaluate.figures import FIGURES, Figure
from freki.operators.evaluate.judge import false_positives, judge_rankings, share_found
from freki.operators.evaluate.rank import RankedDocument, first_relevant, rank_documents
from freki.operators.evaluate.summarise import Mean, mean_of, summarise

__all__ = [
    "FIGURES",
    "Change",
    "Comparison",
    "Figure",
    "Mean",
    "RankedDocument",
    "compare",
    "false_positives",
    "first_relevant",
    "judge_rankings",
    "mean_of",
    "most_changed",
    "rank_documents",
    "share_found",
    "summarise",
]
