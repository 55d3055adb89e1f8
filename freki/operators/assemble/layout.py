"""How chosen texts stand in the context: by document, in reading order, each text under its citation."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from freki.operators.assemble.cite import harmless, label
from freki.operators.assemble.units import LONGEST_BREAK
from freki.schemas import ChunkKind, ContextExpansion, ContextHit, DocumentId

GAP = "\n[…]\n"

Cited = ContextHit | ContextExpansion


class TextSpan(NamedTuple):
    """A span of a document's text that is shown."""

    start: int
    end: int
    text: str


class Begin(NamedTuple):
    """Where a chunk is cited; in the order of the text."""

    at: int
    has_place: bool
    """Summaries come first."""
    number: int
    chunk: Cited


class CitedPassage(NamedTuple):
    """Pieces of a document without a gap between, and what is cited in them, both in reading order."""

    pieces: list[TextSpan]
    cited: list[Begin]


def number_of(chunk: Cited) -> int:
    """Return the number in its citation."""
    return chunk.rank if isinstance(chunk, ContextHit) else chunk.number


def is_summary(chunk: Cited) -> bool:
    """Return whether its text has no place in the document."""
    return isinstance(chunk, ContextHit) and chunk.kind is ChunkKind.SUMMARY


def headings_of(chunk: Cited) -> str:
    """Return the headings above it as one line."""
    return " > ".join(label(heading) for heading in chunk.heading_path if heading.strip())


def head_of(chunk: Cited) -> str:
    """Return what stands above its text where it begins a passage."""
    headings = headings_of(chunk)
    return f"{chunk.citation}\n{headings}\n" if headings else f"{chunk.citation}\n"


def lay_out(cited: Sequence[Cited], shown: Mapping[DocumentId, Sequence[TextSpan]]) -> tuple[str, list[Cited]]:
    """Put documents in the order in which they are cited first, and the text of each in reading order.

    shown: disjoint pieces. Text without a gap is one passage; within it each citation stands on a line of its own
    where its chunk begins, but the first one at the beginning. `[…]` stands where text was skipped and nothing is
    cited after it. Headings are told where they change. Also gives what is cited, as it follows in the text.
    """
    by_document: defaultdict[DocumentId, list[Cited]] = defaultdict(list)
    for chunk in cited:
        by_document[chunk.document_id].append(chunk)
    texts: list[str] = []
    order: list[Cited] = []
    for document_id, chunks in by_document.items():
        heading = ""
        for passage in _passages(chunks, shown.get(document_id, ())):
            texts.append(_written(passage, heading))
            order += [begin.chunk for begin in passage.cited]
            heading = headings_of(passage.cited[-1].chunk)
    return "\n\n".join(texts), order


def _begin(chunk: Cited, pieces: Iterable[TextSpan]) -> Begin:
    """Say where a chunk is cited: where it begins; a summary before the piece that its section begins in."""
    at = chunk.start
    if is_summary(chunk):
        at = next((piece.start for piece in pieces if piece.start < at < piece.end), at)
    return Begin(at, not is_summary(chunk), number_of(chunk), chunk)


def _passages(chunks: Iterable[Cited], pieces: Sequence[TextSpan]) -> list[CitedPassage]:
    """Join what has no gap between; text that nothing is cited in goes with what is before it, or after it."""
    begins = sorted((_begin(chunk, pieces) for chunk in chunks), key=lambda begin: begin[:3])
    # There need not be text where a chunk begins.
    marks = (TextSpan(begin.at, begin.at, "") for begin in begins)
    passages: list[CitedPassage] = []
    rest = deque(begins)
    for run in _runs(sorted([*pieces, *marks])):
        cited = []
        while rest and rest[0].at <= run[-1].start:
            cited.append(rest.popleft())
        if passages and not (cited and passages[-1].cited):
            passages[-1].pieces.extend(run)
            passages[-1].cited.extend(cited)
        else:
            passages.append(CitedPassage(run, cited))
    return passages


def _runs(pieces: Iterable[TextSpan]) -> Iterator[list[TextSpan]]:
    run: list[TextSpan] = []
    end = 0
    for piece in pieces:
        if run and piece.start - end > LONGEST_BREAK:
            yield run
            run = []
        run.append(piece)
        end = max(end, piece.end)
    if run:
        yield run


def _written(passage: CitedPassage, heading: str) -> str:
    """Write a passage; heading: that of the text before it in its document."""
    text: list[str] = []
    starts = [begin.at for begin in passage.cited]
    bounds = [passage.pieces[0].start, *starts[1:], max(piece.end for piece in passage.pieces)]
    for (_, _, _, chunk), (start, end) in zip(passage.cited, pairwise(bounds), strict=True):
        text.append(chunk.citation)
        if headings_of(chunk) not in {"", heading}:
            text.append(headings_of(chunk))
        heading = headings_of(chunk)
        # A forged citation may come together from two pieces, so it is looked for last.
        summary = f"{chunk.text}\n" if is_summary(chunk) else ""
        if body := harmless(summary + _joined(_within(passage.pieces, start, end))).strip("\n").rstrip():
            text.append(body)
    return "\n".join(text)


def _within(pieces: Iterable[TextSpan], start: int, end: int) -> Iterator[TextSpan]:
    """Yield the parts of pieces from start to end."""
    for piece in pieces:
        first, last = max(start, piece.start), min(end, piece.end)
        if first < last:
            # The text of a piece that is shown in part is that of its span; others may have less white space.
            whole = (first, last) == (piece.start, piece.end)
            text = piece.text if whole else piece.text[first - piece.start : last - piece.start]
            yield TextSpan(first, last, text)


def _joined(pieces: Iterable[TextSpan]) -> str:
    """Put pieces together, white space between them as it was, and a mark where text was skipped."""
    text = ""
    end: int | None = None
    for piece in pieces:
        gap = 0 if end is None else piece.start - end
        text = text.rstrip() + GAP if gap > LONGEST_BREAK else text + "\n" * min(gap, len("\n\n"))
        text += piece.text
        end = piece.end
    return text
