"""What retrieval depends on: the store, models, clocks, and the settings of queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from freki.operators.analyse_text import query_terms
from freki.operators.rephrase import Thesaurus
from freki.schemas import ChunkId, TenantId, Timestamp
from freki.schemas.embeddings import QueryEmbedding
from freki.schemas.index import Exclusions, ManifestPage, PageId, Place
from freki.schemas.names import record
from freki.schemas.query_options import QueryOptions
from freki.streams.ports import AnalyseText, Cache, ChunkSearch, Embedder, EmbedTexts, ReadableRows, Reranker, Roots
from freki.streams.retrieve.profiles import ReaderProfile
from freki.streams.retrieve.steps.rewrite import Rewriter

Places = Mapping[PageId, Mapping[ChunkId, Place]]
"""What manifest pages of one document name."""


@record
class Stores:
    """Parts of the store, and the consistency of searches in it."""

    search: ChunkSearch
    rows: ReadableRows
    roots: Roots
    places: Cache[Places]
    """Places that were read before, by document."""
    pages: Cache[ManifestPage]
    """Manifest pages that were read before."""
    strong: bool
    """Strong consistency, else bounded."""
    generation: str
    """Name of the index, which results tell."""


@record
class RetrievalModels:
    """Models that retrieval calls."""

    embedder: Embedder
    rerankers: Sequence[Reranker] = ()
    rewriter: Rewriter | None = None
    embeddings: Cache[QueryEmbedding] | None = None
    """Cache of embedded queries."""
    embed_examples: EmbedTexts | None = None
    """Embeds the examples of query types; None: the embedder."""
    late_interaction: bool = True
    """Whether stored token vectors rank candidates."""


@record
class QueryDefaults:
    """How queries are parsed."""

    options: QueryOptions
    profiles: Mapping[str, ReaderProfile] = field(default_factory=dict)
    """Limits of models that read the context, by name."""
    analyse_text: AnalyseText = query_terms
    left_out: Callable[[TenantId], Exclusions] = lambda _: Exclusions()
    """Returns what answers to a tenant leave out now, because of objections."""
    thesaurus: Thesaurus = field(default_factory=Thesaurus)
    """Synonyms of the domain."""


@record
class Clocks:
    """Clocks of retrieval."""

    now: Callable[[], Timestamp]
    """Wall clock, which deadlines are compared with."""
    ns: Callable[[], int]
    """Nanoseconds of a monotonic clock, for durations."""
