"""Layout of the context: by document, in reading order, each text below its citation."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from freki.operators.assemble.cite import harmless, label
from freki.operators.assemble.units import LONGEST_BREAK
from freki.schemas import ChunkKind, ContextExpansion, ContextHit, DocumentId

GAP = "\n[…]\n"

Cited = ContextHit | ContextExpansion


Gaps = Collection[tuple[int, int]]


class TextSpan(NamedTuple):
    """A shown span of the text of a document."""

    start: int
    end: int
    text: str
    headings: str = ""
    """Headings above it as one line."""
    header: str = ""
    """Header of the table that it continues."""


def in_order(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Return spans in reading order; those of one place and text have no order among their headings."""
    return sorted(spans, key=lambda span: span[:3])


class Begin(NamedTuple):
    """The position of a citation; sorts in the order of the text."""

    at: int
    has_place: bool
    """Whether the chunk has a position in the text; summaries, which have none, come first."""
    number: int
    chunk: Cited


class CitedPassage(NamedTuple):
    """Adjacent spans of a document and their citations, both in reading order."""

    pieces: list[TextSpan]
    cited: list[Begin]


def number_of(chunk: Cited) -> int:
    """Return the number in the citation of a chunk."""
    return chunk.rank if isinstance(chunk, ContextHit) else chunk.number


def is_summary(chunk: Cited) -> bool:
    """Return whether a chunk is a summary, whose text has no position in the document."""
    return isinstance(chunk, ContextHit) and chunk.kind is ChunkKind.SUMMARY


def headings_of(chunk: Cited) -> str:
    """Return the headings above a chunk as one line."""
    return line_of(chunk.heading_path)


def line_of(heading_path: Sequence[str]) -> str:
    """Return headings as one line."""
    return _BETWEEN.join(label(heading) for heading in heading_path if heading.strip())


_BETWEEN = " > "


def head_of(chunk: Cited) -> str:
    """Return the lines before the text of a chunk at the beginning of a passage, each with its line break."""
    return "".join(f"{line}\n" for line in (chunk.citation, headings_of(chunk), origin_of(chunk)) if line)


def origin_of(chunk: Cited) -> str:
    """Return the line that says that a language model wrote the text; empty for text of the document."""
    if not (isinstance(chunk, ContextHit) and chunk.generated):
        return ""
    return _GENERATED["de" if chunk.language == "de" else "en"]


_GENERATED = {"de": "(Zusammenfassung eines Sprachmodells)", "en": "(summary by a language model)"}


def lay_out(
    cited: Sequence[Cited], shown: Mapping[DocumentId, Sequence[TextSpan]], gaps: Mapping[DocumentId, Gaps]
) -> tuple[str, list[Cited]]:
    """Return the text, with documents by first citation and their text in reading order, and the cited chunks in order.

    shown: disjoint spans; gaps: start and end of the text between chunks that follow each other, of headings only.
    Text without a gap is one passage; each citation is on a line of its own where its chunk begins, the first one at
    the beginning of the passage. `[…]` marks skipped text without a following citation. Headings are shown where they
    change, also between a chunk and text from other sections around it.
    """
    by_document: defaultdict[DocumentId, list[Cited]] = defaultdict(list)
    for chunk in cited:
        by_document[chunk.document_id].append(chunk)
    texts: list[str] = []
    order: list[Cited] = []
    for document_id, chunks in by_document.items():
        heading = ""
        for passage in _passages(chunks, shown.get(document_id, ())):
            text, heading = _written(passage, heading, gaps.get(document_id, ()))
            texts.append(text)
            order += [begin.chunk for begin in passage.cited]
    return "\n\n".join(texts), order


def _begin(chunk: Cited, pieces: Iterable[TextSpan]) -> Begin:
    """Return the position of a citation: the start of its chunk; for a summary, of the span around that start."""
    at = chunk.start
    if is_summary(chunk):
        at = next((piece.start for piece in pieces if piece.start < at < piece.end), at)
    return Begin(at, not is_summary(chunk), number_of(chunk), chunk)


def _passages(chunks: Iterable[Cited], pieces: Sequence[TextSpan]) -> list[CitedPassage]:
    """Join spans without a gap; text without citation joins the previous passage, or the next one."""
    begins = sorted((_begin(chunk, pieces) for chunk in chunks), key=lambda begin: begin[:3])
    # The start of a chunk may lie outside of all spans.
    marks = (TextSpan(begin.at, begin.at, "") for begin in begins)
    passages: list[CitedPassage] = []
    rest = deque(begins)
    for run in _runs(in_order([*pieces, *marks])):
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


def _written(passage: CitedPassage, heading: str, gaps: Gaps) -> tuple[str, str]:
    """Return the text of a passage and the headings at its end; heading: those at the end of the preceding text."""
    lines: list[str] = []
    chunks = [begin.chunk for begin in passage.cited]
    starts = [begin.at for begin in passage.cited]
    bounds = [passage.pieces[0].start, *starts[1:], max(piece.end for piece in passage.pieces)]
    for chunk, (start, end) in zip(chunks, pairwise(bounds), strict=True):
        text, heading = _below(chunk, _within(passage.pieces, start, end), heading, gaps)
        lines += [chunk.citation, *([text] if text else [])]
    return "\n".join(lines), heading


def _below(chunk: Cited, pieces: Iterable[TextSpan], heading: str, gaps: Gaps) -> tuple[str, str]:
    """Return the text below the citation of a chunk, and the headings at its end."""
    lines: list[str] = []
    if is_summary(chunk):
        # A summary has no place in the text.
        own = headings_of(chunk)
        lines += [own if own != heading else "", origin_of(chunk), chunk.text]
        heading = own
    end: int | None = None
    for headings, block in groupby(pieces, key=lambda piece: piece.headings):
        spans = list(block)
        if headings != heading:
            start = spans[0].start
            if end is not None and start - end > LONGEST_BREAK and (end, start) not in gaps:
                lines.append(GAP.strip())
            lines.append(headings)
        lines.append(_joined(spans).strip("\n").rstrip())
        heading, end = headings, spans[-1].end
    # A forged citation may be joined from two spans, so it is searched for last.
    return harmless("\n".join(filter(None, lines))).rstrip(), heading


def _within(pieces: Iterable[TextSpan], start: int, end: int) -> Iterator[TextSpan]:
    """Yield the parts of spans from start to end."""
    for piece in pieces:
        first, last = max(start, piece.start), min(end, piece.end)
        if first < last:
            # Slicing is valid for partly shown spans only; the text of whole ones may have less white space.
            whole = (first, last) == (piece.start, piece.end)
            text = piece.text if whole else piece.text[first - piece.start : last - piece.start]
            yield TextSpan(first, last, text, piece.headings)


def _joined(pieces: Iterable[TextSpan]) -> str:
    """Join spans with the original white space between them, and a mark for skipped text."""
    text = ""
    end: int | None = None
    for piece in pieces:
        gap = 0 if end is None else piece.start - end
        text = text.rstrip() + GAP if gap > LONGEST_BREAK else text + "\n" * min(gap, len("\n\n"))
        text += piece.text
        end = piece.end
    return text
