"""Read the chunks around hits."""

from collections.abc import Collection, Sequence

from freki.operators.augment import SectionWindow, document_around, neighbours_of, section_around
from freki.schemas import NoticeKind, QueryType
from freki.streams.ports import ReadableRows
from freki.streams.retrieve.budget.attempts import SHOWING, Attempts
from freki.streams.retrieve.candidates import Further, LocatedHit, LocatedHits, Surrounding, Surroundings
from freki.streams.retrieve.parsed_query import EmbeddedQuery
from freki.streams.retrieve.query_log import timed

AUGMENT = "augment"
SECTION_CHARACTERS = 4000
"""Maximum characters of a section, about 1,000 tokens of German: of a longer one only a part is shown."""
BEST_DOCUMENTS = 3
"""Documents shown as a whole, as far as they fit, if the query asks for a list."""


class Surround:
    """The step that adds sections and neighbours to hits, by the manifest, and texts to all of them, by the rows."""

    def __init__(self, rows: ReadableRows, attempts: Attempts) -> None:
        self._rows = rows
        self._attempts = attempts

    async def __call__(
        self, query: EmbeddedQuery, hits: LocatedHits, further: Sequence[Further], extras: Collection[str]
    ) -> Surroundings:
        """Choose what is shown around the hits, and read its text and that of further chunks, if there is time."""
        if AUGMENT not in extras or self._attempts.spare_s(query, before=SHOWING) <= 0:
            query.log.notice(AUGMENT, NoticeKind.SKIPPED, "no time was left for sections and neighbours")
            return Surroundings()
        of_hits = {each.chunk_id: _surrounding(query, hits, each) for each in hits.found}
        entries = [entry for each in of_hits.values() for entry in each.shown]
        wanted = {entry.row_id: entry.chunk_id for entry in (*entries, *(each.entry for each in further))}
        with timed([query.log], AUGMENT, lambda _: len(hits.found)):
            passages = await self._attempts([query], AUGMENT, self._rows.passages(list(wanted))) or {}
        return Surroundings(of_hits=of_hits, passages={wanted[row_id]: passage for row_id, passage in passages.items()})


def _surrounding(query: EmbeddedQuery, hits: LocatedHits, hit: LocatedHit) -> Surrounding:
    neighbours = neighbours_of(hit.near, hit.chunk_id, count=query.options.neighbours)
    return Surrounding(section=_section(query, hits, hit), neighbours=neighbours)


def _section(query: EmbeddedQuery, hits: LocatedHits, hit: LocatedHit) -> SectionWindow | None:
    """Choose the section around a hit, or its document if the query asks for a list.

    The items of a list are spread over a document, and no ranking of its chunks is sure to have them all.
    """
    if not query.options.parents:
        return None
    if query.analysis.query_type is QueryType.AGGREGATIVE and _is_best(hits, hit):
        return document_around(hit.near, hit.chunk_id)
    return section_around(hit.near, hit.chunk_id, max_characters=SECTION_CHARACTERS)


def _is_best(hits: LocatedHits, hit: LocatedHit) -> bool:
    return hit.root.document_id in {root.document_id for root in hits.best_roots(BEST_DOCUMENTS)}
