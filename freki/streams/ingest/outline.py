"""Composes parsing, language detection and chunking into one step."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from freki.operators.chunk import ChunkLimits, Similarities, chunk_document, chunker_fingerprint, late_windows
from freki.operators.define import find_definitions
from freki.operators.detect_language import UNDETERMINED, detect_language
from freki.operators.identify import chunk_id, chunk_id_of_kind, chunk_id_within
from freki.operators.recognise import Profile
from freki.schemas import Chunk, ChunkKind, Definition, DocumentChange
from freki.schemas.names import record
from freki.streams.ingest.parse import PARSER_VERSIONS, Parse, Parsed
from freki.streams.ports import Embedder

CountTokens = Callable[[Sequence[str]], Sequence[int]]


@record
class Outline:
    """What parsing and chunking make of a content."""

    name: str
    media_type: str
    language: str
    attributes: Mapping[str, str]
    characters: int
    chunker: str
    """Fingerprint of how the chunks were made."""
    chunks: tuple[Chunk, ...]
    definitions: tuple[Definition, ...] = ()
    """Short forms that the document explains."""
    lead: str = ""
    """Its beginning, for a language model; empty where none needs it."""
    windows: tuple[str, ...] = ()
    """What chunks say that they are encoded within; those of the whole document."""


@record
class OutlineRules:
    """How documents are chunked."""

    limits: Mapping[Profile, ChunkLimits]
    define: bool = False
    """Whether to find abbreviations that a document explains."""
    lead_characters: int = 0
    """Length of the document's beginning that a language model gets, in characters."""
    window_tokens: int = 0
    """Maximum tokens of a window of late chunking; 0: no windows."""
    apart: Collection[ChunkKind] = ()
    """Kinds with an embedder of their own: their chunks have ids of their own, and no window."""


class Outliner:
    """Parses and chunks a document, which may take seconds."""

    def __init__(
        self,
        rules: OutlineRules,
        *,
        parse: Parse,
        count_tokens: CountTokens,
        similarities: Similarities | None = None,
    ) -> None:
        """Chunk by `similarities` where the limits say so."""
        self._rules = rules
        self._similarities = similarities
        self._parse = parse
        self._count_tokens = count_tokens

    async def __call__(self, change: DocumentChange, content: str | bytes) -> Outline:
        """Outline a document. Raises what parsing raises."""
        parsed = await self._parse(_file_name(change), change.media_type, content)
        # In a thread, so that heartbeats and the other stages of this process go on.
        return await asyncio.to_thread(self._outline, change, parsed)

    def _outline(self, change: DocumentChange, parsed: Parsed) -> Outline:
        document, limits = parsed.document, self._rules.limits[parsed.profile]
        chunks = chunk_document(
            document,
            identify=partial(chunk_id, change.tenant, change.document_id),
            count_tokens=self._count_tokens,
            limits=limits,
            similarities=self._similarities,
        )
        windows: Sequence[str] = ()
        if self._rules.window_tokens:
            chunks, windows = late_windows(
                document.text, chunks, count_tokens=self._count_tokens, max_tokens=self._rules.window_tokens
            )
        language = change.language or detect_language(document.text)
        stated = document.attributes.get("lang", "")[:2].lower()
        return Outline(
            name=change.name or document.title or _last_part(change),
            media_type=parsed.media_type,
            language=stated if language == UNDETERMINED and stated.isalpha() else language,
            # What the producer says wins over what the document states.
            attributes={**document.attributes, **change.attributes},
            characters=len(document.text),
            chunker=chunker_fingerprint(parsed.profile, PARSER_VERSIONS[parsed.profile], limits),
            chunks=tuple(self._identified(chunk, windows) for chunk in chunks),
            definitions=find_definitions(document.text) if self._rules.define else (),
            lead=document.text[: self._rules.lead_characters].rstrip(),
            windows=tuple(windows),
        )

    def _identified(self, chunk: Chunk, windows: Sequence[str]) -> Chunk:
        """Give a chunk the id that says what its vector depends on besides its text.

        The same text in other surroundings, or of a kind with another embedder, has another vector: it is another
        chunk, whose row is written beside the old one and not in its place.
        """
        if chunk.kind in self._rules.apart:
            own = chunk_id_of_kind(chunk.chunk_id, chunk.kind)
            return replace(chunk, chunk_id=own, window=-1, window_start=0)
        if chunk.window >= 0:
            return replace(chunk, chunk_id=chunk_id_within(chunk.chunk_id, windows[chunk.window]))
        return chunk


def similarities_by(embedder: Embedder) -> Similarities:
    """Compare neighbouring texts by their vectors, from threads other than that of the running loop."""
    loop = asyncio.get_running_loop()

    def similarities(texts: Sequence[str]) -> Sequence[float]:
        vectors = asyncio.run_coroutine_threadsafe(embedder.embed_passages(texts), loop).result()
        neighbours: list[float] = (vectors[:-1] * vectors[1:]).sum(axis=1).tolist()
        return neighbours

    return similarities


def _last_part(change: DocumentChange) -> str:
    return change.document_id.rpartition("/")[2]


def _file_name(change: DocumentChange) -> str:
    """Choose what may tell the format: a name for people, such as "Handbook", does not; the id may."""
    return change.name if change.name and "." in change.name else _last_part(change)
