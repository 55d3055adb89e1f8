"""All questions that documents answer, without those that another document answers too."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from freki.operators.propose_questions.definitions import (
    TermCandidate,
    abbreviation_candidates,
    definition_candidates,
)
from freki.operators.propose_questions.headings import HeadingCandidate, heading_candidates
from freki.operators.propose_questions.source import Proposal, ProposalDocument
from freki.operators.propose_questions.words import content_stems
from freki.schemas import DocumentId
from freki.schemas.evaluation import Origin

LEAST_ANSWERING: Final = 2
ANSWERING: Final = 0.05
"""Documents, at least 2 or this share of all, that may hold all specific words of a heading: where more do, a right
answer from another one would count as wrong."""
LEAST_USING: Final = 5
USING: Final = 0.3
"""Documents, at least 5 or this share of all, that may use a term: one that more use is a word of every day."""

REPEATED = "headings that stand in several places"
CONTAINED = "headings whose words are in another heading"
COMMON = "headings whose words are in too many documents"
EVERYDAY = "terms that many documents use"
SEVERAL = "terms that several documents define"
AMBIGUOUS = "questions that several documents answer"


class Proposals(NamedTuple):
    """Proposed questions, and how many were left out for which reason."""

    questions: tuple[Proposal, ...]
    """In the order of their documents; no two are equal but for case and white space."""
    left_out: Counter[str]


def propose_questions(documents: Sequence[ProposalDocument]) -> Proposals:
    """Return questions from headings, definitions and abbreviations, each of which one document answers.

    A heading is left out if its words say nothing outside of its document, stand in another heading that is not below
    it, or all occur in more than 2 documents and 5 % of all; a term, if another document defines it too, or if more
    than 5 documents and 30 % of all use it.
    """
    left_out: Counter[str] = Counter()
    headings = [each for document in documents for each in heading_candidates(document, left_out)]
    terms = [
        each
        for document in documents
        for candidates in (definition_candidates, abbreviation_candidates)
        for each in candidates(document, left_out)
    ]
    found = [
        *_distinct(headings, documents, left_out),
        *_defined_once(terms, documents, left_out),
    ]
    places = {document.document_id: place for place, document in enumerate(documents)}
    found.sort(key=lambda each: places[each.document_id])
    return Proposals(tuple(without_ambiguous(found, left_out)), left_out)


def without_ambiguous(
    proposals: Iterable[Proposal], left_out: Counter[str], *, taken: Mapping[str, DocumentId] | None = None
) -> list[Proposal]:
    """Return the proposals whose question no other document answers; of equal ones about one document the first.

    taken: documents of questions that exist, by `Proposal.key`.
    """
    asked: defaultdict[str, set[DocumentId]] = defaultdict(set)
    for key, document_id in (taken or {}).items():
        asked[key].add(document_id)
    proposals = list(proposals)
    for each in proposals:
        asked[each.key].add(each.document_id)
    kept: dict[str, Proposal] = {}
    for each in proposals:
        if len(asked[each.key]) > 1:
            left_out[AMBIGUOUS] += 1
        else:
            kept.setdefault(each.key, each)
    return list(kept.values())


def _distinct(
    candidates: Sequence[HeadingCandidate], documents: Sequence[ProposalDocument], left_out: Counter[str]
) -> list[Proposal]:
    headings = [each for each in candidates if each.proposal.origin is Origin.HEADING]
    found = [each.proposal for each in candidates if each.proposal.origin is Origin.FAQ]
    holding = _holding({stem for each in headings for stem in each.specific}, documents)
    by_stem: defaultdict[str, list[HeadingCandidate]] = defaultdict(list)
    for each in headings:
        for one in each.stems:
            by_stem[one].append(each)
    limit = max(LEAST_ANSWERING, int(ANSWERING * len(documents)))
    for each in headings:
        rarest = min(each.stems, key=lambda one: (len(by_stem[one]), one))
        others = [other for other in by_stem[rarest] if each.stems <= other.stems and not _is_within(other, each)]
        if any(other.stems == each.stems for other in others):
            left_out[REPEATED] += 1
        elif others:
            left_out[CONTAINED] += 1
        elif len(frozenset.intersection(*(holding[one] for one in each.specific))) > limit:
            left_out[COMMON] += 1
        else:
            found.append(each.proposal)
    return found


def _is_within(one: HeadingCandidate, other: HeadingCandidate) -> bool:
    """Return whether a section is another one, or below it."""
    same = one.proposal.document_id == other.proposal.document_id
    return same and other.start <= one.start and one.end <= other.end


def _holding(stems: set[str], documents: Sequence[ProposalDocument]) -> dict[str, frozenset[DocumentId]]:
    """Return the documents that hold each stem, in headings or text."""
    found: defaultdict[str, set[DocumentId]] = defaultdict(set)
    for document in documents:
        texts = [*(each.title for each in document.headings), *(each.text for each in document.passages)]
        for one in stems & content_stems("\n".join(texts)):
            found[one].add(document.document_id)
    return {one: frozenset(found[one]) for one in stems}


def _defined_once(
    terms: Sequence[TermCandidate], documents: Sequence[ProposalDocument], left_out: Counter[str]
) -> list[Proposal]:
    defining: defaultdict[str, set[DocumentId]] = defaultdict(set)
    for each in terms:
        defining[each.term].add(each.proposal.document_id)
    stems = {each.term: content_stems(each.term) for each in terms}
    holding = _holding({one for found in stems.values() for one in found}, documents)
    limit = max(LEAST_USING, int(USING * len(documents)))
    found = []
    for each in terms:
        using = [holding[one] for one in stems[each.term]]
        if len(defining[each.term]) > 1:
            left_out[SEVERAL] += 1
        elif using and len(frozenset.intersection(*using)) > limit:
            left_out[EVERYDAY] += 1
        else:
            found.append(each.proposal)
    return found
