"""Words by which a query can tell which revision of a document it sees: one at its beginning, one at its end."""

import hashlib
import re
from collections.abc import Iterable
from enum import StrEnum

PLACES = ("first", "last")


class Sighting(StrEnum):
    """What one query saw of one document."""

    OLD = "old"
    NEW = "new"
    HOLE = "hole"
    """Neither revision."""
    MIX = "mix"
    """Chunks of both."""
    PART = "part"
    """One revision, without its beginning or its end."""

    @property
    def is_right(self) -> bool:
        """A whole revision, whichever."""
        return self in {Sighting.OLD, Sighting.NEW}


def marker_of(document_id: str) -> str:
    """Give a word that stands in no other document."""
    return "kestrel" + hashlib.sha256(document_id.encode()).hexdigest()[:8]


def marked(text: str, document_id: str, *, revision: str) -> str:
    """Put the marker before and after a text, as paragraphs of their own; revision: old or new."""
    marker = marker_of(document_id)
    # What tells the revision is one word, so that no splitter cuts it.
    first, last = (f"Remark {marker}: {marker}_{place}_{revision}." for place in PLACES)
    return f"{first}\n\n{text}\n\n{last}\n"


def seen_in(texts: Iterable[str], document_id: str) -> Sighting:
    """Tell what the texts that a query found show of a document."""
    pattern = re.compile(rf"{marker_of(document_id)}_([a-z]+)_([a-z]+)")
    seen = {found for text in texts for found in pattern.findall(text)}
    revisions = {revision for _, revision in seen}
    if not revisions:
        return Sighting.HOLE
    if len(revisions) > 1:
        return Sighting.MIX
    return Sighting(revisions.pop()) if len(seen) == len(PLACES) else Sighting.PART
