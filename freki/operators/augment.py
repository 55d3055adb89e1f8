"""What stands around a hit in its document: its section, and the chunks before and after it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from freki.schemas import ChunkId, ContextPart
from freki.schemas.index import ManifestEntry


class Section(NamedTuple):
    """The part of a section that is shown around a hit."""

    path: str
    entries: tuple[ManifestEntry, ...]
    """Consecutive leaves in reading order, the hit among them."""


class Neighbours(NamedTuple):
    """The leaves next to a hit, in reading order."""

    before: tuple[ManifestEntry, ...]
    after: tuple[ManifestEntry, ...]


def section_around(
    manifest: Sequence[ManifestEntry], chunk_id: ChunkId, *, max_characters: int = 4000
) -> Section | None:
    """Choose leaves of the hit's section: as many around the hit as span at most `max_characters`.

    manifest: all live chunks of the document, in reading order. A leaf is a chunk that no other lies under. The
    section of a leaf is what its path names before the last slash; that of a summary is what it sums up, read from
    its beginning. None where that would show nothing but the hit: it is its section, or its neighbours are too long.
    Raises KeyError where the hit is not in the manifest.
    """
    hit = _entry(manifest, chunk_id)
    leaves = _leaves(manifest)
    summary = hit not in leaves
    path = hit.path if summary else _parent(hit.path)
    if not summary and "/" not in path:
        return None
    inside = [leaf for leaf in leaves if leaf.path.startswith(path + "/")]
    anchor = 0 if summary else inside.index(hit)
    entries = _window(inside, anchor, max_characters)
    if not summary and len(entries) == 1:
        return None
    return Section(path, entries) if entries else None


def neighbours_of(manifest: Sequence[ManifestEntry], chunk_id: ChunkId, *, count: int = 1) -> Neighbours:
    """Choose up to `count` leaves before and after the hit.

    They stay within the section as long as it has leaves on that side; at its border they come from the next one,
    and the document is where they end. A summary has no neighbours: its place is the section that it sums up.
    Raises KeyError where the hit is not in the manifest, ValueError if `count` is negative.
    """
    if count < 0:
        raise ValueError(f"count must be at least 0, got {count}")
    hit = _entry(manifest, chunk_id)
    leaves = _leaves(manifest)
    if hit not in leaves or not count:
        return Neighbours((), ())
    place = leaves.index(hit)
    before, after = leaves[:place], leaves[place + 1 :]
    section = _parent(hit.path) + "/"
    return Neighbours(tuple(_same_side(before, section)[-count:]), tuple(_same_side(after, section)[:count]))


def section_part(section: Section, texts: Mapping[ChunkId, str]) -> ContextPart | None:
    """Put a section together: character i of its text is character start + i of the document.

    What no chunk holds, or whose text is missing, is blank. None where all texts are missing.
    """
    start, end = section.entries[0].start, section.entries[-1].end
    pieces: list[str] = []
    at = start
    for entry in section.entries:
        text = texts.get(entry.chunk_id, "")
        if len(text) == entry.end - entry.start and entry.end > at:
            pieces += [_blank(entry.start - at), text[max(at - entry.start, 0) :]]
            at = entry.end
    if not pieces:
        return None
    text = "".join(pieces) + _blank(end - at)
    return ContextPart(chunk_id=None, path=section.path, start=start, end=end, text=text)


def neighbour_parts(entries: Sequence[ManifestEntry], texts: Mapping[ChunkId, str]) -> tuple[ContextPart, ...]:
    """Make parts of neighbours; those whose text is missing are left out."""
    return tuple(
        ContextPart(
            chunk_id=entry.chunk_id, path=entry.path, start=entry.start, end=entry.end, text=texts[entry.chunk_id]
        )
        for entry in entries
        if entry.chunk_id in texts
    )


def _entry(manifest: Sequence[ManifestEntry], chunk_id: ChunkId) -> ManifestEntry:
    for entry in manifest:
        if entry.chunk_id == chunk_id:
            return entry
    raise KeyError(chunk_id)


def _leaves(manifest: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    parents = {_parent(entry.path) for entry in manifest}
    return [entry for entry in manifest if entry.path not in parents]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _same_side(side: list[ManifestEntry], section: str) -> list[ManifestEntry]:
    return [entry for entry in side if entry.path.startswith(section)] or side


def _window(leaves: Sequence[ManifestEntry], anchor: int, max_characters: int) -> tuple[ManifestEntry, ...]:
    """Grow from the anchor, one leaf after and one before in turn, until no side has room."""
    first, end = anchor, anchor + 1
    grown = True
    while grown:
        grown = False
        if end < len(leaves) and leaves[end].end - leaves[first].start <= max_characters:
            end, grown = end + 1, True
        if first > 0 and leaves[end - 1].end - leaves[first - 1].start <= max_characters:
            first, grown = first - 1, True
    return tuple(leaves[first:end])


def _blank(characters: int) -> str:
    """Fill a gap with white space that reads as a break."""
    return "\n" * characters if characters <= len("\n\n") else "\n" + " " * (characters - 2) + "\n"
