"""Documents and queries from recorded streams or the samples; deterministic by seed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

from freki.infra.sources import StreamRecord, read_stream
from freki.schemas import EVERYONE, Chunk, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.names import record

SAMPLES = Path(__file__).parents[2] / "freki" / "samples"
TENANT = TenantId("bench")
WARM_UP = TenantId("bench-warm-up")
"""Tenant of the first document of a stack, which waits for models to load and is not counted."""
CHANGED_WORDS = 0.15
"""Share of exchanged words in a copy: enough to change every chunk."""
WORDS = re.compile(r"(?<=\s)[^\W\d_]{4,}(?=[\s.,;])")
"""Pattern of words of running text, without tags, identifiers and numbers."""
LEAST_HEADING_WORDS, LEAST_WORDS, MOST_WORDS = 2, 5, 12


@record
class Corpus:
    """Endless documents: the originals, then rounds of copies with some words exchanged."""

    streams: tuple[Path, ...]
    """Recorded streams, as for `freki publish`; empty: the samples."""
    seed: int

    @property
    def named(self) -> str:
        """Return a description of the source of the documents."""
        return ", ".join(path.name for path in self.streams) or "freki/samples"

    def documents(self, tenant: TenantId = TENANT) -> Iterator[DocumentChange]:
        """Yield changes with distinct document ids, in a fixed order.

        Of the versions of a document in a stream, the first counts. Raises Rejected for an unreadable stream,
        ValueError without documents.
        """
        for copy in count():
            original = None
            for original in self._originals(tenant):
                yield varied(original, copy=copy, seed=self.seed) if copy else original
            if original is None:
                raise ValueError(f"no document in {self.named}")

    def _originals(self, tenant: TenantId) -> Iterator[DocumentChange]:
        if not self.streams:
            for path in sorted(SAMPLES.iterdir()):
                yield document(tenant, path.name, path.read_text(encoding="utf-8"))
        for stream in self.streams:
            seen: set[str] = set()
            for line in read_stream(stream):
                if line.content is not None and line.document_id not in seen:
                    seen.add(line.document_id)
                    yield _recorded(tenant, f"{stream.name.partition('.')[0]}/{line.document_id}", line)


def document(tenant: TenantId, name: str, content: str, *, version: int = 1) -> DocumentChange:
    """Return an upsert that everyone may read."""
    return DocumentChange(
        tenant=tenant,
        document_id=DocumentId(name),
        operation=Operation.UPSERT,
        version=version,
        occurred_at=Timestamp(version),
        principals=(EVERYONE,),
        content=content,
    )


def _recorded(tenant: TenantId, name: str, line: StreamRecord) -> DocumentChange:
    return replace(
        document(tenant, name, line.content or ""),
        name=line.name,
        media_type=line.media_type,
        language=line.language,
        attributes=line.attributes,
    )


def varied(change: DocumentChange, *, copy: int, seed: int) -> DocumentChange:
    """Return a copy with another id and the same structure, in which every longer chunk differs."""
    text = text_of(change)
    return replace(
        change,
        document_id=DocumentId(f"copy-{copy}/{change.document_id}"),
        content=Words(text).exchanged(text, seeded(seed, copy, change.document_id), share=CHANGED_WORDS),
    )


def text_of(change: DocumentChange) -> str:
    """Return the content, which is text in a corpus."""
    assert isinstance(change.content, str)
    return change.content


def some(changes: Iterable[DocumentChange], *, characters: int) -> Iterator[DocumentChange]:
    """Yield the first changes that together have at least this many characters."""
    taken = 0
    for change in changes:
        yield change
        taken += len(text_of(change))
        if taken >= characters:
            return


def seeded(*parts: object) -> Random:
    """Return a random generator seeded by the parts, equal in every process."""
    return Random("/".join(map(str, parts)))  # noqa: S311 - repeats a choice, guards nothing


class Words:
    """Words of a text as replacements for others, so that language and lengths are preserved."""

    def __init__(self, text: str) -> None:
        self._own = WORDS.findall(text)

    def exchanged(self, text: str, random: Random, *, share: float) -> str:
        """Exchange this share of the words of a text."""

        def other(found: re.Match[str]) -> str:
            return random.choice(self._own) if self._own and random.random() < share else found[0]

        return WORDS.sub(other, text)


def questions_of(chunks: Sequence[Chunk], number: int, *, seed: int) -> list[str]:
    """Return queries that chunks answer: alternately a heading, some words of a sentence, and shuffled words.

    Raises ValueError if no chunk has enough words.
    """
    random = seeded(seed)
    usable = [chunk for chunk in chunks if len(chunk.text.split()) >= LEAST_WORDS]
    if not usable:
        raise ValueError("no chunk has enough words for a question")
    return [_question(random.choice(usable), kind, random) for kind in (turn % 3 for turn in range(number))]


def _question(chunk: Chunk, kind: int, random: Random) -> str:
    heading = next((each for each in reversed(chunk.heading_path) if len(each.split()) >= LEAST_HEADING_WORDS), "")
    if kind == 0 and heading:
        return " ".join(heading.split()[:MOST_WORDS])
    words = chunk.text.split()
    if kind == 1:
        return " ".join(random.sample(words, min(3, len(words))))
    size = min(len(words), random.randint(LEAST_WORDS, MOST_WORDS))
    start = random.randint(0, len(words) - size)
    return " ".join(words[start : start + size])
