"""Division of questions into tuning and test, by document."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
_HALF: Final = 8
"""Of the 16 values of a hexadecimal digit."""
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


def divide(
    document_ids: Iterable[DocumentId],
    groups: Mapping[DocumentId, DocumentId],
    known: Mapping[DocumentId, SetPart],
) -> dict[DocumentId, SetPart]:
    """Return the part of all questions of each document: about half of the documents are in each.

    groups: as `near_copies` returns them; a group stays together. known: documents that have a part, which they keep
    and their near-copies get. For others a hash of the group decides, so that sets made from the same documents agree;
    where that leaves a part without any document, one group moves there.
    """
    of_group = {groups.get(name, name): part for name, part in sorted(known.items(), reverse=True)}
    own = {name: groups.get(name, name) for name in document_ids}
    drawn = sorted(set(own.values()) - set(of_group), key=lambda group: digest("part", group))
    of_group |= {
        group: SetPart.TUNING if int(digest("part", group)[0], 16) < _HALF else SetPart.TEST for group in drawn
    }
    parts = set(of_group.values())
    if len(parts) == 1 and len(of_group) > 1 and drawn:
        moved = drawn[-1] if parts == {SetPart.TUNING} else drawn[0]
        (moved_to,) = set(SetPart) - parts
        of_group[moved] = moved_to
    return {name: known.get(name, of_group[group]) for name, group in own.items()}


def _sentences(document: ProposalDocument) -> frozenset[str]:
    plain = (_DIGITS.sub("0", sentence.casefold()) for passage in document.passages for sentence in passage.sentences())
    return frozenset(digest(each)[:16] for each in plain if len(each) >= _LEAST_SENTENCE)
