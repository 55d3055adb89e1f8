"""Retrieval from the generation of the index that serves."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from freki.infra.milvus.generations import MilvusGenerations
from freki.infra.settings import LexicalSettings, ModelSettings, Settings
from freki.schemas import ContextQuery, DocumentQuery, Timestamp
from freki.schemas.errors import Misconfigured
from freki.schemas.index import GenerationEntry, serving
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.documents.handler import DocumentHandler
from freki.streams.messages import Received
from freki.streams.retrieve.handler import QueryHandler
from freki.streams.retrieve.serving import Serving
from freki.streams.wire.connect import open_index
from freki.streams.wire.from_settings import settings_named, wall_clock
from freki.streams.wire.query_parts import QueryParts
from freki.streams.wire.reload import TakeOver

if TYPE_CHECKING:
    from freki.streams.wire.parts import Parts

_OF_MODELS = {"embedder", "embedders", "late_window_tokens"}
_OF_LEXICAL = {"analyser"}


def serving_entry(entry: GenerationEntry, last: GenerationEntry | None) -> GenerationEntry:
    """Return an entry that lets the generation of another entry answer instead of the last one."""
    after = Timestamp(0 if last is None else last.at + 1)
    return replace(entry, entry_id=_entry_id(entry.generation), serves=True, at=max(wall_clock(), after))


def entry_of(settings: Settings, *, serves: bool) -> GenerationEntry:
    """Return an entry for the generation of these settings, at this time."""
    return GenerationEntry(
        entry_id=_entry_id(settings.milvus.generation),
        generation=settings.milvus.generation,
        serves=serves,
        at=wall_clock(),
        settings={
            "models": settings.models.model_dump(mode="json", include=_OF_MODELS),
            "lexical": settings.lexical.model_dump(mode="json", include=_OF_LEXICAL),
        },
    )


def settings_of(settings: Settings, entry: GenerationEntry) -> Settings:
    """Return the settings of a worker for queries on a generation."""
    models = {**settings.models.model_dump(), **entry.settings.get("models", {})}
    lexical = {**settings.lexical.model_dump(), **entry.settings.get("lexical", {})}
    return settings_named(settings, entry.generation).model_copy(
        update={
            "models": ModelSettings.model_validate(models),
            "lexical": LexicalSettings.model_validate(lexical),
        }
    )


def _entry_id(generation: str) -> str:
    return f"{generation}:{secrets.token_hex(8)}"


async def open_serving(parts: "Parts") -> Serving:
    """Open retrieval from the generation that serves, and follow the log of generations."""
    log = await parts.opened.enter_async_context(MilvusGenerations(parts.settings.milvus, parts.calls))

    @asynccontextmanager
    async def open_generation(entry: GenerationEntry) -> AsyncIterator[_Answering]:
        opened_by = parts.settings
        settings = settings_of(opened_by, entry)
        async with AsyncExitStack() as closing:
            own = parts if settings == opened_by else await parts.beside(settings)
            if own is not parts:
                closing.push_async_exit(own)
            handlers = await QueryParts(own).open_handlers()

            def prepare(after: Settings) -> TakeOver:
                return handlers.prepare(settings_of(after, entry))

            with parts.reloadable.add(prepare, opened_by=opened_by):
                yield _Answering(handlers.queries, handlers.documents, own)

    answering = Serving(log, open_generation)
    parts.opened.push_async_callback(answering.aclose)
    await answering.start(entry_of(parts.settings, serves=True))
    parts.background.spawn(answering.follow())
    return answering


async def leave_unreadable(settings: Settings) -> Misconfigured | None:
    """Let the generation of these settings answer if this release cannot read the one that does; return why.

    Only for a store without other readers, which may be of another release.
    """
    async with MilvusGenerations(settings.milvus) as log:
        last = serving(await log.entries())
        if last is None or last.generation == settings.milvus.generation:
            return None
        try:
            async with open_index(settings_of(settings, last)):
                return None
        except Misconfigured as error:
            await log.append(serving_entry(entry_of(settings, serves=True), last))
            return error


class _Answering:
    """The handlers of queries for one generation, with its parts."""

    def __init__(self, handler: QueryHandler, documents: DocumentHandler, parts: "Parts") -> None:
        self._handler = handler
        self._documents = documents
        self._parts = parts

    @property
    def is_idle(self) -> bool:
        return self._handler.is_idle

    async def handle(self, batch: Sequence[Received[ContextQuery]]) -> None:
        await self._handler.handle(batch)

    async def report(self, batch: Sequence[Received[DocumentQuery]]) -> None:
        await self._documents.handle(batch)

    async def give_up(self, letter: DeadLetter, received: Received[ContextQuery] | None) -> None:
        await self._handler.give_up(letter, received)

    def check(self) -> None:
        for task in self._parts.background.tasks:
            if task.done() and not task.cancelled():
                task.result()
