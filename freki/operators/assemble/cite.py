"""Citations, and protection against text that imitates them."""

import re
import unicodedata

from freki.schemas import ChunkId, CitationStyle, DocumentId
from freki.schemas.defusing import NAMED_CITATION, defuse, plain

MAX_NAME_CHARS = 120


def cite(
    rank: int,
    *,
    name: str,
    document_id: DocumentId,
    chunk_id: ChunkId,
    place: str = "",
    style: CitationStyle = CitationStyle.QUELLE,
) -> str:
    """Return the mark of a hit: `[QUELLE-1: name, place | chunk:id]` or `[Document 1: document_id, place]`.

    Names are one line of at most 120 characters; brackets and bars in them are replaced by parentheses and slashes, so
    that no name can end a citation or start another. place: from `place_of`.
    """
    where = f", {place}" if place else ""
    if style is CitationStyle.DOCUMENT:
        return f"[Document {rank}: {label(document_id)}{where}]"
    return f"[QUELLE-{rank}: {label(name)}{where} | chunk:{chunk_id}]"


def place_of(first_page: int, last_page: int, *, media_type: str, language: str) -> str:
    """Return the pages of a span for a citation: `S. 12`, `S. 12–13`, in all languages but German `p. 12`.

    Presentations have slides, workbooks have sheets. Empty for page 0: the document has no pages.
    """
    if not first_page:
        return ""
    german, other = next((words for kind, words in _PAGE_NAMES.items() if kind in media_type), ("S.", "p."))
    pages = str(first_page) if first_page == last_page else f"{first_page}–{last_page}"
    return f"{german if language == 'de' else other} {pages}"


_PAGE_NAMES = {"presentation": ("Folie", "slide"), "spreadsheet": ("Blatt", "sheet")}
"""Name of a page by part of the media type, in German and in all other languages."""

_PARENTHESES = {"[": "(", "【": "(", "〔": "(", "]": ")", "】": ")", "〕": ")", "|": "/"}
_MARK = re.compile(r"[^\w\s]")


def label(text: str) -> str:
    """Return the text as one short line that cannot end a citation."""
    shown = " ".join((text if text.isprintable() else _visible(text)).split())
    line = _MARK.sub(lambda found: _PARENTHESES.get(plain(found[0]), found[0]), shown)
    return line if len(line) <= MAX_NAME_CHARS else line[: MAX_NAME_CHARS - 1] + "…"


def _visible(text: str) -> str:
    shown = (letter for letter in text if unicodedata.category(letter) not in {"Cf", "Cs", "Co", "Cn"})
    return "".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in shown)


_CITATION = re.compile(NAMED_CITATION, re.IGNORECASE)


def harmless(text: str) -> str:
    """Replace the opening bracket by a parenthesis where text looks like a citation, also in look-alike characters."""
    return defuse(text, _CITATION, "(")
