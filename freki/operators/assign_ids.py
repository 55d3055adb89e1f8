"""Document ids of sources: each source keeps the id that it has in the index, and none takes that of another."""

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from freki.schemas import DocumentId


class IndexedSource(NamedTuple):
    """A live document of the index."""

    document_id: DocumentId
    source_uri: str | None
    version: int


class Conflict(NamedTuple):
    """A source whose id belongs to another one."""

    document_id: DocumentId
    source_uri: str
    owner: str | None
    """Source of the indexed document; None if it states none."""

    @property
    def is_of_twins(self) -> bool:
        """Whether the sources have the same name in different Unicode forms."""
        return self.owner is not None and composed(self.owner) == composed(self.source_uri)


class Assignment(NamedTuple):
    """Ids of sources."""

    ids: Mapping[str, DocumentId]
    """Document id by source."""
    conflicts: list[Conflict]
    superseded: list[DocumentId]
    """Further indexed documents of the same sources, sorted."""


def assign_ids(
    wanted: Mapping[str, DocumentId],
    indexed: Iterable[IndexedSource],
    *,
    chosen: bool = False,
    missing: Collection[str] = (),
) -> Assignment:
    """Assign an id to each source.

    wanted: id of each source that is not indexed yet; chosen: whether the user chose these ids, so that indexed sources
    get them too, and take over ids whose source is missing. indexed: the documents with these ids or sources.
    missing: sources of indexed documents that do not exist any more. One with the same name in another Unicode form is
    the same source, which was renamed.

    Of several documents of a source, the one with the wanted id is kept, else the one of the highest version, then of
    the smallest id. A source with a conflict keeps all documents that it has. Of sources that differ in Unicode form
    only, the one in form NFC gets a free id. Without conflicts, ids are distinct, and each is free or belongs to its
    source, to a source that gets another id, or to a missing one.
    """
    documents = sorted(indexed, key=lambda each: (-each.version, each.document_id))
    owners = {each.document_id: each.source_uri for each in documents}
    own: defaultdict[str, list[DocumentId]] = defaultdict(list)
    for each in documents:
        if each.source_uri is not None and each.source_uri in wanted:
            own[each.source_uri].append(each.document_id)
    # What is to be published is there, whatever was seen before.
    away = frozenset(missing) - wanted.keys()
    conflicts: dict[str, Conflict] = {}
    while True:
        ids = {
            source: document_id
            if source not in own or document_id in own[source] or (chosen and source not in conflicts)
            else own[source][0]
            for source, document_id in wanted.items()
        }
        found = {each.source_uri: each for each in _conflicts(ids, owners, conflicts, chosen=chosen, missing=away)}
        if found.keys() <= conflicts.keys():
            break
        # They keep what they have, which others may have counted on.
        conflicts |= {source: each for source, each in found.items() if source not in conflicts}
    superseded = {each for source, those in own.items() if source not in conflicts for each in those}
    return Assignment(ids, list(conflicts.values()), sorted(superseded - set(ids.values())))


def _conflicts(
    ids: Mapping[str, DocumentId],
    owners: Mapping[DocumentId, str | None],
    refused: Collection[str],
    *,
    chosen: bool,
    missing: Collection[str],
) -> Iterator[Conflict]:
    """Yield the sources whose id belongs to another one; refused: those that keep all that they have."""
    taken: dict[DocumentId, str] = {}
    for source, document_id in sorted(ids.items(), key=lambda pair: composed(pair[0]) != _plain(pair[0])):
        owner = owners.get(document_id, source)
        is_free = (owner is not None and owner not in refused) and (
            ids.get(owner, document_id) != document_id
            or (owner in missing and (chosen or composed(owner) == composed(source)))
        )
        if owner != source and not is_free:
            yield Conflict(document_id, source, owner)
        elif taken.setdefault(document_id, source) != source:
            yield Conflict(document_id, source, taken[document_id])


def composed(source: str) -> str:
    """Return an address without escapes, in Unicode form NFC."""
    return unicodedata.normalize("NFC", _plain(source))


def _plain(source: str) -> str:
    return unquote(source, errors="surrogateescape")
