"""Contexts and summaries written by a language model, within token budgets; optional for every chunk."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain

from cachetools import LRUCache
from opentelemetry.trace import Tracer

from freki.operators.breadcrumb import writer_of, written_in
from freki.operators.identify import root_id
from freki.schemas import ChunkBatch, ChunkId, Completion, ContextualChunkBatch, LlmUse, NoCompletion
from freki.schemas.index import Root
from freki.streams.ingest.context_lines import (
    NOTHING,
    ContextLine,
    PartProgress,
    in_order_of_need,
    usable_lines,
    with_line,
)
from freki.streams.ingest.context_prompts import (
    ContextPrompt,
    ContextRules,
    context_prompts,
    prompt_fingerprints,
    rules_fingerprint,
)
from freki.streams.ingest.contextualise import contextualise, with_contexts
from freki.streams.messages import Received, edition_in
from freki.streams.observe import attributes
from freki.streams.observe.meters import Meters
from freki.streams.observe.tracing import UNTRACED, Attributes, describe, step
from freki.streams.ports import Llm, Store, TokenBudget
from freki.streams.token_estimate import most_tokens

REVISIONS = 1024
"""Maximum revisions whose use of the model is kept until their last part."""
LINES = 20_000
"""Maximum recent lines that are cached, about 10 MB."""

DAY_SPENT = "the daily token budget is spent; FREKI_LLM__MAX_TOKENS_DAY sets it"
DOCUMENT_SPENT = "the token budget of the document is spent; FREKI_CONTEXTS__MAX_TOKENS_DOCUMENT sets it"
UNUSABLE = "the language model returned no usable line"
CUT_OFF = (
    "the language model reached the maximum of tokens before it had a line for each chunk; a model that thinks needs "
    "this switched off: FREKI_LLM__EXTRA_BODY"
)


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
        self._fingerprint = rules_fingerprint(rules, model=llm.model)
        self._llm = llm
        self._ledger = ledger
        self._store = store
        self._meters = meters
        self._tracer = tracer
        self._used: MutableMapping[tuple[bytes, int], dict[int, LlmUse]] = LRUCache(REVISIONS)
        """Use by part, so that a repeated part counts once."""
        self._recent: MutableMapping[ChunkId, ContextLine] = LRUCache(LINES)
        """Recent lines, which the next version of a document may need before they are in the index."""

    async def __call__(
        self, batch: Sequence[Received[ChunkBatch]]
    ) -> AsyncIterator[tuple[Received[ChunkBatch], ContextualChunkBatch]]:
        """Yield each part with its contexts as soon as they are ready, in order for each document.

        Documents that need no call come first, then those of high priority. Documents are processed one after the
        other, so that the server's prompt cache holds the beginning of each.
        """
        for part in in_order_of_need(await self._parts(batch)):
            self._recall(part)
            await self._write_lines(part)
            yield part.received, self._finished(part)

    async def _parts(self, batch: Sequence[Received[ChunkBatch]]) -> list[PartProgress]:
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

    async def _stored(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, ContextLine | None]:
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
            chunk_id: ContextLine(written_in(passages[row_id].context), writer_of(passages[row_id].context_key))
            for chunk_id, row_id in written.items()
            if row_id in passages
        }
        return {chunk_id: lines.get(chunk_id) for chunk_id in stored}

    def _part(
        self,
        received: Received[ChunkBatch],
        wanted: Mapping[int, str],
        root: Root | None,
        stored: Mapping[ChunkId, ContextLine | None],
    ) -> PartProgress:
        ids = {place: received.value.chunks[place].chunk_id for place in wanted}
        wanted = {
            place: writer
            for place, writer in wanted.items()
            if self._is_needed(received, root, stored=ids[place] in stored)
        }
        lines = {place: line for place in wanted if (line := stored.get(ids[place])) is not None}
        return PartProgress(received, wanted, lines)

    def _recall(self, part: PartProgress) -> None:
        """Add cached lines of the same model and prompt."""
        for place in part.unwritten:
            line = self._recent.get(part.received.value.chunks[place].chunk_id)
            if line is not None and line.writer == part.writers[place]:
                part.lines[place] = line

    async def _write_lines(self, part: PartProgress) -> None:
        """Send prompts in reading order, the first one alone, so that the server caches the document's beginning."""
        pending = list(context_prompts(part.received.value, part.unwritten, self._rules))
        max_prompts = 1
        while pending and (days := await self._reserved(part, pending[:max_prompts])):
            await self._complete(part, pending[: len(days)], days)
            pending = pending[len(days) :]
            max_prompts = len(pending)

    async def _reserved(self, part: PartProgress, prompts: Sequence[ContextPrompt]) -> list[str]:
        """Reserve the tokens of the first prompts that fit both budgets; return the day of each."""
        days: list[str] = []
        earlier = self._used.get(part.revision, {}).values()
        spent = sum(use.prompt_tokens + use.completion_tokens for use in (*earlier, part.use))
        for prompt in prompts:
            spent += _max_tokens(prompt)
            if self._rules.max_tokens_document and spent > self._rules.max_tokens_document:
                part.use = _added(part.use, replace(NOTHING, reason=DOCUMENT_SPENT))
                break
            if (day := await self._ledger.take(_max_tokens(prompt))) is None:
                part.use = _added(part.use, replace(NOTHING, reason=DAY_SPENT))
                break
            days.append(day)
        return days

    async def _complete(self, part: PartProgress, prompts: Sequence[ContextPrompt], days: Sequence[str]) -> None:
        """Complete prompts whose tokens are reserved, and add their lines and use to the part."""
        batch = part.received.value
        with step(self._tracer, "ask", kind=attributes.LLM, trace=part.received.trace) as span:
            answers = await self._answers(prompts)
            use = NOTHING
            for prompt, answer, day in zip(prompts, answers, days, strict=True):
                used = await self._settled(prompt, answer, day)
                texts = usable_lines(prompt, answer, batch.revision.language)
                lines = {place: ContextLine(text, part.writers[place]) for place, text in texts.items()}
                part.lines |= lines
                self._recent.update({batch.chunks[place].chunk_id: line for place, line in lines.items()})
                reason = CUT_OFF if used.reason == "" and len(lines) < len(prompt.places) and _cut_off(answer) else ""
                use = _added(use, replace(used, written=len(lines), reason=used.reason or reason))
            part.use = _added(part.use, use)
            describe(span, lambda: self._described(use))

    async def _answers(self, prompts: Sequence[ContextPrompt]) -> list[Completion | NoCompletion]:
        """Complete each prompt within its own maximum: no more tokens are reserved for it."""
        alike: defaultdict[int, list[int]] = defaultdict(list)
        for place, prompt in enumerate(prompts):
            alike[prompt.max_tokens].append(place)
        calls = (
            self._llm.complete([prompts[place].prompt for place in places], max_tokens=most)
            for most, places in alike.items()
        )
        found = chain.from_iterable(await asyncio.gather(*calls))
        answers = dict(zip(chain.from_iterable(alike.values()), found, strict=True))
        return [answers[place] for place in range(len(prompts))]

    async def _settled(self, prompt: ContextPrompt, answer: Completion | NoCompletion, day: str) -> LlmUse:
        """Release the unused reserved tokens; return the use, with the reason if there is no completion."""
        if isinstance(answer, NoCompletion):
            await self._ledger.give_back(_max_tokens(prompt), day=day)
            return replace(NOTHING, reason=answer.reason)
        await self._ledger.give_back(_max_tokens(prompt) - answer.prompt_tokens - answer.completion_tokens, day=day)
        return replace(
            NOTHING,
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            completion_tokens=answer.completion_tokens,
        )

    def _finished(self, part: PartProgress) -> ContextualChunkBatch:
        plain = contextualise(part.received.value, rules=self._fingerprint)
        chunks = tuple(
            with_line(chunk, part.lines[place]) if place in part.lines else chunk
            for place, chunk in enumerate(plain.chunks)
        )
        missing = len(part.writers.keys() - part.lines.keys())
        use = replace(
            part.use,
            kept=len(part.writers.keys() & part.lines.keys()) - part.use.written,
            missing=missing,
            reason=(part.use.reason or UNUSABLE) if missing else "",
        )
        self._meters.count_llm_use(use)
        uses = {**self._used.pop(part.revision, {}), plain.part: use}
        if plain.part < plain.parts - 1:
            self._used[part.revision] = uses
        total = reduce(_added, uses.values())
        return replace(plain, chunks=chunks, llm=total if total != NOTHING else None)

    def _is_needed(self, received: Received[ChunkBatch], root: Root | None, *, stored: bool) -> bool:
        """Return whether the index will use a context.

        It does not for a stale revision. For a revision that it holds, it does if that is to be reindexed, or for
        stored chunks if it was made by the same rules.
        """
        revision = received.value.revision
        if root is None or root.version < revision.version:
            return True
        if root.version > revision.version or root.deleted:
            return False
        is_same = root.chunker == with_contexts(revision.chunker, self._fingerprint)
        return edition_in(received.headers) > root.edition or (is_same and stored)

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


def _cut_off(answer: Completion | NoCompletion) -> bool:
    return isinstance(answer, Completion) and answer.truncated


def _max_tokens(prompt: ContextPrompt) -> int:
    """Return the estimated maximum tokens of a call."""
    return most_tokens(prompt.prompt, prompt.max_tokens)


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
