"""Documents and questions to measure with: from recorded streams, else from the samples; the same for the same seed."""

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
"""Has the first document of a stack, which waits for models to load and is not counted."""
CHANGED_WORDS = 0.15
"""Share of the words that a copy has otherwise: enough that no chunk of it is the original's."""
WORDS = re.compile(r"(?<=\s)[^\W\d_]{4,}(?=[\s.,;])")
"""Words of running text: not tags, identifiers or numbers."""
LEAST_HEADING_WORDS, LEAST_WORDS, MOST_WORDS = 2, 5, 12


@record
class Corpus:
    """Documents without end: each as it is, then copies of all of them with some words changed, and so on."""

    streams: tuple[Path, ...]
    """Recorded streams as `freki publish` takes them; empty: the samples."""
    seed: int

    @property
    def named(self) -> str:
        """What the documents come from, for people."""
        return ", ".join(path.name for path in self.streams) or "freki/samples"

    def documents(self, tenant: TenantId = TENANT) -> Iterator[DocumentChange]:
        """Give changes with different document ids, always the same ones in the same order.

        Of a stream's many versions of a document that is the first. Raises Rejected for a stream that cannot be read,
        ValueError where there is no document.
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
    """Make an upsert that everyone may read."""
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
    """Give a document of another id in which every chunk of some length is another; its structure stays."""
    text = text_of(change)
    return replace(
        change,
        document_id=DocumentId(f"copy-{copy}/{change.document_id}"),
        content=Words(text).exchanged(text, seeded(seed, copy, change.document_id), share=CHANGED_WORDS),
    )


def text_of(change: DocumentChange) -> str:
    """Give the content, which is text in a corpus."""
    assert isinstance(change.content, str)
    return change.content


def some(changes: Iterable[DocumentChange], *, characters: int) -> Iterator[DocumentChange]:
    """Give the first ones that together have at least this many characters."""
    taken = 0
    for change in changes:
        yield change
        taken += len(text_of(change))
        if taken >= characters:
            return


def seeded(*parts: object) -> Random:
    """Give random numbers that are the same for the same parts, in every process."""
    return Random("/".join(map(str, parts)))  # noqa: S311 - repeats a choice, guards nothing


class Words:
    """The words of a text, to take the place of others, so that language and lengths stay what they are."""

    def __init__(self, text: str) -> None:
        self._own = WORDS.findall(text)

    def exchanged(self, text: str, random: Random, *, share: float) -> str:
        """Exchange this share of the words of a text."""

        def other(found: re.Match[str]) -> str:
            return random.choice(self._own) if self._own and random.random() < share else found[0]

        return WORDS.sub(other, text)


def questions_of(chunks: Sequence[Chunk], number: int, *, seed: int) -> list[str]:
    """Make questions that chunks answer: by turns a heading, some words of a sentence, and words out of their order.

    Raises ValueError where no chunk has enough words.
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
