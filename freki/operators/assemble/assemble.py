"""Assembly of hits into one text with citations, within a token budget, without repetition."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from freki.operators.assemble.cut import Match, lines_or_words, whole_parts
from freki.operators.assemble.layout import (
    GAP,
    Cited,
    TextSpan,
    head_of,
    headings_of,
    in_order,
    is_summary,
    lay_out,
    line_of,
    number_of,
)
from freki.operators.assemble.units import LONGEST_BREAK, SentenceEnds, units
from freki.schemas import ChunkId, ChunkKind, ContextExpansion, ContextHit, ContextPart, DocumentId

T = TypeVar("T", ContextHit, ContextExpansion)
V = TypeVar("V")
CountTokens = Callable[[Sequence[str]], Sequence[int]]
MatchesOf = Callable[[ContextHit], Sequence[Match]]


class Omitted(StrEnum):
    """The part of a hit that was left out."""

    PART = "PART"
    """A part of its text."""
    HIT = "HIT"
    """The whole hit."""
    SURROUNDINGS = "SURROUNDINGS"
    """Part of its section or neighbours."""


class Omission(NamedTuple):
    """A part of a hit that did not fit the budget."""

    rank: int
    chunk_id: ChunkId
    what: Omitted
    reason: str


class Assembly(NamedTuple):
    """The text, and the omitted parts."""

    text: str
    tokens: int
    """Tokens of the text, counted by `count_tokens` for its parts."""
    omissions: tuple[Omission, ...]
    cited: tuple[Cited, ...]
    """Cited chunks in the order of their citations."""


class SurroundingChunks(NamedTuple):
    """What is known of the chunks around hits."""

    sections: Mapping[ChunkId, Sequence[ContextPart]]
    """Chunks of the section around each hit, in reading order."""
    headings: Mapping[ChunkId, Sequence[str]]
    """Heading paths of neighbours and chunks of sections; one without stands below the headings of its hit."""
    gaps: Mapping[DocumentId, Collection[tuple[int, int]]]
    """Start and end of the text between chunks that follow each other, of headings only: nothing to mark as skipped."""
    headers: Mapping[ChunkId, str] = MappingProxyType({})
    """Headers of the tables that neighbours and chunks of sections continue."""


NO_SURROUNDING_CHUNKS = SurroundingChunks({}, {}, {})


def assemble(
    hits: Sequence[ContextHit],
    expansions: Sequence[ContextExpansion] = (),
    *,
    max_tokens: int,
    count_tokens: CountTokens,
    sentence_ends: SentenceEnds,
    around: SurroundingChunks = NO_SURROUNDING_CHUNKS,
    matches_of: MatchesOf | None = None,
) -> Assembly:
    """Return the texts of hits and their surroundings below their citations, within `max_tokens`.

    The budget is spent first on the texts of hits by rank, then in the same order on their surroundings, sentence by
    sentence outward until a hundredth of it is left, then on expansions, best first, and last on the overlap of chunks
    without text before them; the header of a table that a hit continues has its room before surroundings, that of the
    best hit before its rows, and that of a table around a hit with the first of its rows. A hit that does not fit is
    left out, and later smaller ones may still fit; the best one is truncated, so that the context is not empty: to the
    sentences, rows or items around the words of the query, or to words where none of these fits; marks stand where it
    is cut.
    Documents are ordered by their best hit, and text of one document is in reading order, without repetition.
    In text that looks like a citation, the opening bracket is replaced by a parenthesis; lengths and spans are kept.
    count_tokens: counts tokens of each text; assumed additive over parts that end at white space.
    around: the chunks of sections, each of which stands below its own headings; `parent` of a hit is not read.
    matches_of: finds the words of the query in the text of a hit; called for one that is cut. None: there are none.
    """
    choice = _Choice(max_tokens, count_tokens, sentence_ends, around, matches_of or (lambda _: ()))
    ranked = sorted(hits, key=lambda hit: hit.rank)
    omissions = [omission for hit, cost in choice.costs(ranked) if (omission := choice.add_hit(hit, cost))]
    there = [chunk for chunk in choice.cited if isinstance(chunk, ContextHit)]
    for hit in there:
        choice.reserve_header(hit)
    omissions += [omission for hit in there if (omission := choice.add_around(hit))]
    for expansion, cost in choice.costs(sorted(expansions, key=lambda each: (-each.similarity, each.number))):
        if cost > choice.room:
            break
        choice.add(expansion, expansion.text, cost)
    for chunk in choice.cited:
        choice.add_overlap(chunk)
    choice.add_headers()
    documents = list(dict.fromkeys(hit.document_id for hit in ranked))
    cited = sorted(choice.cited, key=lambda chunk: (documents.index(chunk.document_id), number_of(chunk)))
    text, order = lay_out(cited, choice.shown, around.gaps)
    return Assembly(text, choice.used, tuple(sorted(omissions)), tuple(order))


class _Choice:
    """The selected text, and the budget that it uses."""

    def __init__(
        self,
        max_tokens: int,
        count_tokens: CountTokens,
        sentence_ends: SentenceEnds,
        around: SurroundingChunks,
        matches_of: MatchesOf,
    ) -> None:
        self.cited: list[Cited] = []
        self.shown: defaultdict[DocumentId, list[TextSpan]] = defaultdict(list)
        self.used = 0
        self._summaries: defaultdict[DocumentId, list[int]] = defaultdict(list)
        self._reserved: dict[ChunkId, int] = {}
        self._tables: dict[tuple[DocumentId, str], int] = {}
        """Tokens that the headers of tables around hits have reserved."""
        self._max_tokens = max_tokens
        self._count = count_tokens
        self._sentence_ends = sentence_ends
        self._known = around
        self._matches_of = matches_of
        self._gap, self._break = count_tokens([GAP, _BREAK])
        # Most chunks around hits share theirs with others.
        self._line_of = cache(line_of)

    @property
    def room(self) -> int:
        """Remaining tokens."""
        return self._max_tokens - self.used

    def costs(self, chunks: Sequence[T]) -> Iterator[tuple[T, int]]:
        """Yield chunks with the tokens of text and citation, counted in small batches: the first may take all room."""
        return self._costs(chunks, lambda chunk: (head_of(chunk), chunk.text, _BREAK))

    def add_hit(self, hit: ContextHit, cost: int) -> Omission | None:
        """Add the text of a hit; return the omission if it does not fit."""
        room = self.room
        if not self.cited:
            self.reserve_header(hit)
        if cost <= self.room:
            self.add(hit, hit.text, cost)
            return None
        reason = f"{cost + room - self.room} tokens, {room} of {self._max_tokens} were left"
        text = "" if self.cited else self._cut(hit)
        if not text:
            return Omission(hit.rank, hit.chunk_id, Omitted.HIT, reason)
        self.add(hit, text, self.room)
        # Without a break behind it, the whole text may fit.
        is_whole = text.strip() == hit.text.strip()
        return None if is_whole else Omission(hit.rank, hit.chunk_id, Omitted.PART, reason)

    def add(self, chunk: Cited, text: str, cost: int) -> None:
        """Add the text of a chunk below its citation."""
        self.used += cost
        if is_summary(chunk):
            chunk = replace(chunk, text=text)
            self._summaries[chunk.document_id].append(chunk.start)
        else:
            piece = TextSpan(chunk.start, chunk.end, text, headings_of(chunk))
            self.shown[chunk.document_id] += list(_unseen(piece, self.shown[chunk.document_id]))
        self.cited.append(chunk)

    def add_around(self, hit: ContextHit) -> Omission | None:
        """Add the surroundings of a hit, from it outward; return the omission if a part does not fit."""
        room = self.room
        free = self._free(hit)
        if room < self._max_tokens // _UNSPENT_PART:
            return self._around(hit, room) if any(run.text.strip() for run in free) else None
        after = (
            piece for run in free if run.end > hit.start for piece in self._pieces(run) if piece.start >= hit.start
        )
        before = (
            piece
            for run in reversed(free)
            if run.start < hit.start
            for piece in reversed(list(self._pieces(run)))
            if piece.start < hit.start
        )
        complete = [self._add_outward(hit, side) for side in (after, before)]
        return None if all(complete) else self._around(hit, room)

    def reserve_header(self, hit: ContextHit) -> None:
        """Keep room for the header of the table that a hit may continue, until `add_overlap`."""
        is_header = hit.kind is ChunkKind.TABLE and hit.chunk_id not in self._reserved
        if is_header and (overlap := hit.overlap):
            (cost,) = self._count([_led_by(overlap)])
            if cost <= self.room:
                self._reserved[hit.chunk_id] = cost
                self.used += cost

    def add_overlap(self, chunk: Cited) -> None:
        """Add the overlap of a chunk if no adjacent text is selected and it fits; a header, above the adjacent rows."""
        self.used -= self._reserved.pop(chunk.chunk_id, 0)
        overlap = "" if is_summary(chunk) else chunk.overlap
        if not overlap:
            return
        start, above = self._above(chunk)
        if above and not _is_header(chunk, overlap, above):
            return
        # The white space between overlap and chunk is unknown.
        piece = TextSpan(max(0, start - len(overlap)), start, _led_by(overlap), headings_of(chunk))
        near = TextSpan(max(0, piece.start - _OVERLAP_SLACK), start, "")
        if any(other.start < near.end and near.start < other.end for other in self.shown[chunk.document_id]):
            return
        (cost,) = self._count([piece.text])
        if cost <= self.room:
            self.shown[chunk.document_id].append(piece)
            self.used += cost

    def add_headers(self) -> None:
        """Add the headers of tables around hits, each above the adjacent rows that lack it, as far as they fit."""
        self.used -= sum(self._tables.values())
        for document_id in dict.fromkeys(document_id for document_id, _ in self._tables):
            pieces = in_order(self.shown[document_id])
            text, first, before, end = "", pieces[0], 0, pieces[0].start
            for piece in pieces:
                if piece.start - end > LONGEST_BREAK or piece.headings != first.headings:
                    text, first, before = "", piece, end
                if piece.header and _is_missing(piece.header, text):
                    self._add_header(document_id, first, piece.header, before)
                    text += piece.header
                text, end = f"{text}\n{piece.text}", piece.end

    def _add_header(self, document_id: DocumentId, first: TextSpan, header: str, before: int) -> None:
        """Add a header above a piece if it fits; before: end of the text that is shown before it."""
        text = _led_by(header)
        (cost,) = self._count([text])
        if cost <= self.room:
            start = min(first.start - 1, max(before + LONGEST_BREAK + 1, first.start - len(header)))
            self.shown[document_id].append(TextSpan(start, first.start, text, first.headings))
            self.used += cost

    def _above(self, chunk: Cited) -> tuple[int, str]:
        """Return where the text begins that is shown without a gap before a chunk, and this text."""
        start, text = chunk.start, ""
        for piece in reversed(in_order(self.shown[chunk.document_id])):
            is_near = piece.end <= start <= piece.end + LONGEST_BREAK
            if is_near and piece.headings == headings_of(chunk):
                start, text = piece.start, f"{piece.text}\n{text}"
        return start, text

    def _cut(self, hit: ContextHit) -> str:
        """Return the part of a text that fits, with the header that it has room reserved for, else without it."""
        head = head_of(hit)

        def fits(text: str) -> bool:
            return self._count([head + text])[0] <= self.room

        given = hit, self._matches_of(hit), fits, self._sentence_ends
        if text := whole_parts(*given):
            return text
        self.used -= self._reserved.pop(hit.chunk_id, 0)
        return whole_parts(*given) or lines_or_words(*given)

    def _around(self, hit: ContextHit, room: int) -> Omission:
        reason = f"{room} of {self._max_tokens} tokens were left for what stands around it"
        return Omission(hit.rank, hit.chunk_id, Omitted.SURROUNDINGS, reason)

    def _free(self, hit: ContextHit) -> list[TextSpan]:
        """Return the spans around a hit that are not yet selected, in reading order."""
        seen = [*self.shown[hit.document_id]]
        free: list[TextSpan] = []
        for part in (*hit.before, *self._known.sections.get(hit.chunk_id, ()), *hit.after):
            header = self._known.headers.get(part.chunk_id, "") if part.chunk_id else ""
            piece = TextSpan(part.start, part.end, part.text, self._headings_of(part, hit), header)
            runs = list(_unseen(piece, seen))
            free += runs
            seen += runs
        return in_order(free)

    def _headings_of(self, part: ContextPart, hit: Cited) -> str:
        """Return the headings of a part as one line: those of the hit where it has none of its own."""
        path = None if part.chunk_id is None else self._known.headings.get(part.chunk_id)
        return headings_of(hit) if path is None else self._line_of(tuple(path))

    def _pieces(self, run: TextSpan) -> Iterator[TextSpan]:
        """Yield the units of a span."""
        for unit in units(run.text, self._sentence_ends):
            yield run._replace(start=run.start + unit.start, end=run.start + unit.end, text=unit.text)

    def _add_outward(self, hit: ContextHit, side: Iterable[TextSpan]) -> bool:
        """Add units until one does not fit; return whether all fit."""
        last = TextSpan(hit.start, hit.start if is_summary(hit) else hit.end, "")
        headings = headings_of(hit)
        for piece, cost in self._costs(side, lambda piece: (piece.text,)):
            total = cost + self._between(last, piece)
            # Behind the text of another hit, or a summary, they stand again.
            if piece.headings != headings or self._is_parted(last, piece, hit.document_id):
                total += self._count([f"{piece.headings}\n"])[0]
            header = self._of_header(hit, piece)
            if total + header > self.room:
                return False
            self.shown[hit.document_id].append(piece)
            self.used += total + header
            if header:
                self._tables[hit.document_id, piece.header] = header
            last, headings = piece, piece.headings
        return True

    def _of_header(self, hit: ContextHit, piece: TextSpan) -> int:
        """Return the tokens to reserve for the header of the table that a piece around a hit is of."""
        if not piece.header or (hit.document_id, piece.header) in self._tables:
            return 0
        if hit.chunk_id in self._reserved and hit.overlap == piece.header:
            return 0
        return self._count([_led_by(piece.header)])[0]

    def _is_parted(self, one: TextSpan, other: TextSpan, document_id: DocumentId) -> bool:
        """Return whether other text stands between two spans, or a summary: it is before the span around its start."""
        first, second = in_order([one, other])
        others = self.shown[document_id] if first.end < second.start else ()
        return any(first.end <= span.start < second.start for span in others) or any(
            first.end <= start < max(second.end, second.start + 1) for start in self._summaries[document_id]
        )

    def _between(self, one: TextSpan, other: TextSpan) -> int:
        """Return the tokens of what stands between two spans."""
        apart = _apart(one, other)
        if apart > LONGEST_BREAK:
            return self._gap
        return self._break if apart > 0 else 0

    def _costs(self, values: Iterable[V], texts_of: Callable[[V], tuple[str, ...]]) -> Iterator[tuple[V, int]]:
        values = iter(values)
        while ahead := list(islice(values, max(1, min(_COUNTED_AHEAD, self.room // _TOKENS)))):
            texts = [texts_of(value) for value in ahead]
            counts = iter(self._count([text for each in texts for text in each]))
            for value, each in zip(ahead, texts, strict=True):
                yield value, sum(islice(counts, len(each)))


_BREAK = "\n\n"
"""The longest break between two texts without a gap: some tokenizers have tokens for it."""
# Units after the first that does not fit need no counting; the overhead of a call equals a sentence or two.
_COUNTED_AHEAD = 8
_TOKENS = 32
"""Estimated tokens of a sentence, to limit the number counted in advance."""
_UNSPENT_PART = 100
"""This part of the budget stays unspent: to find a unit that fits, a whole section is divided into units."""
_OVERLAP_SLACK = 200


def _led_by(overlap: str) -> str:
    return f"… {overlap}\n"


def _is_header(chunk: Cited, overlap: str, above: str) -> bool:
    """Return whether an overlap is the header of a table, and not in the text above the chunk or the end of more."""
    if not (isinstance(chunk, ContextHit) and chunk.kind is ChunkKind.TABLE):
        return False
    return _is_missing(overlap, above) and not _one_line(overlap).endswith(_one_line(above))


def _is_missing(header: str, above: str) -> bool:
    return _one_line(header) not in _one_line(above)


def _one_line(text: str) -> str:
    # A long header is shortened, the text has it whole.
    return " ".join(text.removesuffix("…").split())


def _apart(one: TextSpan, other: TextSpan) -> int:
    """Return the number of characters between two spans."""
    return max(one.start, other.start) - min(one.end, other.end)


def _unseen(piece: TextSpan, seen: Sequence[TextSpan]) -> Iterator[TextSpan]:
    """Yield the parts of a span that no seen one covers, in reading order."""
    covering = [other for other in seen if other.start < piece.end and piece.start < other.end]
    if not covering:
        yield piece
        return
    at = piece.start
    for other in [*in_order(covering), TextSpan(piece.end, piece.end, "")]:
        end = min(other.start, piece.end)
        if at < end:
            yield piece._replace(start=at, end=end, text=piece.text[at - piece.start : end - piece.start])
        at = max(at, other.end)
