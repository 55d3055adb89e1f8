"""What is read of a document, and what is proposed."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import pairwise

from freki.schemas import ChunkKind, Definition, DocumentId
from freki.schemas.evaluation import Origin
from freki.schemas.names import record
from freki.schemas.outline import one_line

_BORDER = re.compile(r"\n[ \t]*\n\s*|\n(?=[ \t]*(?:[-*•]|\d{1,3}[a-z]?[.)]|[a-z]{1,2}\))[ \t])|(?<=\|)[ \t]*\n")
"""Ends of paragraphs, items and rows."""
MARK = r"(?:(?P<number>\d{1,3}[a-z]?[.)])|(?P<letter>[a-z]{1,2}\))|(?P<bullet>[-*•–]))"
"""Mark of an item of a list."""
_MARK = re.compile(MARK)
GERMAN = "de"
ENGLISH = "en"


@record
class ProposalPassage:
    """A chunk as it is indexed; together, in order, they are the text of their document."""

    start: int
    """Offset in the document, in code points."""
    text: str
    kind: ChunkKind
    heading_path: tuple[str, ...]
    sentence_starts: tuple[int, ...] = ()
    """Offsets in `text`, ascending, at which a sentence begins; 0 may be left out."""

    @property
    def end(self) -> int:
        """Offset of the end, half-open."""
        return self.start + len(self.text)

    def sentences(self) -> Iterator[str]:
        """Yield the sentences and items, these with their marks, on one line each; nothing else is changed."""
        borders = (match.end() for match in _BORDER.finditer(self.text))
        edges = sorted({0, *self.sentence_starts, *borders, len(self.text)})
        # A number with its dot looks like a sentence.
        mark = ""
        for start, end in pairwise(edges):
            sentence = one_line(f"{mark} {self.text[start:end]}")
            mark = sentence if _MARK.fullmatch(sentence) else ""
            if sentence and not mark:
                yield sentence


@record
class ProposalHeading:
    """A heading of a document."""

    start: int
    """Offset in the document, in code points."""
    level: int
    """1 is outermost."""
    title: str
    """On one line."""


@record
class ProposalDocument:
    """A document as far as questions are made from it."""

    document_id: DocumentId
    language: str
    """ISO 639-1, or `und`."""
    characters: int
    """Length of the text in code points."""
    headings: tuple[ProposalHeading, ...]
    """In reading order."""
    passages: tuple[ProposalPassage, ...]
    """In reading order, disjoint."""
    abbreviations: tuple[Definition, ...] = ()


@record
class SampleLimits:
    """How many questions are drawn."""

    per_document: int
    """Maximum number about a document, together with those in `existing`."""
    most: int
    """Maximum number to draw."""
    seed: int
    existing: Mapping[DocumentId, int] = field(default_factory=dict)
    """Number of questions that documents have already."""

    def __post_init__(self) -> None:
        """Raise ValueError for limits below 0."""
        if self.per_document < 0 or self.most < 0:
            raise ValueError(f"limits must be at least 0, got {self.per_document} and {self.most}")


@record
class Proposal:
    """A question that one document answers."""

    question: str
    document_id: DocumentId
    origin: Origin
    sections: tuple[str, ...] = ()
    """Headings of the section that answers it, as chunks have them; empty: the whole document does."""
    spans: tuple[str, ...] = ()
    """Words of the document that answer it, on one line."""

    @property
    def key(self) -> str:
        """Decides whether two questions are the same."""
        return question_key(self.question)


def question_key(question: str) -> str:
    """Return a question without case and white space."""
    return " ".join(question.casefold().split())


def proposal_id(proposal: Proposal) -> str:
    """Return the id of a question about a document, 10 hexadecimal digits; it depends on nothing else."""
    return digest(proposal.document_id, proposal.key)[:10]


def digest(*parts: str) -> str:
    """Return a hash in hexadecimal digits, by which samples are drawn."""
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
