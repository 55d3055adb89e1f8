"""Contexts and summaries written by a language model, within token budgets; optional for every chunk."""

from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from cachetools import LRUCache
from opentelemetry.trace import Tracer

from freki.operators.ask_llm import is_latin
from freki.operators.breadcrumb import joined, writer_of, written_by, written_in
from freki.operators.detect_language import CANDIDATES, UNDETERMINED, detect_language
from freki.operators.identify import root_id
from freki.schemas import (
    ChunkBatch,
    ChunkId,
    Completion,
    ContextualChunk,
    ContextualChunkBatch,
    LlmUse,
    NoCompletion,
    Revision,
)
from freki.schemas.index import Root
from freki.streams.ingest.context_prompts import ContextPrompt, ContextRules, context_prompts, prompt_fingerprints
from freki.streams.ingest.contextualise import contextualise
from freki.streams.messages import Received
from freki.streams.observe import attributes
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import UNTRACED, Attributes, describe, step
from freki.streams.ports import Llm, Store, TokenBudget

REVISIONS = 1024
"""Maximum revisions whose use of the model is kept until their last part."""
LINES = 20_000
"""Maximum recent lines that are cached, about 10 MB."""
CERTAIN = 0.9
"""Minimum probability of another language to reject a line: a line is little text to detect a language from."""
_CHARS_PER_TOKEN = 3
"""Characters per token, to estimate the tokens of a call: German has 3 to 4 in current tokenizers."""

NOTHING = LlmUse(written=0, kept=0, missing=0, reason="", prompt_tokens=0, cached_tokens=0, completion_tokens=0)
DAY_SPENT = "the daily token budget is spent; FREKI_LLM__MAX_TOKENS_DAY sets it"
DOCUMENT_SPENT = "the token budget of the document is spent; FREKI_CONTEXTS__MAX_TOKENS_DOCUMENT sets it"
UNUSABLE = "the language model returned no usable line"


@dataclass(frozen=True, slots=True)
class _Line:
    """Context or summary that a model wrote for a chunk."""

    text: str
    writer: str
    """Fingerprint of model and prompt."""


@dataclass(slots=True)
class _Part:
    """Progress of one part. Keys of mappings are indexes of chunks in the part."""

    received: Received[ChunkBatch]
    writers: Mapping[int, str]
    """Fingerprints of model and prompt, of the chunks that should have a line."""
    lines: dict[int, _Line]
    """Lines found in the index or written now."""
    use: LlmUse = field(default=NOTHING)

    @property
    def unwritten(self) -> list[int]:
        """Indexes of the chunks without a line, or with one of another model."""
        return [
            place
            for place, writer in self.writers.items()
            if place not in self.lines or self.lines[place].writer != writer
        ]

    @property
    def revision(self) -> tuple[bytes, int]:
        """Key and version of the document."""
        return self.received.key, self.received.value.revision.version


class ContextWriter:
    """Writer of contexts; satisfies WriteContexts of `ingest/contextualise.py`.

    Lines in the index by the same model are kept without a call. A chunk without a new line keeps its old one, or only
    name and headings; the receipt counts it as missing.
    """

    def __init__(
        self,
        rules: ContextRules,
        *,
        llm: Llm,
        ledger: TokenBudget,
        store: Store,
        meters: Meters,
        tracer: Tracer = UNTRACED,
    ) -> None:
        self._rules = rules
        self._llm = llm
        self._ledger = ledger
        self._store = store
        self._meters = meters
        self._tracer = tracer
        self._used: MutableMapping[tuple[bytes, int], dict[int, LlmUse]] = LRUCache(REVISIONS)
        """Use by part, so that a repeated part counts once."""
        self._recent: MutableMapping[ChunkId, _Line] = LRUCache(LINES)
        """Recent lines, which the next version of a document may need before they are in the index."""

    async def __call__(
        self, batch: Sequence[Received[ChunkBatch]]
    ) -> AsyncIterator[tuple[Received[ChunkBatch], ContextualChunkBatch]]:
        """Yield each part with its contexts as soon as they are ready, in order for each document.

        Documents that need no call come first, then those of high priority. Documents are processed one after the
        other, so that the server's prompt cache holds the beginning of each.
        """
        for part in _ordered(await self._parts(batch)):
            self._recall(part)
            await self._write_lines(part)
            yield part.received, self._finished(part)

    async def _parts(self, batch: Sequence[Received[ChunkBatch]]) -> list[_Part]:
        """Return the parts with their lines in the index."""
        revisions = [received.value.revision for received in batch]
        keys = [root_id(revision.tenant, revision.document_id) for revision in revisions]
        roots = await self._store.roots(keys)
        chosen = [prompt_fingerprints(received.value, self._rules, model=self._llm.model) for received in batch]
        stored = await self._stored(
            [
                received.value.chunks[place].chunk_id
                for received, fingerprints in zip(batch, chosen, strict=True)
                for place in fingerprints
            ]
        )
        return [
            self._part(received, fingerprints, roots.get(key), stored)
            for received, fingerprints, key in zip(batch, chosen, keys, strict=True)
        ]

    async def _stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, _Line | None]:
        """Return the stored line of each chunk in the index; None for chunks without a line."""
        stored = await self._store.stored(chunk_ids)
        # Of several rows of a chunk, prefer one with a line.
        best = {
            chunk_id: max(rows, key=lambda row: (writer_of(row.context_key), row.row_id))
            for chunk_id, rows in stored.items()
        }
        written = {chunk_id: row.row_id for chunk_id, row in best.items() if writer_of(row.context_key)}
        passages = await self._store.passages(list(written.values()))
        lines = {
            chunk_id: _Line(written_in(passages[row_id].context), writer_of(passages[row_id].context_key))
            for chunk_id, row_id in written.items()
            if row_id in passages
        }
        return {chunk_id: lines.get(chunk_id) for chunk_id in stored}

    def _part(
        self,
        received: Received[ChunkBatch],
        wanted: Mapping[int, str],
        root: Root | None,
        stored: Mapping[ChunkId, _Line | None],
    ) -> _Part:
        ids = {place: received.value.chunks[place].chunk_id for place in wanted}
        wanted = {
            place: writer
            for place, writer in wanted.items()
            if _is_needed(received.value.revision, root, stored=ids[place] in stored)
        }
        lines = {place: line for place in wanted if (line := stored.get(ids[place])) is not None}
        return _Part(received, wanted, lines)

    def _recall(self, part: _Part) -> None:
        """Add cached lines of the same model and prompt."""
        for place in part.unwritten:
            line = self._recent.get(part.received.value.chunks[place].chunk_id)
            if line is not None and line.writer == part.writers[place]:
                part.lines[place] = line

    async def _write_lines(self, part: _Part) -> None:
        """Send prompts in reading order, the first one alone, so that the server caches the document's beginning."""
        pending = list(context_prompts(part.received.value, part.unwritten, self._rules))
        max_prompts = 1
        while pending and (count := await self._reserved(part, pending[:max_prompts])):
            await self._complete(part, pending[:count])
            pending = pending[count:]
            max_prompts = len(pending)

    async def _reserved(self, part: _Part, prompts: Sequence[ContextPrompt]) -> int:
        """Return how many of the first prompts fit both budgets, and reserve their tokens."""
        earlier = self._used.get(part.revision, {}).values()
        spent = sum(use.prompt_tokens + use.completion_tokens for use in (*earlier, part.use))
        for count, prompt in enumerate(prompts):
            spent += _max_tokens(prompt)
            if self._rules.max_tokens_document and spent > self._rules.max_tokens_document:
                part.use = _added(part.use, replace(NOTHING, reason=DOCUMENT_SPENT))
                return count
            if not await self._ledger.take(_max_tokens(prompt)):
                part.use = _added(part.use, replace(NOTHING, reason=DAY_SPENT))
                return count
        return len(prompts)

    async def _complete(self, part: _Part, prompts: Sequence[ContextPrompt]) -> None:
        """Complete prompts whose tokens are reserved, and add their lines and use to the part."""
        batch = part.received.value
        with step(self._tracer, "ask", kind=attributes.LLM, trace=part.received.trace) as span:
            answers = await self._llm.complete(
                [prompt.prompt for prompt in prompts], max_tokens=max(prompt.max_tokens for prompt in prompts)
            )
            use = NOTHING
            for prompt, answer in zip(prompts, answers, strict=True):
                used = await self._settled(prompt, answer)
                texts = _texts(prompt, answer, batch.revision.language)
                lines = {place: _Line(text, part.writers[place]) for place, text in texts.items()}
                part.lines |= lines
                self._recent.update({batch.chunks[place].chunk_id: line for place, line in lines.items()})
                use = _added(use, replace(used, written=len(lines)))
            part.use = _added(part.use, use)
            describe(span, lambda: self._described(use))

    async def _settled(self, prompt: ContextPrompt, answer: Completion | NoCompletion) -> LlmUse:
        """Release the unused reserved tokens; return the use, with the reason if there is no completion."""
        if isinstance(answer, NoCompletion):
            await self._ledger.give_back(_max_tokens(prompt))
            return replace(NOTHING, reason=answer.reason)
        await self._ledger.give_back(_max_tokens(prompt) - answer.prompt_tokens - answer.completion_tokens)
        return replace(
            NOTHING,
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            completion_tokens=answer.completion_tokens,
        )

    def _finished(self, part: _Part) -> ContextualChunkBatch:
        plain = contextualise(part.received.value)
        chunks = tuple(
            _with_line(chunk, part.lines[place]) if place in part.lines else chunk
            for place, chunk in enumerate(plain.chunks)
        )
        missing = len(part.writers.keys() - part.lines.keys())
        use = replace(
            part.use,
            kept=len(part.writers.keys() & part.lines.keys()) - part.use.written,
            missing=missing,
            reason=(part.use.reason or UNUSABLE) if missing else "",
        )
        self._meters.situated(use)
        uses = {**self._used.pop(part.revision, {}), plain.part: use}
        if plain.part < plain.parts - 1:
            self._used[part.revision] = uses
        total = reduce(_added, uses.values())
        return replace(plain, chunks=chunks, llm=total if total != NOTHING else None)

    def _described(self, use: LlmUse) -> Attributes:
        return {
            attributes.GEN_AI_OPERATION_NAME: "chat",
            attributes.GEN_AI_REQUEST_MODEL: self._llm.model,
            attributes.LLM_MODEL_NAME: self._llm.model,
            attributes.GEN_AI_USAGE_INPUT_TOKENS: use.prompt_tokens,
            attributes.LLM_TOKEN_COUNT_PROMPT: use.prompt_tokens,
            attributes.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: use.cached_tokens,
            attributes.GEN_AI_USAGE_OUTPUT_TOKENS: use.completion_tokens,
            attributes.LLM_TOKEN_COUNT_COMPLETION: use.completion_tokens,
            attributes.FREKI_CONTEXTS_WRITTEN: use.written,
        }


def _ordered(parts: Sequence[_Part]) -> list[_Part]:
    """Sort documents as `ContextWriter.__call__` documents; the parts of each stay together and in order."""
    documents: dict[bytes, list[_Part]] = {}
    for part in parts:
        documents.setdefault(part.received.key, []).append(part)

    def rank(of_document: list[_Part]) -> tuple[bool, int]:
        priority = max(part.received.value.revision.priority for part in of_document)
        return any(part.unwritten for part in of_document), -priority

    return [part for of_document in sorted(documents.values(), key=rank) for part in of_document]


def _is_needed(revision: Revision, root: Root | None, *, stored: bool) -> bool:
    """Return whether the index will use a context: not for a stale revision, nor for new chunks of an indexed one."""
    if root is None or root.version < revision.version:
        return True
    return root.version == revision.version and not root.deleted and stored


def _max_tokens(prompt: ContextPrompt) -> int:
    """Return the estimated maximum tokens of a call."""
    return (len(prompt.prompt.system) + len(prompt.prompt.user)) // _CHARS_PER_TOKEN + prompt.max_tokens


def _texts(prompt: ContextPrompt, answer: Completion | NoCompletion, language: str) -> dict[int, str]:
    """Return the usable lines of a completion, by index of their chunk."""
    if isinstance(answer, NoCompletion):
        return {}
    read = zip(prompt.places, prompt.read(answer.text), strict=True)
    return {place: line for place, line in read if line is not None and _may_be_in(line, language)}


def _may_be_in(line: str, language: str) -> bool:
    """Return whether a line may be in the document's language; true if its language is undetermined."""
    if language not in CANDIDATES:
        return True
    return is_latin(line) and detect_language(line, certainty=CERTAIN) in {language, UNDETERMINED}


def _with_line(chunk: ContextualChunk, line: _Line) -> ContextualChunk:
    return replace(
        chunk,
        context=joined(chunk.context, "", line.text),
        context_key=written_by(chunk.context_key, line.writer),
    )


def _added(one: LlmUse, other: LlmUse) -> LlmUse:
    return LlmUse(
        written=one.written + other.written,
        kept=one.kept + other.kept,
        missing=one.missing + other.missing,
        reason=one.reason or other.reason,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
    )
