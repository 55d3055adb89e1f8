"""Data of the measurements: sets with judged documents, and a stream of changes with edits."""

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from bench.peers.job import Document, Question
from bench.peers.markers import marked
from bench.peers.systems.freki import change_of
from freki.infra.evaluation_sets import read_set
from freki.infra.settings.read import read_settings
from freki.infra.sources import read_stream
from freki.operators.detect_language import detect_language
from freki.schemas import Chunk, ChunkKind
from freki.schemas.errors import Rejected
from freki.schemas.names import record
from freki.streams.ingest.outline import CountTokens
from freki.streams.wire.parsing import open_outliner

EDITED, DELETED = 0.05, 0.02
"""Shares of the documents that are edited and deleted."""
WATCHED = 5
"""Number of documents queried during updates: the shortest with a later revision, so that all chunks fit an answer."""


def mean_chunk_tokens(documents: Sequence[Document], count_tokens: CountTokens) -> int:
    """Return the mean length of Freki's chunks in tokens, without chunks extracted from others."""
    chunks = asyncio.run(_chunks(documents, count_tokens))
    return round(fmean(chunk.tokens for chunk in chunks if chunk.kind is not ChunkKind.SUMMARY))


async def _chunks(documents: Sequence[Document], count_tokens: CountTokens) -> list[Chunk]:
    async with open_outliner(read_settings(), count_tokens) as outline:
        return [chunk for each in documents for chunk in (await outline(change_of(each), each.text)).chunks]


@record
class SearchSet:
    """Documents and questions of a set."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    judgements: Mapping[str, Mapping[str, int]]


@record
class Changes:
    """First revisions of documents, with edits and deletions of some."""

    documents: tuple[Document, ...]
    changed: tuple[Document, ...]
    gone: tuple[str, ...]
    watched: tuple[Document, ...]


def read_search_set(path: Path, *, most: int, seed: int) -> SearchSet:
    """Read a set with a sample of at most `most` questions."""
    found = read_set(path)
    if found.corpus is None:
        raise Rejected(f"{path} has no corpus")
    asked = [question for question in found.questions if question.judgements]
    asked = random.Random(seed).sample(asked, min(most, len(asked)))  # noqa: S311 - a sample
    return SearchSet(
        name=found.name,
        documents=tuple(
            _document(
                each.document_id,
                each.content if isinstance(each.content, str) else each.content.decode(),
                version=1,
                title=each.name,
                media_type=each.media_type,
            )
            for each in found.corpus
        ),
        questions=tuple(Question(question_id=each.question_id, text=each.text) for each in asked),
        judgements={
            each.question_id: {str(name): grade for name, grade in (each.judgements or {}).items()} for each in asked
        },
    )


def read_changes(path: Path, *, documents: int, seed: int) -> Changes:
    """Choose documents of a recorded stream: first revisions, and for edits the next revision that differs.

    Raises Rejected if the stream has too few documents with a later revision.
    """
    revisions: dict[str, list[Document]] = {}
    for line in read_stream(path):
        if line.content is not None:
            made = _document(line.document_id, line.content, line.version, line.name, line.media_type)
            revisions.setdefault(line.document_id, []).append(made)
    later = {name: after for name, states in revisions.items() if (after := _first_edit(states))}
    names, edited, watched, gone = _choose(revisions, later, documents, seed, path)
    first = {name: revisions[name][0] for name in names}
    first |= {name: _marked(first[name], "old") for name in watched}
    return Changes(
        documents=tuple(first[name] for name in names),
        changed=tuple(later[name] for name in edited),
        gone=tuple(gone),
        watched=tuple(_marked(later[name], "new") for name in watched),
    )


def _choose(
    revisions: Mapping[str, Sequence[Document]], later: Mapping[str, Document], most: int, seed: int, path: Path
) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return the ids of all chosen documents, of the edited, the watched and the deleted ones."""
    chance = random.Random(seed)  # noqa: S311 - a sample
    count = math.ceil(EDITED * min(most, len(revisions)))
    watched = sorted(later, key=lambda name: (len(revisions[name][0].text), name))[:WATCHED]
    editable = sorted(later.keys() - set(watched))
    edited = chance.sample(editable, min(count, len(editable)))
    if len(edited) < count:
        raise Rejected(f"{path}: {len(later)} documents have a later revision, too few for {count} edits")
    others = [name for name in chance.sample(sorted(revisions), len(revisions)) if name not in {*edited, *watched}]
    others = others[: max(0, most - len(edited) - len(watched))]
    gone = others[: math.ceil(DELETED * most)]
    return sorted([*edited, *watched, *others]), edited, watched, gone


def _first_edit(states: Sequence[Document]) -> Document | None:
    return next((after for before, after in pairwise(states) if after.text != before.text), None)


def _marked(document: Document, revision: str) -> Document:
    return replace(document, text=marked(document.text, document.document_id, revision=revision))


def _document(name: str, text: str, version: int, title: str | None, media_type: str | None) -> Document:
    return Document(
        document_id=name,
        title=title or name.rpartition("/")[2],
        language=detect_language(text),
        media_type=media_type,
        version=version,
        text=text,
    )
