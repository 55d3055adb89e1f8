"""What a language model is asked about the chunks of a part."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b

from freki.operators.ask_llm import VERSION, context_prompt, read_contexts, read_summary, summary_prompt
from freki.schemas import Chunk, ChunkBatch, ChunkKind, ChunkLevel, Prompt
from freki.schemas.names import record

SECTION_CHARS = 8000
"""Of a section, what its summary is made from."""
CONTEXT_TOKENS, SUMMARY_TOKENS = 120, 300
"""Room for an answer: 200 and 480 characters of German are about half of it."""


@record
class ContextRules:
    """Which chunks a language model situates."""

    contexts: bool
    """All but summaries."""
    summaries: bool
    """Those of documents and sections."""
    batch_chunks: int
    """Chunks that one call situates."""
    min_chars: int
    """Shorter chunks are left alone."""
    max_tokens_document: int
    """For one version of a document; 0: any."""


@record
class ContextPrompt:
    """One call: about several chunks, or about one summary."""

    places: tuple[int, ...]
    """Of the chunks within their part."""
    prompt: Prompt
    max_tokens: int
    read: Callable[[str], Sequence[str | None]]
    """Gives the line for each chunk, or None."""


def writers(batch: ChunkBatch, rules: ContextRules, *, model: str) -> dict[int, str]:
    """Choose by their places the chunks that a model should write about, each with the fingerprint of what it is asked.

    A document of one chunk needs no place. A summary depends on the text that it is made from, so that it is made
    again with it; the context of a chunk does not, or an edit of the beginning would change all of them.
    """
    alone = batch.parts == 1 and sum(chunk.kind is not ChunkKind.SUMMARY for chunk in batch.chunks) == 1
    chosen = {}
    for place, chunk in enumerate(batch.chunks if batch.lead else ()):
        if chunk.kind is ChunkKind.SUMMARY:
            source = _source(batch, chunk)
            if rules.summaries and source:
                chosen[place] = _digest(model, "summary", source)
        elif rules.contexts and not alone and len(chunk.text) >= rules.min_chars:
            chosen[place] = _digest(model, "context")
    return chosen


def questions(batch: ChunkBatch, places: Sequence[int], rules: ContextRules) -> Iterator[ContextPrompt]:
    """Ask about chunks in reading order, as many a call as the rules say, and then about each summary."""
    leaves = [place for place in places if batch.chunks[place].kind is not ChunkKind.SUMMARY]
    named = partial(context_prompt, batch.lead, name=batch.revision.name, language=batch.revision.language)
    for start in range(0, len(leaves), rules.batch_chunks):
        asked = leaves[start : start + rules.batch_chunks]
        yield ContextPrompt(
            places=tuple(asked),
            prompt=named(chunks=[(_headings(batch.chunks[place]), batch.chunks[place].text) for place in asked]),
            max_tokens=CONTEXT_TOKENS * len(asked),
            read=partial(read_contexts, count=len(asked)),
        )
    for place in sorted(set(places) - set(leaves)):
        yield ContextPrompt(
            places=(place,),
            prompt=_summary(batch, batch.chunks[place]),
            max_tokens=SUMMARY_TOKENS,
            read=_read_one,
        )


def _summary(batch: ChunkBatch, chunk: Chunk) -> Prompt:
    return summary_prompt(
        batch.lead,
        name=batch.revision.name,
        language=batch.revision.language,
        headings=_headings(chunk),
        text="" if chunk.level == ChunkLevel.DOCUMENT else _source(batch, chunk),
    )


def _read_one(answer: str) -> list[str | None]:
    return [read_summary(answer)]


def _source(batch: ChunkBatch, summary: Chunk) -> str:
    """Return what a summary is made from: the document's beginning, or what of the section stands in this part."""
    if summary.level == ChunkLevel.DOCUMENT:
        return batch.lead
    below = f"{summary.path}/"
    leaves = (chunk for chunk in batch.chunks if chunk.kind is not ChunkKind.SUMMARY and chunk.path.startswith(below))
    return "\n\n".join(leaf.text for leaf in leaves)[:SECTION_CHARS]


def _headings(chunk: Chunk) -> str:
    return " > ".join(chunk.heading_path)


def _digest(*parts: str) -> str:
    return blake2b(json.dumps([VERSION, *parts]).encode(), digest_size=8).hexdigest()
