"""Job and result of one process: files between the driver and the environments of the peers."""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from freki.schemas.names import record

Figures = dict[str, Any]
"""JSON-serialisable figures."""


@record
class Document:
    """Document as given to every system."""

    document_id: str
    title: str
    language: str
    """ISO 639-1, or `und`: given as metadata, so that no framework has to detect it."""
    media_type: str | None = None
    """Media type named by the source; None: none."""
    version: int
    text: str


@record
class Question:
    """Question of a set."""

    question_id: str
    text: str


@record
class Job:
    """Measurement of one system."""

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
    """Mean length of Freki's chunks of these documents: the target of the splitters."""
    store_python: str
    """Interpreter of an environment with the store: the environments of the peers lack it."""
    directory: str
    """Empty directory for the files of the system."""


_JOBS: TypeAdapter[Job] = TypeAdapter(Job)


def read_job(path: Path) -> Job:
    """Read a job written by the driver."""
    return _JOBS.validate_json(path.read_bytes())


def write_job(job: Job, path: Path) -> None:
    """Write a job for the measuring process."""
    path.write_bytes(_JOBS.dump_json(job))
