"""The training data: documents, and queries that they answer."""

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from freki.schemas.names import record


class Pair(BaseModel):
    """A line of a file: a question and a passage."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    question: str = Field(min_length=1)
    passage: str = Field(min_length=1)
    title: str = ""
    kind: str = ""


class Entry(NamedTuple):
    """A document and the queries that it answers; without queries it is a distractor."""

    title: str
    text: str
    questions: tuple[str, ...] = ()
    share: float = 1.0
    """Mean sampling weight of each query."""


class Document(NamedTuple):
    """A document."""

    title: str
    text: str

    @property
    def whole(self) -> str:
        """Title and text, as indexed."""
        return self.text if not self.title or self.text.startswith(self.title) else f"{self.title}\n{self.text}"


class TrainingQuery(NamedTuple):
    """A query with its answer."""

    source: str
    text: str
    share: float
    answer: int
    """Index of the answering document."""


@record
class Collection:
    """Documents and queries in one language."""

    language: str
    documents: tuple[Document, ...]
    questions: tuple[TrainingQuery, ...]


@record
class PairFile:
    """A file of pairs, with statistics."""

    name: str
    sha256: str
    pairs: int
    documents: int
    """Number of documents that it added to the collection."""
    questions: int
    """Number of its queries."""
    licence: str


@record
class Dataset:
    """All training data."""

    collections: tuple[Collection, ...]
    files: tuple[PairFile, ...]
