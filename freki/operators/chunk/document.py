"""The chunks of a document, in order."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from freki.operators.chunk.cut import CountTokens
from freki.operators.chunk.extract import extract, is_wrapper
from freki.operators.chunk.headers import TableHeaders
from freki.operators.chunk.leaves import Rules, Semantics, Similarities, make_leaves
from freki.operators.chunk.limits import ChunkLimits
from freki.operators.chunk.overlap import Overlaps
from freki.operators.chunk.sections import DocumentSection, outline
from freki.operators.chunk.segments import Minimum, Segment, Size
from freki.operators.chunk.siblings import join_small_sections
from freki.schemas import Chunk, ChunkId, ChunkKind, ChunkLevel
from freki.schemas.outline import BlockKind, ParsedDocument

VERSION = 14
"""Version of the chunker; grows when the same document gives other chunks, or other contexts."""


class Identify(Protocol):
    """Assigns the id of a chunk."""

    def __call__(self, *, level: int, heading_path: Sequence[str], text: str, occurrence: int) -> ChunkId:
        """Return an id that depends on all arguments; `occurrence` is 0-based among chunks equal in the others."""


def chunker_fingerprint(profile: str, parser_version: int, limits: ChunkLimits) -> str:
    """Return the fingerprint of everything that affects chunks, such as `1:markdown.1:30-256:1200-150`."""
    sizes = f"{limits.min_tokens}-{limits.max_tokens}:{limits.max_chars}-{limits.overlap_chars}"
    semantic = "" if limits.least_similarity is None else f":{limits.least_similarity:g}"
    percentile = "" if limits.breakpoint_percentile is None else f":p{limits.breakpoint_percentile:g}"
    further = f":c{limits.min_chars}" if limits.min_chars else ""
    further += "" if limits.overlap_tokens is None else f":o{limits.overlap_tokens}"
    return f"{VERSION}:{profile}.{parser_version}:{sizes}{semantic}{percentile}{further}"


def chunk_document(
    document: ParsedDocument,
    *,
    identify: Identify,
    count_tokens: CountTokens,
    limits: ChunkLimits,
    similarities: Similarities | None = None,
) -> list[Chunk]:
    """Return the chunks of a document in reading order, a section before its parts; none for an empty text.

    Leaves, all chunks except those of kind SUMMARY, are disjoint, and every visible character is in a leaf or in a
    heading of some heading path. A leaf is the whole body of a section if that fits the limits, else a paragraph or
    several small ones. A longer paragraph is split at sentences, then at lines, words, anywhere; a list, table or code
    stays whole up to 1.5 times the characters, and is split at its seams first. An introducing paragraph stays with its
    list, or the first items of that, its table or code, and a line without a full stop with its paragraph. A sentence
    of several paragraphs stays whole if it fits. Sections below the minimum are joined with their neighbours. Among
    equivalent boundaries the surrounding text decides, so that an edit moves only boundaries near it. A heading without
    content is a leaf itself. A leaf that continues a table has its header rows in `header`.

    A document or section of two or more leaves has a SUMMARY, an extract of its beginning and the headings below it,
    unless the section holds all, or all but one, of the leaves of its parent.

    Ids do not depend on pages: inserting a page at the beginning changes no id.

    With `least_similarity` or `breakpoint_percentile`, an oversized section of prose is split between sentences
    instead: neighbours are joined while they are similar, and where all are, the split is at the least similar ones.

    count_tokens: counts tokens of each text; assumed additive over parts that end at white space.
    similarities: similarity of each text to the next one; required for either.
    Raises ValueError for limits below 1, a negative overlap, or a missing `similarities`.
    """
    if min(limits.min_tokens, limits.max_tokens, limits.max_chars) < 1 or limits.overlap_chars < 0:
        raise ValueError(f"limits must be at least 1, and the overlap at least 0, got {limits}")
    root = outline(document)
    rules = _rules(limits, count_tokens, similarities)
    make_leaves(document.text, root, rules)
    join_small_sections(document.text, root, rules)
    rows = list(_rows(document.text, root))
    counts = iter(count_tokens([row.text for row in rows if row.kind is ChunkKind.SUMMARY]))
    headers, overlaps = TableHeaders(document), Overlaps(document.text, root, limits, count_tokens)
    seen: Counter[tuple[int, tuple[str, ...], str]] = Counter()
    chunks: list[Chunk] = []
    for ordinal, row in enumerate(rows):
        same = (row.level, row.heading_path, row.text)
        chunk_id = identify(level=row.level, heading_path=row.heading_path, text=row.text, occurrence=seen[same])
        seen[same] += 1
        header = "" if row.kind is ChunkKind.SUMMARY else headers.at(row.start)
        first_page, last_page = _pages(document.page_starts, row.start, row.end)
        chunks.append(
            Chunk(
                chunk_id=chunk_id,
                level=row.level,
                path=row.path,
                ordinal=ordinal,
                start=row.start,
                end=row.end,
                kind=row.kind,
                heading_path=row.heading_path,
                text=row.text,
                overlap=header or overlaps.before(row.start),
                tokens=next(counts) if row.kind is ChunkKind.SUMMARY else row.tokens,
                first_page=first_page,
                last_page=last_page,
                header=header,
            )
        )
    return chunks


def _rules(limits: ChunkLimits, count_tokens: CountTokens, similarities: Similarities | None) -> Rules:
    semantics = None
    if limits.least_similarity is not None or limits.breakpoint_percentile is not None:
        if similarities is None:
            raise ValueError("least_similarity and breakpoint_percentile require similarities")
        semantics = Semantics(similarities, limits.least_similarity, limits.breakpoint_percentile)
    least = Minimum(limits.min_tokens, limits.min_chars)
    return Rules(least, Size(limits.max_tokens, limits.max_chars), count_tokens, semantics)


class _Row(NamedTuple):
    """A chunk without ordinal and id."""

    level: int
    path: str
    start: int
    end: int
    kind: ChunkKind
    heading_path: tuple[str, ...]
    text: str
    tokens: int = 0


def _rows(text: str, root: DocumentSection) -> Iterator[_Row]:
    totals = _totals(root)
    if totals[root] > 1:
        yield _Row(ChunkLevel.DOCUMENT, "0", 0, len(text), ChunkKind.SUMMARY, (), extract(text, root))
    yield from _below(text, root, "0", totals)


def _totals(root: DocumentSection) -> dict[DocumentSection, int]:
    """Return the number of leaves at and below each section."""
    totals: dict[DocumentSection, int] = {}
    for section in reversed(list(root.walk())):
        totals[section] = len(section.leaves) + sum(totals[child] for child in section.children)
    return totals


def _below(text: str, section: DocumentSection, path: str, totals: dict[DocumentSection, int]) -> Iterator[_Row]:
    """Yield the rows of a section's leaves and of its subsections."""
    level = ChunkLevel.SECTION if totals[section] == 1 else ChunkLevel.PARAGRAPH
    for number, leaf in enumerate(section.leaves):
        yield _leaf(text, leaf, level, f"{path}/{number}", section.heading_path)
    # Some were joined with a neighbour.
    children = (child for child in section.children if totals[child])
    for number, child in enumerate(children, start=len(section.leaves)):
        below = f"{path}/{number}"
        if totals[child] == len(child.leaves) == 1:
            yield _leaf(text, child.leaves[0], ChunkLevel.SECTION, below, child.heading_path)
            continue
        if totals[child] > 1 and child.heading and not is_wrapper(section):
            start, end = child.heading.start, _end(child)
            summary = extract(text, child)
            yield _Row(ChunkLevel.SECTION, below, start, end, ChunkKind.SUMMARY, child.heading_path, summary)
        yield from _below(text, child, below, totals)


def _end(section: DocumentSection) -> int:
    return max(leaf.end for each in section.walk() for leaf in each.leaves)


def _leaf(text: str, leaf: Segment, level: int, path: str, heading_path: tuple[str, ...]) -> _Row:
    kind = ChunkKind.PROSE if leaf.kind is BlockKind.HEADING else ChunkKind(leaf.kind.value)
    return _Row(level, path, leaf.start, leaf.end, kind, heading_path, text[leaf.start : leaf.end], leaf.tokens)


def _pages(starts: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """Return the 1-based pages that a span begins and ends on; zeros where the document has no pages."""
    return bisect_right(starts, start), bisect_right(starts, max(start, end - 1))
