"""Endless edits of indexed documents: recorded ones, or synthetic ones for documents without a history."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random

from bench.pipeline.corpus import WORDS, Corpus, Words, text_of
from freki.infra.sources import read_stream
from freki.schemas import DocumentChange

CHANGED_WORDS = 0.3
"""Share of the words of one paragraph that a synthetic edit exchanges."""

Histories = Mapping[str, Sequence[str]]
"""Contents of each document in the order of its versions, by document id."""


def histories(corpus: Corpus) -> Histories:
    """Return the versions of each recorded document that differ from the previous one; none for the samples."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for stream in corpus.streams:
        for line in read_stream(stream):
            contents = found[f"{stream.name.partition('.')[0]}/{line.document_id}"]
            if line.content is not None and line.content not in contents[-1:]:
                contents.append(line.content)
    return found


def edits(
    originals: Sequence[DocumentChange], recorded: Histories, random: Random, *, version: int
) -> Iterator[DocumentChange]:
    """Yield endless rounds of edits, one per document; each round increments the version, from the given one.

    Documents with a history go forth and back through it, so that each edit is a recorded one or its reversal.
    If none has a history, each edit changes one paragraph. Raises ValueError without documents.
    """
    if not originals:
        raise ValueError("there is no document to edit")
    edited = [change for change in originals if len(recorded.get(change.document_id, ())) > 1]
    for turn in count():
        for change in edited or originals:
            if edited:
                content = there_and_back(recorded[change.document_id], turn + 1)
            else:
                content = paragraph_changed(text_of(change), random)
            yield replace(change, version=version + turn, content=content)


def there_and_back(contents: Sequence[str], steps: int) -> str:
    """Return the content after a number of steps forth and back through the versions."""
    last = len(contents) - 1
    place = steps % (2 * last)
    return contents[place if place <= last else 2 * last - place]


def paragraph_changed(text: str, random: Random) -> str:
    """Exchange words in one paragraph; a text without words stays unchanged."""
    paragraphs = text.split("\n\n")
    places = [place for place, paragraph in enumerate(paragraphs) if WORDS.search(paragraph)]
    if places:
        place = random.choice(places)
        paragraphs[place] = Words(text).exchanged(paragraphs[place], random, share=CHANGED_WORDS)
    return "\n\n".join(paragraphs)
