"""Marker words that identify the revision of a document: one at its beginning, one at its end."""

import hashlib
import re
from collections.abc import Iterable
from enum import StrEnum

PLACES = ("first", "last")


class Sighting(StrEnum):
    """State of a document as seen by one query."""

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
        """Whether one whole revision was seen, old or new."""
        return self in {Sighting.OLD, Sighting.NEW}


def marker_of(document_id: str) -> str:
    """Return a word that occurs in no other document."""
    return "kestrel" + hashlib.sha256(document_id.encode()).hexdigest()[:8]


def marked(text: str, document_id: str, *, revision: str) -> str:
    """Add the marker before and after a text, as separate paragraphs; revision: old or new."""
    marker = marker_of(document_id)
    # A single word names the revision, so that no splitter cuts it.
    first, last = (f"Remark {marker}: {marker}_{place}_{revision}." for place in PLACES)
    return f"{first}\n\n{text}\n\n{last}\n"


def seen_in(texts: Iterable[str], document_id: str) -> Sighting:
    """Return the state of a document shown by the texts found."""
    pattern = re.compile(rf"{marker_of(document_id)}_([a-z]+)_([a-z]+)")
    seen = {found for text in texts for found in pattern.findall(text)}
    revisions = {revision for _, revision in seen}
    if not revisions:
        return Sighting.HOLE
    if len(revisions) > 1:
        return Sighting.MIX
    return Sighting(revisions.pop()) if len(seen) == len(PLACES) else Sighting.PART
