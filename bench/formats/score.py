"""Parse files and compare the result with their known content."""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.formats.truth import Item, Kind, Truth
from freki.infra.settings import ChunkingSettings, ParsingSettings
from freki.operators.errors import UnreadableContent
from freki.schemas.outline import BlockKind, ParsedDocument
from freki.streams.ingest.parse import ParseLimits, parse

LIMITS = ParseLimits(
    max_characters=ChunkingSettings().max_characters,
    max_pages=ParsingSettings().max_pages,
    max_unpacked_bytes=ParsingSettings().max_unpacked_mb << 20,
)
_WORD = re.compile(r"\w+")
_WITHOUT_HEADINGS = {".txt", ".xlsx", ".ods"}


@dataclass(slots=True)
class Score:
    """Sums over the files of one kind."""

    files: int = 0
    size: int = 0
    """Total size in bytes."""
    cpu_s: float = 0.0
    words: int = 0
    words_found: int = 0
    headings: int = 0
    headings_found: int = 0
    headings_false: int | None = None
    """Number of false headings; None: not counted."""
    tables: int = 0
    tables_found: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Number of refused files by reason, without file names."""


def score(files: Iterable[tuple[Path, Truth]]) -> Mapping[str, Score]:
    """Parse files; return a score for each kind, the part of the file name after the document's."""
    scores: defaultdict[str, Score] = defaultdict(Score)
    for path, truth in files:
        kind = path.name.removeprefix(f"{truth.name}.")
        if document := parsed(path.name, path.read_bytes(), scores[kind]):
            _compare_words(document, truth.items, scores[kind])
            if path.suffix not in _WITHOUT_HEADINGS:
                _compare_headings(document, truth.items, scores[kind])
            if path.suffix != ".txt":
                _compare_tables(document, truth.items, scores[kind])
    return scores


def parsed(name: str, content: bytes | str, into: Score) -> ParsedDocument | None:
    """Parse a document and count it, or the reason for its refusal."""
    into.files += 1
    into.size += len(content) if isinstance(content, bytes) else len(content.encode())
    start = time.process_time()
    try:
        return parse(name, None, content, limits=LIMITS).document
    except UnreadableContent as error:
        into.refused[str(error).removeprefix(f"{name}: ")] += 1
        return None
    finally:
        into.cpu_s += time.process_time() - start


def _compare_words(document: ParsedDocument, items: Sequence[Item], into: Score) -> None:
    true, found = Counter(_words(" ".join(item.words for item in items))), Counter(_words(document.text))
    into.words += true.total()
    into.words_found += (true & found).total()


def _compare_headings(document: ParsedDocument, items: Sequence[Item], into: Score) -> None:
    true = Counter(_folded(item.text) for item in items if item.kind is Kind.HEADING)
    found = Counter(_folded(block.title) for block in document.blocks if block.kind is BlockKind.HEADING)
    into.headings += true.total()
    into.headings_found += (true & found).total()
    into.headings_false = (into.headings_false or 0) + (found - true).total()


def _compare_tables(document: ParsedDocument, items: Sequence[Item], into: Score) -> None:
    """Count tables whose first row is found completely."""
    true = Counter(_folded("".join(item.rows[0])) for item in items if item.kind is Kind.TABLE)
    into.tables += true.total()
    into.tables_found += (true & Counter(_first_rows(document))).total()


def _first_rows(document: ParsedDocument) -> Iterator[str]:
    for block in document.blocks:
        if block.kind is BlockKind.TABLE:
            yield _folded(document.text[block.start : block.end].partition("\n")[0])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.replace("\u00ad", ""))


def _folded(text: str) -> str:
    return "".join(_WORD.findall(text)).casefold()
