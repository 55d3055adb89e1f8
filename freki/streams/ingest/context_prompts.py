"""Prompts for the contexts and summaries of a part's chunks."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b

from freki.operators.ask_llm import VERSION, context_prompt, read_contexts, read_summary, summary_prompt
from freki.schemas import Chunk, ChunkBatch, ChunkKind, ChunkLevel, Completion, Prompt
from freki.schemas.names import record
from freki.streams.ingest.contextualise import PLAIN

SECTION_CHARS = 8000
"""Maximum length of the text of a section that is summarised, in characters."""
SUMMARY_TOKENS = 300
"""Maximum tokens of a summary: about twice those of 480 characters of German."""
_TOKENS_PER_CHAR = 0.6
"""Of a context: about twice those of German."""


@record
class ContextRules:
    """Selection of chunks that get a context or summary from a language model."""

    contexts: bool
    """Whether to write contexts of chunks other than summaries."""
    summaries: bool
    """Whether to write summaries of documents and sections."""
    batch_chunks: int
    """Maximum chunks per call."""
    min_chars: int
    """Minimum length of a chunk that gets a context, in characters."""
    max_chars: int
    """Maximum length of a context, in characters."""
    max_tokens_document: int
    """Token budget of one version of a document; 0: unlimited."""


def rules_fingerprint(rules: ContextRules, *, model: str) -> str:
    """Return the fingerprint of all that decides which chunks get text from a model, and which; budgets do not."""
    wanted = [name for name, is_wanted in (("contexts", rules.contexts), ("summaries", rules.summaries)) if is_wanted]
    return f"{PLAIN}:{_digest(model, *wanted, str(rules.min_chars), str(rules.max_chars))}" if wanted else PLAIN


@record
class ContextPrompt:
    """One call of the model, for the contexts of several chunks or for one summary."""

    places: tuple[int, ...]
    """Indexes of the chunks in their part."""
    prompt: Prompt
    max_tokens: int
    """Maximum tokens of the completion."""
    is_summary: bool
    sources: Mapping[int, str]
    """What a line may say, by index of its chunk: the material of the prompt."""
    read: Callable[[Completion], Sequence[str | None]]
    """Parser of the completion: the line for each chunk, or None."""


def prompt_fingerprints(batch: ChunkBatch, rules: ContextRules, *, model: str) -> dict[int, str]:
    """Return the indexes of chunks that get text from a model, each with the fingerprint of its prompt.

    The only chunk of a document needs no context. The fingerprint of a summary depends on its source text, so that an
    edit renews the summary; that of a context does not, or an edit of the beginning would renew all contexts.
    """
    is_only_chunk = batch.parts == 1 and sum(chunk.kind is not ChunkKind.SUMMARY for chunk in batch.chunks) == 1
    chosen = {}
    for place, chunk in enumerate(batch.chunks if batch.lead else ()):
        if chunk.kind is ChunkKind.SUMMARY:
            source = _source(batch, chunk)
            if rules.summaries and source:
                chosen[place] = _digest(model, "summary", source)
        elif rules.contexts and not is_only_chunk and len(chunk.text) >= rules.min_chars:
            chosen[place] = _digest(model, "context", str(rules.max_chars))
    return chosen


def context_prompts(batch: ChunkBatch, places: Sequence[int], rules: ContextRules) -> Iterator[ContextPrompt]:
    """Yield prompts for chunks in reading order, `rules.batch_chunks` each, then one for each summary."""
    leaves = [place for place in places if batch.chunks[place].kind is not ChunkKind.SUMMARY]
    prompt = partial(
        context_prompt,
        batch.lead,
        name=batch.revision.name,
        language=batch.revision.language,
        max_chars=rules.max_chars,
    )
    for start in range(0, len(leaves), rules.batch_chunks):
        asked = leaves[start : start + rules.batch_chunks]
        yield ContextPrompt(
            places=tuple(asked),
            prompt=prompt(chunks=[(_headings(batch.chunks[place]), batch.chunks[place].text) for place in asked]),
            max_tokens=round(_TOKENS_PER_CHAR * rules.max_chars) * len(asked),
            is_summary=False,
            sources={place: _material(batch, batch.chunks[place], batch.chunks[place].text) for place in asked},
            read=partial(_read_lines, count=len(asked), max_chars=rules.max_chars),
        )
    for place in sorted(set(places) - set(leaves)):
        chunk = batch.chunks[place]
        # The beginning of the document is in each prompt.
        text = "" if chunk.level == ChunkLevel.DOCUMENT else _source(batch, chunk)
        yield ContextPrompt(
            places=(place,),
            prompt=_summary(batch, chunk, text),
            max_tokens=SUMMARY_TOKENS,
            is_summary=True,
            sources={place: _material(batch, chunk, text)},
            read=_read_one,
        )


def _summary(batch: ChunkBatch, chunk: Chunk, text: str) -> Prompt:
    return summary_prompt(
        batch.lead,
        name=batch.revision.name,
        language=batch.revision.language,
        headings=_headings(chunk),
        text=text,
    )


def _read_lines(answer: Completion, *, count: int, max_chars: int) -> list[str | None]:
    return read_contexts(answer.text, count=count, max_chars=max_chars, truncated=answer.truncated)


def _read_one(answer: Completion) -> list[str | None]:
    return [read_summary(answer.text, truncated=answer.truncated)]


def _source(batch: ChunkBatch, summary: Chunk) -> str:
    """Return the source text of a summary: the document's beginning, or the text of the section.

    Of a section that goes on in the next part, only the extract is from the whole of it.
    """
    if summary.level == ChunkLevel.DOCUMENT:
        return batch.lead
    below = f"{summary.path}/"
    leaves = [chunk for chunk in batch.chunks if chunk.kind is not ChunkKind.SUMMARY and chunk.path.startswith(below)]
    texts = [leaf.text for leaf in leaves]
    if max((leaf.end for leaf in leaves), default=summary.start) < summary.end and batch.part < batch.parts - 1:
        texts.insert(0, summary.text)
    return "\n\n".join(texts)[:SECTION_CHARS]


def _material(batch: ChunkBatch, chunk: Chunk, text: str) -> str:
    return "\n".join((batch.revision.name, batch.lead, _headings(chunk), text))


def _headings(chunk: Chunk) -> str:
    return " > ".join(chunk.heading_path)


def _digest(*parts: str) -> str:
    return blake2b(json.dumps([VERSION, *parts]).encode(), digest_size=8).hexdigest()
