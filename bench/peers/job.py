"""What one process measures, and what it found: files between the driver and the environments of the peers."""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from freki.schemas.names import record

Figures = dict[str, Any]
"""Only what JSON can hold."""


@record
class Document:
    """A document as every system gets it."""

    document_id: str
    title: str
    language: str
    """ISO 639-1, or `und`: metadata like the title, so that no framework has to find out."""
    media_type: str | None = None
    """What the source says; None: it says nothing."""
    version: int
    text: str


@record
class Question:
    """A question of a set."""

    question_id: str
    text: str


@record
class Job:
    """One measurement of one system."""

    system: str
    name: str
    """Name of the set, or `updates`."""
    documents: tuple[Document, ...]
    questions: tuple[Question, ...] = ()
    changed: tuple[Document, ...] = ()
    """Later revisions of some documents."""
    gone: tuple[str, ...] = ()
    """Documents to delete."""
    watched: tuple[Document, ...] = ()
    """Later revisions of documents that carry a marker, for the queries during an update."""
    chunk_tokens: int
    """How long Freki's chunks of these documents are on average: what splitters aim at."""
    store_python: str
    """Interpreter that can serve the store: the peers' own environments lack it."""
    directory: str
    """Empty, for whatever the system keeps."""


_JOBS: TypeAdapter[Job] = TypeAdapter(Job)


def read_job(path: Path) -> Job:
    """Read what the driver wrote."""
    return _JOBS.validate_json(path.read_bytes())


def write_job(job: Job, path: Path) -> None:
    """Write for the process that measures."""
    path.write_bytes(_JOBS.dump_json(job))
