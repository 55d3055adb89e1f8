"""Records of the store: roots, manifest pages and chunk rows; scope and result of a search.

docs/commit-protocol.md says how several workers write these without ever overwriting each other.
"""

from freki.schemas.index.chunk_rows import ChunkContent, IndexedChunk, Passage, RowHead, StoredRow
from freki.schemas.index.generation import (
    Generation,
    GenerationEntry,
    KindEmbedder,
    Statistics,
    answering,
    offered,
    serving,
)
from freki.schemas.index.keys import (
    Attempt,
    CommitId,
    PageId,
    RowId,
    attempt_of_page,
    attempt_of_row,
    chunk_of_row,
    page_id,
    root_of_page,
    row_id,
)
from freki.schemas.index.manifests import ManifestEntry, ManifestPage, PageHead, Place
from freki.schemas.index.roots import Rank, Root, Watermark, deleted, places_in, standing
from freki.schemas.index.search import Candidate, Exclusions, RerankPair, Scope
from freki.schemas.index.selection import Selection

__all__ = [
    "Attempt",
    "Candidate",
    "ChunkContent",
    "CommitId",
    "Exclusions",
    "Generation",
    "GenerationEntry",
    "IndexedChunk",
    "KindEmbedder",
    "ManifestEntry",
    "ManifestPage",
    "PageHead",
    "PageId",
    "Passage",
    "Place",
    "Rank",
    "RerankPair",
    "Root",
    "RowHead",
    "RowId",
    "Scope",
    "Selection",
    "Statistics",
    "StoredRow",
    "Watermark",
    "answering",
    "attempt_of_page",
    "attempt_of_row",
    "chunk_of_row",
    "deleted",
    "offered",
    "page_id",
    "places_in",
    "root_of_page",
    "row_id",
    "serving",
    "standing",
]
