"""Layout of the context: by document, in reading order, each text below its citation."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from freki.operators.assemble.cite import harmless, label
from freki.operators.assemble.units import LONGEST_BREAK
from freki.schemas import ChunkKind, ContextExpansion, ContextHit, DocumentId

GAP = "\n[…]\n"

Cited = ContextHit | ContextExpansion


class TextSpan(NamedTuple):
    """A shown span of the text of a document."""

    start: int
    end: int
    text: str
    headings: str | None = None
    """Headings above it as one line; None: of a hit itself, or in the text."""


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


def headings_of(chunk: Cited, *, around: bool = False) -> str:
    """Return the headings above a chunk as one line; around: without the innermost one."""
    return line_of(chunk.heading_path[:-1] if around else chunk.heading_path)


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


def lay_out(cited: Sequence[Cited], shown: Mapping[DocumentId, Sequence[TextSpan]]) -> tuple[str, list[Cited]]:
    """Return the text, with documents by first citation and their text in reading order, and the cited chunks in order.

    shown: disjoint spans. Text without a gap is one passage; each citation is on a line of its own where its chunk
    begins, the first one at the beginning of the passage. `[…]` marks skipped text without a following citation.
    Headings are shown where they change, also between a chunk and neighbours from other sections; above a section whose
    text has headings itself, those that all of it shares.
    """
    by_document: defaultdict[DocumentId, list[Cited]] = defaultdict(list)
    for chunk in cited:
        by_document[chunk.document_id].append(chunk)
    texts: list[str] = []
    order: list[Cited] = []
    for document_id, chunks in by_document.items():
        heading = ""
        for passage in _passages(chunks, shown.get(document_id, ())):
            text, heading = _written(passage, heading)
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


def _written(passage: CitedPassage, heading: str) -> tuple[str, str]:
    """Return the text of a passage and the headings at its end; heading: those at the end of the preceding text."""
    lines: list[str] = []
    chunks = [begin.chunk for begin in passage.cited]
    starts = [begin.at for begin in passage.cited]
    bounds = [passage.pieces[0].start, *starts[1:], max(piece.end for piece in passage.pieces)]
    for chunk, following, (start, end) in zip(chunks, [*chunks[1:], None], pairwise(bounds), strict=True):
        text, heading = _below(chunk, following, list(_within(passage.pieces, start, end)), heading)
        lines += [chunk.citation, *([text] if text else [])]
    return "\n".join(lines), heading


def _below(chunk: Cited, following: Cited | None, pieces: Sequence[TextSpan], heading: str) -> tuple[str, str]:
    """Return the text below the citation of a chunk, and the headings at its end.

    following: the next chunk of the passage; text behind that of another section leads to it.
    """
    lines: list[str] = []
    blocks = [(headings, list(block)) for headings, block in groupby(pieces, key=_others_than(headings_of(chunk)))]
    if is_summary(chunk) or not blocks:
        # A summary has no place in the text.
        blocks = [(None, []), *blocks]
    is_own, end = True, None
    for headings, block in blocks:
        own: list[str] = []
        if headings is None:
            leading = chunk if is_own else following or chunk
            above = "" if is_summary(leading) else _joined(piece for piece in block if piece.start < leading.start)
            shown, whole = headings_of(leading, around=_is_headed_within(leading, above)), headings_of(leading)
            if is_own:
                own = [origin_of(chunk), chunk.text if is_summary(chunk) else ""]
            is_own = False
        else:
            shown = whole = headings
            if following is not None and headings == headings_of(following):
                shown = headings_of(following, around=_is_headed_within(following, _joined(block)))
        if block and end is not None and not _is_headed_by(shown, heading, gap=block[0].start - end):
            lines.append(GAP.strip())
        body = _joined(block).strip("\n").rstrip()
        if shown == heading:
            shown = ""
        elif body.partition("\n")[0].rstrip() == shown.rpartition(_BETWEEN)[2]:
            # A section may begin with the text below its own title.
            body = body.partition("\n")[2]
        lines += filter(None, [shown, *own, body])
        heading, end = whole, block[-1].end if block else end
    # A forged citation may be joined from two spans, so it is searched for last.
    return harmless("\n".join(lines)).rstrip(), heading


def _others_than(own: str) -> Callable[[TextSpan], str | None]:
    return lambda piece: None if piece.headings == own else piece.headings


def _is_headed_by(line: str, before: str, *, gap: int) -> bool:
    """Return whether a gap has room for nothing but the headings that change in it, and their markup."""
    one, other = before.split(_BETWEEN), line.split(_BETWEEN)
    same = next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
    return gap <= LONGEST_BREAK + sum(len(heading) + _MARKUP for heading in other[same:])


_MARKUP = 10
"""Characters around a heading: line breaks, number signs and spaces."""


def _is_headed_within(chunk: Cited, above: str) -> bool:
    """Return whether the text before a chunk is of other sections: then the heading of the chunk stands in it."""
    innermost = " ".join(chunk.heading_path[-1].split()) if chunk.heading_path else ""
    return bool(innermost) and any(" ".join(line.split()) == innermost for line in above.splitlines())


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
