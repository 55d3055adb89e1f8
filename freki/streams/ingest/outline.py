"""Outline of a document: parsing, language detection and chunking."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from freki.operators.chunk import (
    ChunkLimits,
    Similarities,
    chunk_document,
    chunker_fingerprint,
    late_windows,
    shortened,
)
from freki.operators.define import find_definitions
from freki.operators.detect_language import UNDETERMINED, detect_language
from freki.operators.identify import chunk_id, chunk_id_of_kind, chunk_id_within
from freki.operators.recognise import Profile
from freki.schemas import Chunk, ChunkKind, Definition, DocumentChange
from freki.schemas.names import record
from freki.schemas.outline import Block
from freki.schemas.stored_attributes import MAX_ATTRIBUTES_BYTES, attributes_bytes
from freki.streams.ingest.parse import LIGHT_LENGTH, PARSER_VERSIONS, Parse, Parsed, is_short
from freki.streams.ingest.short_calls import ShortCalls
from freki.streams.ports import Embedder

LEAST_LETTERS = 150
"""Letters from which on the language of a chunk is detected by itself."""
SURE = 0.95
"""Minimum probability of a language of a chunk that differs from its document's."""
MAX_TITLE_CHARS = 500
"""Characters of the title of a document that are its name where its producer gives none."""
_WITHOUT_LANGUAGE = {ChunkKind.CODE, ChunkKind.SUMMARY}
CountTokens = Callable[[Sequence[str]], Sequence[int]]
"""Number of tokens of each text."""


@record
class Outline:
    """Result of parsing and chunking a document's content."""

    name: str
    media_type: str
    language: str
    attributes: Mapping[str, str]
    characters: int
    chunker: str
    """As `outline_fingerprint` returns it."""
    chunks: tuple[Chunk, ...]
    definitions: tuple[Definition, ...] = ()
    """Abbreviations that the document explains."""
    lead: str = ""
    """Beginning of the document, for a language model; empty if none is used."""
    windows: tuple[str, ...] = ()
    """Windows of late chunking, of the whole document; chunks refer to them by index."""
    headings: tuple[Block, ...] = ()
    """Headings in reading order, also those that are in no heading path."""


@record
class OutlineRules:
    """Rules for outlining documents."""

    limits: Mapping[Profile, ChunkLimits]
    define: bool = False
    """Whether to find abbreviations that a document explains."""
    lead_characters: int = 0
    """Length of `Outline.lead`, in characters."""
    window_tokens: int = 0
    """Maximum tokens of a window of late chunking; 0: no windows."""
    apart: Collection[ChunkKind] = ()
    """Kinds with their own embedder: their chunks have separate ids, and no window."""


class Outliner:
    """Parser and chunker of documents; a document may take seconds."""

    def __init__(
        self,
        rules: OutlineRules,
        *,
        parse: Parse,
        count_tokens: CountTokens,
        similarities: Similarities | None = None,
    ) -> None:
        """Create an outliner; similarities: for semantic chunking, if the limits require it."""
        self._rules = rules
        self._similarities = similarities
        self._parse = parse
        self._count_tokens = count_tokens
        self._short_calls = ShortCalls(LIGHT_LENGTH)

    async def __call__(self, change: DocumentChange, content: str | bytes) -> Outline:
        """Return the outline of a document. Raises the errors of parsing."""
        parsed = await self._parse(_file_name(change), change.media_type, content)
        # In a thread, so that heartbeats and other stages of this process are not blocked.
        if self.is_light(parsed.document.text):
            outlined = partial(self._outline, change, parsed)
            return await self._short_calls.run(outlined, weight=len(parsed.document.text))
        return await asyncio.to_thread(self._outline, change, parsed)

    def is_light(self, text: str) -> bool:
        """Return whether a text is outlined in milliseconds: it is short, and no model is asked for it."""
        return self._similarities is None and is_short(text)

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
        language = stated if language == UNDETERMINED and stated.isalpha() else language
        return Outline(
            name=change.name or shortened(document.title or "", MAX_TITLE_CHARS) or _name_by_id(change),
            media_type=parsed.media_type,
            language=language,
            attributes=_with_own(change.attributes, document.attributes),
            characters=len(document.text),
            chunker=outline_fingerprint(parsed.profile, limits, define=self._rules.define),
            chunks=tuple(self._identified(_in_own_language(chunk, language), windows) for chunk in chunks),
            definitions=find_definitions(document.text) if self._rules.define else (),
            lead=document.text[: self._rules.lead_characters].rstrip(),
            windows=tuple(windows),
            headings=tuple(block for block in document.blocks if block.heading_level),
        )

    def _identified(self, chunk: Chunk, windows: Sequence[str]) -> Chunk:
        """Return a chunk whose id covers all inputs of its vector besides its text.

        The same text in another window, elsewhere in the same one, or of a kind with another embedder, has another
        vector: it is a different chunk, and its row does not replace the old one.
        """
        if chunk.kind in self._rules.apart:
            own = chunk_id_of_kind(chunk.chunk_id, chunk.kind)
            return replace(chunk, chunk_id=own, window=-1, window_start=0)
        if chunk.window >= 0:
            window = windows[chunk.window]
            # An edit before the window may change which occurrence of a text in the document this one is.
            is_repeated = window.find(chunk.text) != window.rfind(chunk.text)
            start = chunk.window_start if is_repeated else None
            return replace(chunk, chunk_id=chunk_id_within(chunk.chunk_id, window, start=start))
        return chunk


def _in_own_language(chunk: Chunk, language: str) -> Chunk:
    """Return a chunk with its language, where that is surely another one than its document's.

    It depends on the text and the language of the document alone: rows of unchanged chunks keep it.
    """
    if chunk.kind in _WITHOUT_LANGUAGE or sum(map(str.isalpha, chunk.text)) < LEAST_LETTERS:
        return chunk
    found = detect_language(chunk.text, certainty=SURE)
    return chunk if found in {UNDETERMINED, language} else replace(chunk, language=found)


def outline_fingerprint(profile: Profile, limits: ChunkLimits, *, define: bool) -> str:
    """Return the fingerprint of all that decides the chunks of documents of a format, and their definitions."""
    chunker = chunker_fingerprint(profile, PARSER_VERSIONS[profile], limits)
    return f"{chunker}:defined" if define else chunker


def similarities_by(embedder: Embedder) -> Similarities:
    """Return a function of the cosines of neighbouring texts, to be called from threads outside the event loop."""
    loop = asyncio.get_running_loop()

    def similarities(texts: Sequence[str]) -> Sequence[float]:
        vectors = asyncio.run_coroutine_threadsafe(embedder.embed_passages(texts), loop).result().vectors
        neighbours: list[float] = (vectors[:-1] * vectors[1:]).sum(axis=1).tolist()
        return neighbours

    return similarities


def _with_own(given: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the attributes of the producer, and as many of the document's own as the store takes besides."""
    left, fitting = MAX_ATTRIBUTES_BYTES - attributes_bytes(given), {}
    for key, value in own.items():
        size = attributes_bytes({key: value})
        if key not in given and size <= left:
            fitting[key], left = value, left - size
    return {**fitting, **given}


def _name_by_id(change: DocumentChange) -> str:
    """Return the last visible part of the id: addresses of web pages often end with a slash."""
    parts = reversed(change.document_id.split("/"))
    return next((part for part in parts if part.strip()), change.document_id)


def _file_name(change: DocumentChange) -> str:
    """Return the name for format recognition: the name if it has an extension, else the end of the id.

    Nothing before a slash at its end: `.org` and `.rs` of a host are no extensions.
    """
    return change.name if change.name and "." in change.name else change.document_id.rpartition("/")[2]
