"""Reading of question-answer files: one JSON object per line, compressed with Zstandard."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from freki.infra.models.manifest import sha256_of
from freki.infra.text_files import read_text, refused
from freki.schemas.errors import Rejected
from freki.training.dataset import Collection, Dataset, Document, Pair, PairFile, TrainingQuery
from freki.training.sources import OTHER, SOURCES

_SUFFIX = ".jsonl.zst"
_MAX_CHARS = 1600
"""Maximum characters of a text, more than is ever used."""


def read_material(directory: Path, *, seed: int) -> Dataset:
    """Read all `NAME-LANGUAGE.jsonl.zst` of a folder by the rules of `sources`, in alphabetical order.

    Deterministic for a seed; the result of one file does not depend on others, unless they share documents. Raises
    Rejected for a folder without such files, and for an invalid line.
    """
    paths = sorted(directory.glob(f"*-??{_SUFFIX}"))
    if not paths:
        raise Rejected(f"{directory}: it holds no file NAME-LANGUAGE{_SUFFIX}, such as faq-de{_SUFFIX}")
    shelves: dict[str, _Shelf] = {}
    files = []
    for path in paths:
        name = path.name.removesuffix(_SUFFIX)
        files.append(_read(path, name, shelves.setdefault(name[-2:], _Shelf()), seed))
    collections = tuple(shelf.closed(language) for language, shelf in sorted(shelves.items()) if shelf.questions)
    return Dataset(collections=collections, files=tuple(files))


class _Shelf:
    """A collection under construction."""

    def __init__(self) -> None:
        self.places: dict[Document, int] = {}
        self.questions: list[TrainingQuery] = []

    def place(self, title: str, text: str) -> int:
        document = Document(" ".join(title.split()), text.strip()[:_MAX_CHARS])
        return self.places.setdefault(document, len(self.places))

    def closed(self, language: str) -> Collection:
        return Collection(language=language, documents=tuple(self.places), questions=tuple(self.questions))


def _read(path: Path, name: str, shelf: _Shelf, seed: int) -> PairFile:
    source = SOURCES.get(name, OTHER)
    pairs = list(_pairs(path))
    documents, questions = len(shelf.places), len(shelf.questions)
    for entry in source.rule(pairs, np.random.default_rng([seed, *name.encode()])):
        place = shelf.place(entry.title, entry.text)
        shelf.questions += [TrainingQuery(name, _plain(text), entry.share, place) for text in entry.questions]
    return PairFile(
        name=path.name,
        sha256=sha256_of(path),
        pairs=len(pairs),
        documents=len(shelf.places) - documents,
        questions=len(shelf.questions) - questions,
        licence=source.licence,
    )


def _pairs(path: Path) -> Iterator[Pair]:
    # Not `splitlines`, which also splits at Unicode separators.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                yield Pair.model_validate_json(line)
            except ValidationError as error:
                raise refused(error, f"{path}, line {number}") from error


def _plain(question: str) -> str:
    """Return a question on one line; some files contain escaped line breaks."""
    return " ".join(question.replace("\\n", " ").split())
