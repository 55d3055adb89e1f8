"""Context expansion: the section of a hit, and the chunks before and after it."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from freki.schemas import ChunkId, ContextPart
from freki.schemas.index import ManifestEntry, Passage

ROOT_PATH = "0"


class SectionWindow(NamedTuple):
    """The part of a section that is shown around a hit."""

    path: str
    entries: tuple[ManifestEntry, ...]
    """Consecutive leaves in reading order, the hit among them."""
    room: int = 0
    """Characters before the first leaf that are in no other one, of its heading; 0: the limit has no room for them."""


class Neighbours(NamedTuple):
    """The leaves next to a hit, in reading order."""

    before: tuple[ManifestEntry, ...]
    after: tuple[ManifestEntry, ...]


def section_around(
    manifest: Sequence[ManifestEntry], chunk_id: ChunkId, *, max_characters: int = 4000
) -> SectionWindow | None:
    """Return the leaves of the hit's section around the hit that span at most `max_characters`, `room` among them.

    manifest: all live chunks of the document, in reading order, a section before its children. A leaf is a chunk
    without children. The section of a leaf is its path up to the last slash; that of a summary is the summarised one,
    from its beginning. None where the result would be the hit alone: it is the whole section, or its neighbours are too
    long.
    Raises KeyError where the hit is not in the manifest.
    """
    place = _place(manifest, chunk_id)
    summary = not _is_leaf(manifest, place)
    path = manifest[place].path if summary else _parent(manifest[place].path)
    if not summary and "/" not in path:
        return None
    after = _while_in(path, _leaves(manifest, range(place + 1, len(manifest))))
    before = () if summary else _while_in(path, _leaves(manifest, range(place - 1, -1, -1)))
    hit = next(after, None) if summary else manifest[place]
    entries = _window(before, hit, after, max_characters) if hit else []
    return _shown(manifest, path, entries, max_characters) if summary or len(entries) > 1 else None


def document_around(
    manifest: Sequence[ManifestEntry], chunk_id: ChunkId, *, max_characters: int = 8000, max_leaves: int = 20
) -> SectionWindow | None:
    """Return the leaves of the document around the hit that fit both limits, as a section `0`.

    None where the result would be the hit alone. A summary counts as the first leaf below it.
    Raises KeyError where the hit is not in the manifest.
    """
    place = _place(manifest, chunk_id)
    hit = next(_leaves(manifest, range(place, len(manifest))))
    place = _place(manifest, hit.chunk_id)
    after = _leaves(manifest, range(place + 1, len(manifest)))
    before = _leaves(manifest, range(place - 1, -1, -1))
    entries = _window(before, hit, after, max_characters, max_leaves)
    if [entry.chunk_id for entry in entries] == [chunk_id]:
        return None
    return _shown(manifest, ROOT_PATH, entries, max_characters)


def neighbours_of(manifest: Sequence[ManifestEntry], chunk_id: ChunkId, *, count: int = 1) -> Neighbours:
    """Return up to `count` leaves before and after the hit.

    They come from the section as long as it has leaves on that side, at its border from the adjacent section. A summary
    has no neighbours.
    manifest: as for `section_around`.
    Raises KeyError where the hit is not in the manifest, ValueError if `count` is negative.
    """
    if count < 0:
        raise ValueError(f"count must be at least 0, got {count}")
    place = _place(manifest, chunk_id)
    if not _is_leaf(manifest, place):
        return Neighbours((), ())
    section = _parent(manifest[place].path)
    before = _near(section, _leaves(manifest, range(place - 1, -1, -1)), count)
    after = _near(section, _leaves(manifest, range(place + 1, len(manifest))), count)
    return Neighbours(tuple(before[::-1]), tuple(after))


def leaf_gaps(manifest: Sequence[ManifestEntry]) -> frozenset[tuple[int, int]]:
    """Return the end and start of each two leaves that follow each other: headings alone stand between them.

    manifest: chunks of a document in reading order; some may be missing.
    """
    places = [place for place in range(len(manifest)) if _is_leaf(manifest, place)]
    return frozenset(
        (manifest[one].end, manifest[other].start)
        for one, other in pairwise(places)
        if manifest[other].ordinal - manifest[one].ordinal == other - one
    )


def first_leaf(manifest: Sequence[ManifestEntry]) -> ChunkId | None:
    """Return the first leaf of a document, from the beginning of its manifest; None where that is empty."""
    return next((entry.chunk_id for entry in _leaves(manifest, range(len(manifest)))), None)


def section_part(section: SectionWindow, passages: Mapping[ChunkId, Passage]) -> ContextPart | None:
    """Return the text of a section: character i is character start + i of the document.

    Characters outside of chunks, or of missing texts, are blank, except that a heading which changes between two leaves
    is written into the gap if it fits; then that of the first leaf stands before it, if the window has room. None where
    all texts are missing.
    """
    first, end = section.entries[0], section.entries[-1].end
    there = [(entry, passages[entry.chunk_id]) for entry in section.entries if _fits(passages, entry)]
    if not there:
        return None
    at, path = first.start, there[0][1].heading_path
    changes = first is there[0][0] and any(passage.heading_path != path for _, passage in there)
    opening = _opening(there[0][1].heading, section.room) if changes else ""
    pieces = [opening]
    for entry, passage in there:
        if entry.end <= at:
            continue
        title = passage.heading if passage.heading_path != path else ""
        pieces += [_gap(entry.start - at, title), passage.text[max(at - entry.start, 0) :]]
        at, path = entry.end, passage.heading_path
    text = "".join(pieces) + _blank(end - at)
    return ContextPart(chunk_id=None, path=section.path, start=first.start - len(opening), end=end, text=text)


def neighbour_parts(entries: Sequence[ManifestEntry], passages: Mapping[ChunkId, Passage]) -> tuple[ContextPart, ...]:
    """Return the parts of neighbours; those without text are left out."""
    return tuple(
        ContextPart(
            chunk_id=entry.chunk_id,
            path=entry.path,
            start=entry.start,
            end=entry.end,
            text=passages[entry.chunk_id].text,
        )
        for entry in entries
        if entry.chunk_id in passages
    )


def _place(manifest: Sequence[ManifestEntry], chunk_id: ChunkId) -> int:
    for place, entry in enumerate(manifest):
        if entry.chunk_id == chunk_id:
            return place
    raise KeyError(chunk_id)


def _is_leaf(manifest: Sequence[ManifestEntry], place: int) -> bool:
    return place + 1 == len(manifest) or not _lies_in(manifest[place].path, manifest[place + 1])


def _leaves(manifest: Sequence[ManifestEntry], places: Iterable[int]) -> Iterator[ManifestEntry]:
    return (manifest[place] for place in places if _is_leaf(manifest, place))


def _lies_in(path: str, entry: ManifestEntry) -> bool:
    return entry.path.startswith(f"{path}/")


def _while_in(path: str, entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
    return takewhile(lambda entry: _lies_in(path, entry), entries)


def _near(section: str, side: Iterator[ManifestEntry], count: int) -> list[ManifestEntry]:
    """Return the first entries of a side: those of the section, or any if it has none there."""
    near = list(islice(side, count))
    return list(_while_in(section, near)) or near


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _window(
    before: Iterable[ManifestEntry],
    hit: ManifestEntry,
    after: Iterable[ManifestEntry],
    max_characters: int,
    max_leaves: int = sys.maxsize,
) -> list[ManifestEntry]:
    """Grow from the hit, alternating one leaf after and one before, until neither fits."""
    window = deque([hit])
    sides = [iter(after), iter(before)]
    while sides and len(window) < max_leaves:
        side = sides.pop(0)
        entry = next(side, None)
        if entry is None:
            continue
        start, end = min(entry.start, window[0].start), max(entry.end, window[-1].end)
        if end - start > max_characters:
            continue
        if entry.start < window[0].start:
            window.appendleft(entry)
        else:
            window.append(entry)
        sides.append(side)
    return list(window)


def _shown(
    manifest: Sequence[ManifestEntry], path: str, entries: Sequence[ManifestEntry], max_characters: int
) -> SectionWindow:
    """Return the window of some leaves, with the room before them."""
    if not entries:
        return SectionWindow(path, ())
    first = entries[0]
    before = _leaves(manifest, range(_place(manifest, first.chunk_id) - 1, -1, -1))
    # Of a document that is not given from its beginning, nothing is known of what stands before.
    begin = first.start if manifest[0].ordinal else 0
    free = first.start - next((leaf.end for leaf in before), begin)
    fits = 0 <= free <= max_characters - (entries[-1].end - first.start)
    return SectionWindow(path, tuple(entries), free if fits else 0)


def _fits(passages: Mapping[ChunkId, Passage], entry: ManifestEntry) -> bool:
    """Return whether the text of a leaf is there, and as long as its span."""
    return entry.chunk_id in passages and len(passages[entry.chunk_id].text) == entry.end - entry.start


def _opening(title: str, room: int) -> str:
    """Return the heading on a line before a section, where `_gap` has it in one that begins earlier; else nothing."""
    gap = _gap(room, title)
    return gap[1:] if gap.strip() else ""


def _gap(characters: int, title: str) -> str:
    """Return a gap of so many characters, with the heading on a line of its own if it fits."""
    room = characters - len(title) - 2
    return f"\n{title}{' ' * room}\n" if title and room >= 0 else _blank(characters)


def _blank(characters: int) -> str:
    """Return white space of so many characters that reads as a paragraph break."""
    return "\n" * characters if characters <= len("\n\n") else "\n" + " " * (characters - 2) + "\n"
