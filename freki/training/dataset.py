"""What is learned from: documents, and questions of which they hold the answers."""

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from freki.schemas.names import record


class Pair(BaseModel):
    """A line of a file."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    question: str = Field(min_length=1)
    passage: str = Field(min_length=1)
    title: str = ""
    kind: str = ""


class Entry(NamedTuple):
    """What a line becomes: a document, and the questions that it answers; without any it is there as a wrong answer."""

    title: str
    text: str
    questions: tuple[str, ...] = ()
    share: float = 1.0
    """How often each question is shown, on average."""


class Document(NamedTuple):
    """What is searched."""

    title: str
    text: str

    @property
    def whole(self) -> str:
        """Title and text, as they are indexed."""
        return self.text if not self.title or self.text.startswith(self.title) else f"{self.title}\n{self.text}"


class TrainingQuery(NamedTuple):
    """What is asked."""

    source: str
    text: str
    share: float
    answer: int
    """Place of the document that answers it."""


@record
class Collection:
    """Documents and questions in one language."""

    language: str
    documents: tuple[Document, ...]
    questions: tuple[TrainingQuery, ...]


@record
class PairFile:
    """Where pairs came from."""

    name: str
    sha256: str
    pairs: int
    documents: int
    """Those that became part of the collection, and were not there before."""
    questions: int
    """Those that are asked."""
    licence: str


@record
class Dataset:
    """All that is learned from."""

    collections: tuple[Collection, ...]
    files: tuple[PairFile, ...]
