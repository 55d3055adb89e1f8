"""What a service gets back: hits that can be traced to document, version and span, and how they came about."""

from collections.abc import Iterable
from enum import StrEnum

from freki.schemas.context_query import Widening
from freki.schemas.explanation import Explanation
from freki.schemas.names import ChunkId, ChunkKind, DocumentId, QueryId, TenantId, Timestamp, record
from freki.schemas.query_analysis import QueryAnalysis


class ResultStatus(StrEnum):
    """How far the answer can be trusted to be complete."""

    COMPLETE = "COMPLETE"
    DEGRADED = "DEGRADED"
    """A step failed or was skipped; `notices` says which."""
    EMPTY = "EMPTY"
    """Nothing was found, and no step failed; that does not mean that nothing exists. See `advice`."""
    REJECTED = "REJECTED"
    """The query itself cannot be answered; `notices` says why."""
    EXPIRED = "EXPIRED"
    """No time was left to answer; `notices` says why. The same query may be asked again."""


class Confidence(StrEnum):
    """Whether some hit answers the query, as far as scores tell."""

    HIGH = "HIGH"
    """Some hit fits the query."""
    LOW = "LOW"
    """No hit fits with certainty."""
    NONE = "NONE"
    """Nothing that was found seems to answer it: the hits are only the nearest to it. It may be answered elsewhere."""
    UNKNOWN = "UNKNOWN"
    """Not judged: there are no hits, or no scores that tell, as of a search by words or of chunks read by name."""


class NoticeKind(StrEnum):
    """What a notice is about."""

    DEGRADED = "DEGRADED"
    """A step was replaced by a weaker one."""
    SKIPPED = "SKIPPED"
    """A step was left out, for time or because it was not configured."""
    DROPPED = "DROPPED"
    """Chunks were left out: not of the live revision, below the threshold, over the budget."""
    FRESHNESS = "FRESHNESS"
    """The index may be, or is, behind what was asked for."""
    REJECTED = "REJECTED"
    """The query broke a rule; the message names it and the fix."""
    UNMET = "UNMET"
    """Nothing meets a condition of the query, so it was not applied."""


FINDING = frozenset(
    {"retrieve", "read", "embed", "search", "search.dense", "search.lexical", "manifest", "load", "locate", "recheck"}
)
"""Steps of notices without which hits are missing, `retrieve` for all of them together; all others order, explain or
surround what was found."""


@record
class Notice:
    """Something that programs and operators should know of how a result came about; `advice` is for who asked."""

    stage: str
    kind: NoticeKind
    message: str
    """English, whatever the language of the query; it may change, unlike `stage` and `kind`."""


@record
class StageTime:
    """How long one step took for the batch that this query was answered in."""

    stage: str
    milliseconds: float
    items: int
    """What the step worked on: variants, candidates, pairs, hits."""


@record
class ContextPart:
    """Text around a hit: its section or a neighbour. It has no score of its own."""

    chunk_id: ChunkId | None
    """Null for a section that was put together from its paragraphs."""
    path: str
    start: int
    end: int
    """Half-open span in code points of the document's text."""
    text: str


@record
class Duplicate:
    """Where the same passage stands too, or one that hardly differs."""

    document_id: DocumentId
    version: int
    chunk_id: ChunkId


@record
class Snippet:
    """A part of a hit's text that shows why it was found."""

    start: int
    end: int
    """Half-open span in code points of the hit's `text`: `snippet.text == hit.text[start:end]`."""
    text: str


@record
class ContextHit:
    """One chunk of the answer, best first."""

    rank: int
    """1-based."""
    chunk_id: ChunkId
    document_id: DocumentId
    version: int
    name: str
    source_uri: str | None
    language: str
    kind: ChunkKind
    level: int
    path: str
    heading_path: tuple[str, ...]
    start: int
    end: int
    """Half-open span in code points of the document's text."""
    text: str
    """What may be cited."""
    overlap: str
    """The header of the table that it continues, else the end of the text of its section before it."""
    score: float
    """The reranker's where one ran, else the fused one; higher is better; comparable within one result."""
    dense_score: float | None
    lexical_score: float | None
    fused_score: float
    rerank_score: float | None
    citation: str
    """As it stands in the context text."""
    parent: ContextPart | None
    before: tuple[ContextPart, ...]
    after: tuple[ContextPart, ...]
    occurred_at: Timestamp
    """When the source had this content; before 1971: unknown."""
    searchable_at: Timestamp
    age_ms: int
    """From `occurred_at` to the answer, in milliseconds; -1 where that time is unknown."""
    first_page: int = 0
    last_page: int = 0
    """1-based pages, slides or sheets that the span begins and ends on; 0 where the document has none."""
    duplicates: tuple[Duplicate, ...] = ()
    """Among the candidates and readable by the asker; not hits of their own."""
    variant: int = 0
    """Place in `variants` of the first that found it; 0: the query itself did."""
    judged: float = 0.0
    """What judgements of users on queries like this one added to the score."""
    snippets: tuple[Snippet, ...] = ()
    """In reading order, around words of the text that was searched for, else its beginning; only for KEYWORD_SEARCH and
    SEMANTIC_SEARCH."""
    generated: bool = False
    """True: a language model wrote the text, as a summary of the span. It is no quotation."""


@record
class ContextExpansion:
    """A further chunk of a document that a hit is of, by its similarity to the query. It has no rank."""

    number: int
    """As in its citation: those of hits come first."""
    chunk_id: ChunkId
    document_id: DocumentId
    version: int
    name: str
    source_uri: str | None
    path: str
    heading_path: tuple[str, ...]
    start: int
    end: int
    """Half-open span in code points of the document's text."""
    text: str
    """What may be cited."""
    overlap: str
    """The header of the table that it continues, else the end of the text of its section before it."""
    similarity: float
    """To the query: 0 is what any two texts have, 1 what an answer has with its query; not a score."""
    citation: str
    """As it stands in the context text, where that has room for it."""
    first_page: int
    last_page: int


@record
class Citation:
    """What a citation of the context text stands for."""

    citation: str
    """As it stands there, once."""
    number: int
    """The one in it: the rank of a hit, or the number of an expansion."""
    chunk_id: ChunkId
    document_id: DocumentId
    version: int
    name: str
    source_uri: str | None
    heading_path: tuple[str, ...]
    start: int
    end: int
    """Half-open span in code points of the document's text."""
    first_page: int
    last_page: int
    """1-based pages, slides or sheets; 0 where the document has none."""
    expansion: bool
    """Is it a further chunk of the document, and no hit?"""


@record
class Freshness:
    """How true the index was to its stream when the answer was made."""

    indexed_through: Timestamp | None
    """The latest known `occurred_at` of a change that is searchable; null where there is none."""
    last_commit_at: Timestamp | None
    """When the last change became searchable."""
    consistency: str
    """STRONG: all that was committed before the search is in it; BOUNDED: it may lag by some seconds."""


@record
class ContextResult:
    """The answer to one ContextQuery. Key of the record: `query_id`."""

    query_id: QueryId
    tenant: TenantId
    status: ResultStatus
    hits: tuple[ContextHit, ...]
    context: str
    """The hits as one text with citations, within the token budget, ready for a prompt."""
    analysis: QueryAnalysis | None
    variants: tuple[str, ...]
    """What was searched: the query first."""
    reranker: str
    """Which one was heard: remote, vertex, local, llm, cosine, or none."""
    stages: tuple[StageTime, ...]
    notices: tuple[Notice, ...]
    advice: tuple[str, ...]
    """What to try where little was found, or nothing that surely fits: German for German queries, else English."""
    freshness: Freshness
    generation: str
    asked_at: Timestamp
    answered_at: Timestamp
    trace_id: str
    """32 hexadecimal digits of the W3C trace, or empty."""
    explanation: Explanation | None = None
    """Where the query asked for it."""
    widened: tuple[Widening, ...] = ()
    """Kinds of `variants`, from the second on."""
    expansions: tuple[ContextExpansion, ...] = ()
    """Further chunks of the documents of the best hits, by document and place."""
    citations: tuple[Citation, ...] = ()
    """Every citation of the context text, in its order."""
    cached_ms: int | None = None
    """How long ago the answer was made; null where it was made for this query."""
    confidence: Confidence = Confidence.UNKNOWN
    """Whether some hit answers the query. `status` says whether all steps ran; this, whether they found anything."""

    @property
    def failures(self) -> tuple[str, ...]:
        """Why nothing is known of what there is: without hits, what failed of searching for them, each once."""
        return () if self.hits else failures(self.notices)


def failures(notices: Iterable[Notice]) -> tuple[str, ...]:
    """Return what failed of searching; each once, as a step may be tried again."""
    degraded = (each for each in notices if each.kind is NoticeKind.DEGRADED and each.stage in FINDING)
    return tuple(dict.fromkeys(notice.message for notice in degraded))
