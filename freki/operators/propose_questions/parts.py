"""Division of questions into tuning and test, by document."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

from freki.operators.propose_questions.source import ProposalDocument, digest
from freki.schemas import DocumentId
from freki.schemas.evaluation import SetPart

SHARED: Final = 0.5
"""Share of the sentences of the shorter document from which on two documents are near-copies."""
_LEAST_SENTENCE: Final = 40
"""Characters of a sentence that is compared: shorter ones are formulas."""
_BOILERPLATE: Final = 20
"""Documents with the same sentence above which it is boilerplate: not compared, and pairs do not grow squared."""
_DIGITS = re.compile(r"\d+")


def near_copies(documents: Sequence[ProposalDocument]) -> dict[DocumentId, DocumentId]:
    """Return for each document the one that stands for it and its near-copies: the smallest id among them.

    Near-copies share half of the sentences of the shorter one, without case and numbers; copies of copies belong
    together.
    """
    sentences = {document.document_id: _sentences(document) for document in documents}
    holders: defaultdict[str, list[DocumentId]] = defaultdict(list)
    for document_id, held in sentences.items():
        for sentence in held:
            holders[sentence].append(document_id)
    shared: Counter[tuple[DocumentId, DocumentId]] = Counter()
    for names in holders.values():
        if len(names) <= _BOILERPLATE:
            shared.update(combinations(sorted(names), 2))
    above = {document_id: document_id for document_id in sentences}

    def root(document_id: DocumentId) -> DocumentId:
        while above[document_id] != document_id:
            document_id = above[document_id]
        return document_id

    for (one, other), count in sorted(shared.items()):
        if count >= SHARED * min(len(sentences[one]), len(sentences[other])):
            first, second = sorted((root(one), root(other)))
            above[second] = first
    return {document_id: root(document_id) for document_id in sentences}


def part_of(
    document_id: DocumentId, groups: Mapping[DocumentId, DocumentId], known: Mapping[DocumentId, SetPart]
) -> SetPart:
    """Return the part of all questions of a document: half of the documents are in each, by a hash of the id.

    A document in `known` keeps its part, and its near-copies get the same; else the id of the group decides, so that
    sets made from the same documents agree.
    """
    if document_id in known:
        return known[document_id]
    group = groups.get(document_id, document_id)
    for member in sorted(known):
        if groups.get(member, member) == group:
            return known[member]
    return SetPart.TUNING if int(digest("part", group)[0], 16) % 2 else SetPart.TEST


def _sentences(document: ProposalDocument) -> frozenset[str]:
    plain = (_DIGITS.sub("0", sentence.casefold()) for passage in document.passages for sentence in passage.sentences())
    return frozenset(digest(each)[:16] for each in plain if len(each) >= _LEAST_SENTENCE)
