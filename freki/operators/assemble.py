"""The hits as one text for a prompt: cited, within a budget, nothing said twice."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from freki.schemas import ChunkId, ChunkKind, CitationStyle, ContextHit, DocumentId

CountTokens = Callable[[Sequence[str]], Sequence[int]]

MAX_NAME_CHARS = 120
GAP = "\n[…]\n"


class Omitted(StrEnum):
    """What of a hit is not in the text."""

    END = "END"
    """Its text was cut."""
    HIT = "HIT"
    """All of it."""
    SURROUNDINGS = "SURROUNDINGS"
    """Some of the section or the neighbours around it."""


class Omission(NamedTuple):
    """Something that had no room."""

    rank: int
    chunk_id: ChunkId
    what: Omitted
    reason: str


class Assembly(NamedTuple):
    """The text, and what had no room in it."""

    text: str
    tokens: int
    """As `count_tokens` counts the text's pieces."""
    omissions: tuple[Omission, ...]


class _Piece(NamedTuple):
    start: int
    end: int
    text: str


class _Block(NamedTuple):
    hit: ContextHit
    lead: str
    """Text that has no place in the document: that of a SUMMARY."""
    pieces: list[_Piece]
    """Disjoint spans of the document, in no order."""


def cite(  # noqa: PLR0913 - what a reader needs to find the place
    rank: int,
    *,
    name: str,
    document_id: DocumentId,
    chunk_id: ChunkId,
    place: str = "",
    style: CitationStyle = CitationStyle.QUELLE,
) -> str:
    """Return the mark of a hit: `[QUELLE-1: name, place | chunk:id]` or `[Document 1: document_id, place]`.

    Names are shown as one line of at most 120 characters; brackets and bars in them become parentheses and slashes,
    so that no name can end a citation or start another.
    place: as `place_of` gives it.
    """
    where = f", {place}" if place else ""
    if style is CitationStyle.DOCUMENT:
        return f"[Document {rank}: {_label(document_id)}{where}]"
    return f"[QUELLE-{rank}: {_label(name)}{where} | chunk:{chunk_id}]"


def place_of(first_page: int, last_page: int, *, media_type: str, language: str) -> str:
    """Name the pages of a span as a citation does: `S. 12`, `S. 12–13`, in all languages but German `p. 12`.

    Presentations have slides and workbooks have sheets. Empty for page 0: the document has no pages.
    """
    if not first_page:
        return ""
    german, other = next((words for kind, words in _PAGE_NAMES.items() if kind in media_type), ("S.", "p."))
    pages = str(first_page) if first_page == last_page else f"{first_page}–{last_page}"
    return f"{german if language == 'de' else other} {pages}"


_PAGE_NAMES = {"presentation": ("Folie", "slide"), "spreadsheet": ("Blatt", "sheet")}
"""What a page is called, by a part of the media type, in German and in any other language."""


def assemble(hits: Sequence[ContextHit], *, max_tokens: int, count_tokens: CountTokens) -> Assembly:
    """Put hits, best first, under their citations, within `max_tokens`.

    The texts of the hits come before what stands around them: first each hit gets its own text, in the order of rank,
    then the room that is left is shared out in the same order to sections and neighbours, sentence by sentence from
    the hit outward. A hit's own text stands whole under its own citation; nothing around hits is said twice.
    A hit that does not fit is left out and smaller ones after it may still come; only the best is cut, so that there
    is a context at all. Where text of the document was skipped within a block, `[…]` says so.
    Text that looks like a citation loses its opening bracket to a parenthesis; lengths and spans stay the same.
    count_tokens: counts each text; taken as additive over pieces that end at white space.
    """
    ranked = sorted(hits, key=lambda hit: hit.rank)
    blocks, used, omissions = _own_texts(ranked, max_tokens, count_tokens)
    shown: defaultdict[DocumentId, list[_Piece]] = defaultdict(list)
    for block in blocks:
        shown[block.hit.document_id] += block.pieces
    (gap,) = count_tokens([GAP])
    for block in blocks:
        room = max_tokens - used
        added, cost, complete = _around(block.hit, shown[block.hit.document_id], room, gap, count_tokens)
        block.pieces.extend(added)
        shown[block.hit.document_id] += added
        used += cost
        if not complete:
            reason = f"{room} of {max_tokens} tokens were left for what stands around it"
            omissions.append(Omission(block.hit.rank, block.hit.chunk_id, Omitted.SURROUNDINGS, reason))
    # A forged citation may come together from two pieces, so it is looked for last.
    text = "\n\n".join(_head(block.hit) + _harmless(block.lead + _joined(block.pieces)) for block in blocks)
    return Assembly(text, used, tuple(sorted(omissions)))


def _own_texts(
    hits: Sequence[ContextHit], max_tokens: int, count_tokens: CountTokens
) -> tuple[list[_Block], int, list[Omission]]:
    """Give each hit that fits a block with its own text; count tokens; say what did not fit."""
    blocks: list[_Block] = []
    omissions: list[Omission] = []
    used = 0
    costs = count_tokens([_head(hit) + hit.text for hit in hits])
    for hit, cost in zip(hits, costs, strict=True):
        room = max_tokens - used
        text = hit.text
        if cost > room:
            text = "" if blocks else _cut(_head(hit), text, room, count_tokens)
            what = Omitted.END if text else Omitted.HIT
            omissions.append(Omission(hit.rank, hit.chunk_id, what, f"{cost} tokens, {room} of {max_tokens} were left"))
        if text:
            blocks.append(_block(hit, text))
            used += min(cost, room)
    return blocks, used, omissions


def _block(hit: ContextHit, text: str) -> _Block:
    if hit.kind is ChunkKind.SUMMARY:
        return _Block(hit, f"{text}\n", [])
    return _Block(hit, "", [_Piece(hit.start, hit.end, text)])


def _around(
    hit: ContextHit, shown: Sequence[_Piece], room: int, gap: int, count_tokens: CountTokens
) -> tuple[list[_Piece], int, bool]:
    """Choose sentences around the hit, from it outward; give their tokens, and whether all of them fitted.

    gap: tokens of the mark for skipped text.
    """
    free: list[_Piece] = []
    for part in (*hit.before, *([hit.parent] if hit.parent else []), *hit.after):
        for run in _unseen(_Piece(part.start, part.end, part.text), [*shown, *free]):
            free += _sentences(run)
    after = sorted(piece for piece in free if piece.start >= hit.start)
    before = sorted((piece for piece in free if piece.start < hit.start), reverse=True)
    chosen: list[_Piece] = []
    used = 0
    for side in (after, before):
        last = _Piece(hit.start, hit.end, "")
        for piece, cost in _costs(side, count_tokens):
            total = used + cost + (gap if _apart(last, piece) > _MAX_BREAK else 0)
            if total > room:
                break
            chosen.append(piece)
            used, last = total, piece
    return chosen, used, len(chosen) == len(free)


def _costs(pieces: Sequence[_Piece], count_tokens: CountTokens) -> Iterator[tuple[_Piece, int]]:
    """Count tokens some pieces ahead: what comes after the first that has no room need not be counted."""
    for at in range(0, len(pieces), _COUNTED_AHEAD):
        ahead = pieces[at : at + _COUNTED_AHEAD]
        yield from zip(ahead, count_tokens([piece.text for piece in ahead]), strict=True)


# A call costs as much as counting a sentence or two; most hits have room for a few sentences.
_COUNTED_AHEAD = 6


def _apart(one: _Piece, other: _Piece) -> int:
    """Count characters between two pieces."""
    return max(one.start, other.start) - min(one.end, other.end)


def _unseen(piece: _Piece, seen: Sequence[_Piece]) -> Iterator[_Piece]:
    """Give the parts of a piece that no seen one covers, in reading order."""
    at = piece.start
    for other in [*sorted(seen), _Piece(piece.end, piece.end, "")]:
        end = min(other.start, piece.end)
        if at < end:
            yield _Piece(at, end, piece.text[at - piece.start : end - piece.start])
        at = max(at, other.end)


_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")


def _sentences(run: _Piece) -> Iterator[_Piece]:
    """Cut at the ends of sentences and lines; blank lines are left out."""
    at = 0
    for end in (*(found.end() for found in _SENTENCE_END.finditer(run.text)), len(run.text)):
        text = run.text[at:end].removesuffix("\n")
        if text.strip():
            yield _Piece(run.start + at, run.start + at + len(text), text)
        at = end


def _joined(pieces: Iterable[_Piece]) -> str:
    """Put pieces in reading order, white space between them as it was, and a mark where text was skipped."""
    text: list[str] = []
    end: int | None = None
    for piece in sorted(pieces):
        if end is not None:
            gap = piece.start - end
            text.append("\n" * min(gap, len("\n\n")) if gap <= _MAX_BREAK else GAP)
        text.append(piece.text)
        end = piece.end
    return "".join(text)


# Line ends and indentation between two blocks.
_MAX_BREAK = 4


def _cut(head: str, text: str, room: int, count_tokens: CountTokens) -> str:
    """Keep as many words from the start as have room, by bisection; none at all is an empty text."""
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        fits = count_tokens([f"{head}{text[: ends[middle - 1]]}{GAP}"])[0] <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[: ends[low - 1]] + GAP.rstrip() if low else ""


def _head(hit: ContextHit) -> str:
    headings = " > ".join(_label(heading) for heading in hit.heading_path if heading.strip())
    return f"{hit.citation}\n{headings}\n" if headings else f"{hit.citation}\n"


_LABEL = str.maketrans("[]|［］【】｜", "()/()()/")


def _label(text: str) -> str:
    """Make one short line that cannot end a citation."""
    visible = "".join(letter for letter in text if unicodedata.category(letter) not in {"Cf", "Cs", "Co", "Cn"})
    line = " ".join("".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in visible).split())
    line = line.translate(_LABEL)
    return line if len(line) <= MAX_NAME_CHARS else line[: MAX_NAME_CHARS - 1] + "…"


_BRACKET = re.compile(r"[\[［【〔]")
_MARK = re.compile(r"(quelle|document|dokument)\W*\d", re.IGNORECASE)
_LOOKAHEAD = 40


def _harmless(text: str) -> str:
    """Open a parenthesis instead of a bracket where text looks like a citation of ours, also in disguise."""

    def replaced(found: re.Match[str]) -> str:
        ahead = unicodedata.normalize("NFKC", text[found.end() : found.end() + _LOOKAHEAD])
        letters = "".join(letter for letter in ahead if unicodedata.category(letter) != "Cf").lstrip()
        return "(" if _MARK.match(letters) else found[0]

    return _BRACKET.sub(replaced, text)
