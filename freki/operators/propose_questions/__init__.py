"""Questions that documents answer, from their own words, with what a good answer holds.

source       what is read of a document, and what is proposed
words        words without meaning of their own, and the stems of the others
headings     questions from headings
definitions  questions from sentences that define a term, and from abbreviations
propose      all of them, without those that another document answers too
choose       a sample, spread over documents and origins
parts        division into tuning and test
"""

from freki.operators.propose_questions.choose import choose, choose_passages
from freki.operators.propose_questions.headings import section_of
from freki.operators.propose_questions.parts import divide, near_copies
from freki.operators.propose_questions.propose import propose_questions, without_ambiguous
from freki.operators.propose_questions.source import (
    Proposal,
    ProposalDocument,
    ProposalHeading,
    ProposalPassage,
    SampleLimits,
    proposal_id,
    question_key,
)

__all__ = [
    "Proposal",
    "ProposalDocument",
    "ProposalHeading",
    "ProposalPassage",
    "SampleLimits",
    "choose",
    "choose_passages",
    "divide",
    "near_copies",
    "proposal_id",
    "propose_questions",
    "question_key",
    "section_of",
    "without_ambiguous",
]
