"""What a service asks."""

from enum import StrEnum

from freki.schemas.names import ChunkId, DocumentId, QueryId, TenantId, Timestamp, record


class RequestKind(StrEnum):
    """What is asked for."""

    RETRIEVE = "RETRIEVE"
    """Context for a query, by all that Freki knows."""
    KEYWORD_SEARCH = "KEYWORD_SEARCH"
    """Chunks that have the words of the text, by BM25 alone, with snippets around the words."""
    SEMANTIC_SEARCH = "SEMANTIC_SEARCH"
    """Chunks that mean what the text means, by vectors alone."""
    CHUNK_READ = "CHUNK_READ"
    """Chunks that are named by `chunk_ids` or `document_ids`, with what stands around them; the text is not used."""


class Fusion(StrEnum):
    """How rankings become one."""

    WEIGHTED = "WEIGHTED"
    """alpha x dense + (1 - alpha) x BM25, each min-max normalised within its ranking."""
    RRF = "RRF"
    """Reciprocal rank fusion."""
    ZSCORE = "ZSCORE"
    """As WEIGHTED, each by how many standard deviations a score is above the mean of its ranking."""
    TMM = "TMM"
    """As WEIGHTED, each between the least score that there can be (cosine -1, BM25 0) and its best."""
    ARCTAN = "ARCTAN"
    """As WEIGHTED, by the cosine as it is and the arctangent of BM25: a hit's score does not depend on others."""


class Metric(StrEnum):
    """Measure of dense search: what is fused and shown as `dense_score`.

    Vectors have length 1, so the ranking of dense search is the same in all three. Euclidean distance weighs the
    nearest more where rankings are fused by score.
    """

    COSINE = "COSINE"
    DOT = "DOT"
    EUCLIDEAN = "EUCLIDEAN"
    """Negative distance, so that higher is better."""


class RerankerChoice(StrEnum):
    """Which reranker may be used; a later one of the chain steps in where the chosen one fails."""

    AUTO = "AUTO"
    """Remote services where configured, else local where there is one, else cosine."""
    REMOTE = "REMOTE"
    VERTEX = "VERTEX"
    """Vertex AI."""
    LOCAL = "LOCAL"
    LLM = "LLM"
    """A language model grades the candidates; never part of AUTO."""
    COSINE = "COSINE"
    NONE = "NONE"
    """Keep the fused order."""


class FilterOperator(StrEnum):
    """How a field is compared."""

    EQ = "EQ"
    NE = "NE"
    IN = "IN"
    NOT_IN = "NOT_IN"
    PREFIX = "PREFIX"


class CitationStyle(StrEnum):
    """How hits are marked in the context text."""

    QUELLE = "QUELLE"
    """`[QUELLE-1: name | chunk:id]`"""
    DOCUMENT = "DOCUMENT"
    """`[Document 1: document_id]`"""


class Widening(StrEnum):
    """A kind of further searches beside that for the query as it was asked."""

    STATEMENT = "STATEMENT"
    """The query as the beginning of its answer: `Die Kündigungsfrist beträgt`."""
    SYNONYMS = "SYNONYMS"
    """Other words of the same meaning, from OpenThesaurus and WordNet."""
    COMPOUNDS = "COMPOUNDS"
    """German compounds, joined as the texts that were found write them, or split."""
    ABBREVIATIONS = "ABBREVIATIONS"
    """Short forms spelt out and long ones made short, as the texts that were found explain them."""
    SPELLING = "SPELLING"
    """Words as the texts that were found write them, where nobody else writes them as the query does."""
    TERMS = "TERMS"
    """The terms that the best texts say most, by BM25 alone (RM3)."""
    VECTOR = "VECTOR"
    """The query's vector, moved towards those of the best texts (Rocchio)."""
    PARAPHRASES = "PARAPHRASES"
    """The same query in the words of a language model, as are all that follow."""
    PERSPECTIVES = "PERSPECTIVES"
    """Queries about the same matter, more general, more specific, and by somebody else."""
    PARTS = "PARTS"
    """Sub-queries that the query consists of."""
    PASSAGE = "PASSAGE"
    """A made-up passage that would answer it (HyDE)."""


class WidenWhen(StrEnum):
    """When further searches are made."""

    ALWAYS = "ALWAYS"
    WEAK = "WEAK"
    """Where what the query itself found looks weak; SPELLING wherever a word is not known."""


FILTER_FIELDS = ("document_id", "name", "media_type", "language", "kind")
"""Fields of a chunk that a filter may name, besides attributes."""
ATTRIBUTE_PREFIX = "attributes."
"""Prefix of the name of an attribute in a filter."""


@record
class Filter:
    """A condition that every hit must meet."""

    field: str
    """document_id, name, media_type, language, kind, or attributes.KEY."""
    operator: FilterOperator
    values: tuple[str, ...]
    """One value, or several for IN and NOT_IN."""


@record
class VersionFloor:
    """Wait until the index holds at least this version of the document, within the deadline."""

    document_id: DocumentId
    version: int


@record
class ContextQuery:
    """One query. Each option that is null takes the service's setting. Key of the record: `query_id`."""

    query_id: QueryId
    """Correlates query and answer; unique per query, a UUID for example."""
    tenant: TenantId
    text: str
    """1 to 1,000,000 characters; may be empty for CHUNK_READ."""
    asked_at: Timestamp
    principals: tuple[str, ...] = ()
    """Who asks: user and group names. Hits need one of them, or `everyone`, among their principals."""
    deadline_ms: int | None = None
    """Time from `asked_at` until the answer must leave; late steps are skipped and named."""
    reply_to: str | None = None
    """Topic for the answer; must be on the allow-list; null: the contexts topic."""
    top_k: int | None = None
    """How many hits."""
    candidates: int | None = None
    """How deep each retriever looks; null: max(200, 10 x top_k)."""
    levels: tuple[int, ...] | None = None
    """Chunk levels to search; null: by query type."""
    language: str | None = None
    """ISO 639-1; null: detected."""
    filters: tuple[Filter, ...] = ()
    """All of them must hold."""
    fusion: Fusion | None = None
    alpha: float | None = None
    """Weight of dense search in 0..1; null: less the better the words match, see `lexical_pivot`; less for keywords."""
    lexical_pivot: float | None = None
    """BM25 score of the best match at which both searches weigh the same; only where `alpha` does not say."""
    rrf_k: int | None = None
    widen: tuple[Widening, ...] | None = None
    """Kinds of further searches, fused with that for the query, which counts most; empty: none; null: as set."""
    widen_when: WidenWhen | None = None
    metric: Metric | None = None
    reranker: RerankerChoice | None = None
    rerank_candidates: int | None = None
    """How many of the fused candidates are rescored."""
    rerank_blend: float | None = None
    """What hybrid search has to say beside the reranker in the order of hits, in log-odds for a fused score of 1; null:
    the setting, more where the query cites a norm or clause."""
    fold_at: float | None = None
    """Likeness in 0..1 from which on candidates count as one, and the others are named with it; 1: the same text."""
    per_document: int | None = None
    """Maximum number of hits of one document; 0: any number."""
    mmr_lambda: float | None = None
    """1 is relevance only, 0 is diversity only."""
    min_score: float | None = None
    """Minimum final score of a hit; applied last, before the limit."""
    parents: bool | None = None
    """Give each hit the section around it."""
    neighbours: int | None = None
    """Chunks before and after each hit."""
    context_tokens: int | None = None
    """Maximum number of tokens of the context text."""
    citations: CitationStyle | None = None
    exact: bool | None = None
    """Must a hit hold what the query quotes, or one of several? Not applied where none does: see `notices`. Sections of
    laws, and articles, that the query cites come first then."""
    prototypes: bool | None = None
    """Read the type of a query that no rule knows from queries near to it, else take it for FACTUAL?"""
    target_model: str | None = None
    """Which model will read the context, such as `phi3` or `llama3.1:70b`: it names a profile of the settings, which
    says how many hits and tokens; what the query itself says wins."""
    min_similarity: float | None = None
    """Minimum similarity of a hit to the query, where 0 is what any two texts have and 1 what an answer has with its
    query; a reranker that is surer lets it pass."""
    expand_documents: int | None = None
    """Of how many of the best documents further chunks are shown; 0: of none."""
    expand_chunks: int | None = None
    """Maximum number of further chunks of each."""
    expand_similarity: float | None = None
    """Minimum similarity of a document's best hit to the query, as for `min_similarity`: others are not expanded."""
    at_least: tuple[VersionFloor, ...] = ()
    explain: bool = False
    """Tell with the result why each hit stands where it stands."""
    expect: tuple[DocumentId, ...] = ()
    """Tell of these documents, if they are not found, which step lost them."""
    feedback: float | None = None
    """Maximum change of a score by judgements of users on queries like this one, 0..1; 0: they do not count."""
    cached: bool | None = None
    """May the answer be one that the same principals got a short while ago, as long as nothing has changed since?"""
    kind: RequestKind = RequestKind.RETRIEVE
    chunk_ids: tuple[ChunkId, ...] = ()
    """What to read, as hits name it; only for CHUNK_READ. An id that is unknown and one that the asker may not read are
    answered alike."""
    document_ids: tuple[DocumentId, ...] = ()
    """Documents to read from their beginning: the first chunk of each, with `neighbours`; only for CHUNK_READ."""
    where: str | None = None
    """A condition in the filter language of docs/queries.md that every hit must meet besides `filters`, such as
    `media_type = 'application/pdf' AND attribute.year >= 2024`."""
