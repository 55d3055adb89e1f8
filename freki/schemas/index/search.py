"""Input and output of search and of reranking."""

from collections.abc import Mapping

from freki.schemas.conditions import Condition
from freki.schemas.context_query import Filter
from freki.schemas.index.keys import RowId
from freki.schemas.names import ChunkId, RootId, TenantId, record


@record
class RerankPair:
    """A query and the text of a candidate."""

    query: str
    heading: str
    """Innermost heading above the text; empty where there is none."""
    text: str
    """Embedded text: breadcrumb and text of the chunk."""


@record
class Exclusions:
    """Documents of a tenant that searches leave out, because of objections."""

    everything: bool = False
    roots: tuple[RootId, ...] = ()
    attributes: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Keys and values of which a document has all of one group."""

    def has(self, root_id: RootId, attributes: Mapping[str, str]) -> bool:
        """Return whether a document with these attributes is left out."""
        return (
            self.everything
            or root_id in self.roots
            or any(all(attributes.get(key) == value for key, value in group) for group in self.attributes)
        )


@record
class Scope:
    """The rows that a search may see, by tenant, access rights and filters. Default deny."""

    tenant: TenantId
    principals: tuple[str, ...]
    levels: tuple[int, ...]
    filters: tuple[Filter, ...]
    left_out: Exclusions = Exclusions()
    where: Condition | None = None
    """Holds besides the filters."""


@record
class Candidate:
    """A chunk found by a retriever."""

    chunk_id: ChunkId
    row_id: RowId
    """Row that was found; the live revision of the document may have another one of the chunk."""
    root_id: RootId
    score: float
    """Cosine similarity, or BM25; higher is better; comparable within one ranking."""
    version: int = 0
    """Version of the revision that wrote the row, as `edition`."""
    edition: int = 0
