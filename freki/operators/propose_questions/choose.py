"""A sample of questions, spread over documents and origins."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from freki.operators.propose_questions.source import (
    Proposal,
    ProposalDocument,
    ProposalPassage,
    SampleLimits,
    digest,
)
from freki.schemas import ChunkKind, DocumentId
from freki.schemas.evaluation import Origin

LEAST_PASSAGE = 200
"""Characters of a passage that a question is written for: a shorter one seldom says anything by itself."""
_ORIGINS = tuple(Origin)


def choose(proposals: Sequence[Proposal], limits: SampleLimits) -> list[Proposal]:
    """Return the proposals within the limits.

    Each document gives one before any gives another, of the origin with the fewest so far. Documents and proposals are
    drawn by a hash with the seed, so that the same seed gives the same, in any order of the input. Returned in the
    order of the input.
    """
    waiting: dict[DocumentId, list[Proposal]] = defaultdict(list)
    for each in sorted(proposals, key=lambda each: digest(str(limits.seed), each.document_id, each.key)):
        waiting[each.document_id].append(each)
    order = sorted(waiting, key=lambda document_id: digest(str(limits.seed), document_id))
    counts: Counter[Origin] = Counter()
    chosen: set[tuple[DocumentId, str]] = set()
    for turn in range(limits.per_document):
        for document_id in order:
            rest = waiting[document_id]
            if not rest or turn < limits.existing.get(document_id, 0) or len(chosen) == limits.most:
                continue
            taken = min(rest, key=lambda each: (counts[each.origin], _ORIGINS.index(each.origin)))
            rest.remove(taken)
            counts[taken.origin] += 1
            chosen.add((document_id, taken.key))
    return [each for each in proposals if (each.document_id, each.key) in chosen]


def choose_passages(
    documents: Sequence[ProposalDocument], limits: SampleLimits
) -> list[tuple[ProposalDocument, ProposalPassage]]:
    """Return passages of prose or lists within the limits, and of each document at most half of what it may give.

    Drawn by a hash with the seed, in the order of that hash, one of each document first.
    """
    share = (limits.per_document + 1) // 2
    drawn: list[tuple[int, str, ProposalDocument, ProposalPassage]] = []
    for document in documents:
        room = min(share, limits.per_document - limits.existing.get(document.document_id, 0))
        usable = [
            each
            for each in document.passages
            if each.kind in {ChunkKind.PROSE, ChunkKind.LIST} and len(each.text) >= LEAST_PASSAGE
        ]
        usable.sort(key=lambda each: digest(str(limits.seed), document.document_id, str(each.start)))
        order = digest(str(limits.seed), document.document_id)
        drawn += [(turn, order, document, each) for turn, each in enumerate(usable[: max(0, room)])]
    drawn.sort(key=lambda each: each[:2])
    return [(document, passage) for _, _, document, passage in drawn[: limits.most]]
