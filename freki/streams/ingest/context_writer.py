"""Lets a language model write contexts and summaries of sections, within budgets, and makes do without an answer."""

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
from freki.streams.ingest.context_prompts import ContextPrompt, ContextRules, questions, writers
from freki.streams.ingest.contextualise import contextualise
from freki.streams.messages import Received
from freki.streams.observe import attributes
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import UNTRACED, Attributes, describe, step
from freki.streams.ports import Llm, Store, TokenBudget

REVISIONS = 1024
"""Whose use of the model is remembered until their last part."""
LINES = 20_000
"""That are remembered: about 10 MB."""
CERTAIN = 0.9
"""Least probability of a language for an answer in it to be refused: a line is little to judge by."""
_CHARS_A_TOKEN = 3
"""For what a call will take at most: German has 3 to 4 in the tokenizers of today's models."""

NOTHING = LlmUse(written=0, kept=0, missing=0, reason="", prompt_tokens=0, cached_tokens=0, completion_tokens=0)
DAY_SPENT = "the tokens of the day are spent: FREKI_LLM__MAX_TOKENS_DAY"
DOCUMENT_SPENT = "the tokens of the document are spent: FREKI_CONTEXTS__MAX_TOKENS_DOCUMENT"
UNUSABLE = "the language model gave no usable line"


@dataclass(frozen=True, slots=True)
class _Line:
    """What a model wrote about a chunk."""

    text: str
    writer: str


@dataclass(slots=True)
class _Part:
    """A part on its way through the model."""

    received: Received[ChunkBatch]
    writers: Mapping[int, str]
    """Of the chunks that should have a line."""
    lines: dict[int, _Line]
    """Found in the index, and written now."""
    use: LlmUse = field(default=NOTHING)

    @property
    def asked(self) -> list[int]:
        """Places of the chunks whose line is not there yet, or of another model."""
        return [
            place
            for place, writer in self.writers.items()
            if place not in self.lines or self.lines[place].writer != writer
        ]

    @property
    def revision(self) -> tuple[bytes, int]:
        """Name the version of the document."""
        return self.received.key, self.received.value.revision.version


class ContextWriter:
    """Satisfies Situate of `streams.contextualising`.

    What the index holds by the same model is kept, and costs no call. What the model does not write now stays as it
    was, or as name and headings say it, and the receipt counts it.
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
        """By part, so that one which comes again counts once."""
        self._recent: MutableMapping[ChunkId, _Line] = LRUCache(LINES)
        """On their way to the index, where the next version of a document would not find them yet."""

    async def __call__(
        self, batch: Sequence[Received[ChunkBatch]]
    ) -> AsyncIterator[tuple[Received[ChunkBatch], ContextualChunkBatch]]:
        """Give each part with its contexts as soon as they are there, in order for each document.

        Documents that need no call come first, then important ones. One follows the other, so that a server reads
        the beginning of each once.
        """
        for part in _ordered(await self._parts(batch)):
            self._recall(part)
            await self._ask(part)
            yield part.received, self._finished(part)

    async def _parts(self, batch: Sequence[Received[ChunkBatch]]) -> list[_Part]:
        """Compare with what the index holds."""
        revisions = [received.value.revision for received in batch]
        keys = [root_id(revision.tenant, revision.document_id) for revision in revisions]
        roots = await self._store.roots(keys)
        wanted = [writers(received.value, self._rules, model=self._llm.model) for received in batch]
        stored = await self._stored(
            [
                received.value.chunks[place].chunk_id
                for received, each in zip(batch, wanted, strict=True)
                for place in each
            ]
        )
        return [
            self._part(received, each, roots.get(key), stored)
            for received, each, key in zip(batch, wanted, keys, strict=True)
        ]

    async def _stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, _Line | None]:
        """Read what a model wrote about chunks; None where they are there without."""
        stored = await self._store.stored(chunk_ids)
        # Of several rows of a chunk, one that a model wrote about.
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
            if _is_awaited(received.value.revision, root, known=ids[place] in stored)
        }
        lines = {place: line for place in wanted if (line := stored.get(ids[place])) is not None}
        return _Part(received, wanted, lines)

    def _recall(self, part: _Part) -> None:
        """Take lines that were written a moment ago."""
        for place in part.asked:
            line = self._recent.get(part.received.value.chunks[place].chunk_id)
            if line is not None and line.writer == part.writers[place]:
                part.lines[place] = line

    async def _ask(self, part: _Part) -> None:
        """Ask in reading order: first one question alone, which lets the server read the document once for all."""
        asking = list(questions(part.received.value, part.asked, self._rules))
        together = 1
        while asking and (count := await self._granted(part, asking[:together])):
            await self._round(part, asking[:count])
            asking = asking[count:]
            together = len(asking)

    async def _granted(self, part: _Part, asking: Sequence[ContextPrompt]) -> int:
        """Count questions, from the first on, that both budgets have room for, and take their tokens."""
        earlier = self._used.get(part.revision, {}).values()
        spent = sum(use.prompt_tokens + use.completion_tokens for use in (*earlier, part.use))
        for count, question in enumerate(asking):
            spent += _most(question)
            if self._rules.max_tokens_document and spent > self._rules.max_tokens_document:
                part.use = _added(part.use, replace(NOTHING, reason=DOCUMENT_SPENT))
                return count
            if not await self._ledger.take(_most(question)):
                part.use = _added(part.use, replace(NOTHING, reason=DAY_SPENT))
                return count
        return len(asking)

    async def _round(self, part: _Part, asking: Sequence[ContextPrompt]) -> None:
        batch = part.received.value
        with step(self._tracer, "ask", kind=attributes.LLM, trace=part.received.trace) as span:
            answers = await self._llm.complete(
                [question.prompt for question in asking], max_tokens=max(question.max_tokens for question in asking)
            )
            use = NOTHING
            for question, answer in zip(asking, answers, strict=True):
                used = await self._settled(question, answer)
                texts = _texts(question, answer, batch.revision.language)
                lines = {place: _Line(text, part.writers[place]) for place, text in texts.items()}
                part.lines |= lines
                self._recent.update({batch.chunks[place].chunk_id: line for place, line in lines.items()})
                use = _added(use, replace(used, written=len(lines)))
            part.use = _added(part.use, use)
            describe(span, lambda: self._described(use))

    async def _settled(self, question: ContextPrompt, answer: Completion | NoCompletion) -> LlmUse:
        """Give back what was taken and not used; give what was used, and why a line may be missing."""
        if isinstance(answer, NoCompletion):
            await self._ledger.give_back(_most(question))
            return replace(NOTHING, reason=answer.reason)
        await self._ledger.give_back(_most(question) - answer.prompt_tokens - answer.completion_tokens)
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
    """Keep the parts of a document together and in order; see `ContextWriter.__call__` for which comes first."""
    documents: dict[bytes, list[_Part]] = {}
    for part in parts:
        documents.setdefault(part.received.key, []).append(part)

    def rank(of_document: list[_Part]) -> tuple[bool, int]:
        priority = max(part.received.value.revision.priority for part in of_document)
        return any(part.asked for part in of_document), -priority

    return [part for of_document in sorted(documents.values(), key=rank) for part in of_document]


def _is_awaited(revision: Revision, root: Root | None, *, known: bool) -> bool:
    """Say whether the index will take a context: not for what is superseded, nor for other chunks of what it holds."""
    if root is None or root.version < revision.version:
        return True
    return root.version == revision.version and not root.deleted and known


def _most(question: ContextPrompt) -> int:
    """Give the tokens that a call takes at most, about."""
    return (len(question.prompt.system) + len(question.prompt.user)) // _CHARS_A_TOKEN + question.max_tokens


def _texts(question: ContextPrompt, answer: Completion | NoCompletion, language: str) -> dict[int, str]:
    """Give what of an answer counts, by the places of chunks."""
    if isinstance(answer, NoCompletion):
        return {}
    read = zip(question.places, question.read(answer.text), strict=True)
    return {place: line for place, line in read if line is not None and _speaks(line, language)}


def _speaks(line: str, language: str) -> bool:
    """Say whether a line may be in the document's language; what cannot be told may be."""
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
