"""What was read from a query: its type, language and terms."""

from enum import StrEnum

from freki.schemas.names import record


class QueryType(StrEnum):
    """What kind of answer a query wants."""

    FACTUAL = "FACTUAL"
    AGGREGATIVE = "AGGREGATIVE"
    COMPARATIVE = "COMPARATIVE"
    PROCEDURAL = "PROCEDURAL"
    RELATIONAL = "RELATIONAL"
    TEMPORAL = "TEMPORAL"


class TypedBy(StrEnum):
    """What told the type of a query."""

    WORDING = "WORDING"
    """A rule."""
    EXAMPLES = "EXAMPLES"
    """Queries that are near to it."""
    NOTHING = "NOTHING"
    """Nothing did: it is taken for FACTUAL."""


class ExactKind(StrEnum):
    """Why a term has to be met as it is written."""

    PHRASE = "PHRASE"
    """It is quoted: see `exact` of the query."""
    SECTION = "SECTION"
    """§ 535 Abs. 1, Art. 5"""
    STANDARD = "STANDARD"
    """DIN EN 18040-1"""
    QUANTITY = "QUANTITY"
    """24 V"""
    IDENTIFIER = "IDENTIFIER"
    """KX-200, max_connections, os.path, TLS 1.0, --dry-run"""


@record
class ExactTerm:
    """A term of the query, as it stands there."""

    kind: ExactKind
    text: str


@record
class QueryAnalysis:
    """What was read from the query, and what was searched because of it."""

    language: str
    query_type: QueryType
    keyword: bool
    """A short query of keywords, which leans to BM25."""
    levels: tuple[int, ...]
    alpha: float | None
    """Weight of dense search in the fusion; null: none was needed."""
    lexical: str
    """The terms that BM25 searched for."""
    typed_by: TypedBy = TypedBy.NOTHING
    exact: tuple[ExactTerm, ...] = ()
