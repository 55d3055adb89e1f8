"""Lines that a language model wrote for the chunks of a part: contexts and summaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from freki.operators.ask_llm import copied_share, instructions, is_latin, longest_run
from freki.operators.breadcrumb import joined, written_by
from freki.operators.detect_language import CANDIDATES, may_be_in
from freki.operators.support import doubt_of, has_figures
from freki.schemas import ChunkBatch, Completion, ContextualChunk, LlmUse, NoCompletion
from freki.schemas.answer import Doubt
from freki.streams.ingest.context_prompts import ContextPrompt
from freki.streams.messages import Received
from freki.streams.statement import statement

ECHO_WORDS = 6
"""Words in a row of the request from which a line repeats it instead of following it."""
COPIED_SHARE = 0.8
"""Share of a line in one piece of the material from which it is a copy, which adds nothing."""
NOTHING = LlmUse(written=0, kept=0, missing=0, reason="", prompt_tokens=0, cached_tokens=0, completion_tokens=0)


@dataclass(frozen=True, slots=True)
class ContextLine:
    """Context or summary that a model wrote for a chunk."""

    text: str
    writer: str
    """Fingerprint of model and prompt."""


@dataclass(slots=True)
class PartProgress:
    """Progress of one part. Keys of mappings are indexes of chunks in the part."""

    received: Received[ChunkBatch]
    writers: Mapping[int, str]
    """Fingerprints of model and prompt, of the chunks that should have a line."""
    lines: dict[int, ContextLine]
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


def in_order_of_need(parts: Sequence[PartProgress]) -> list[PartProgress]:
    """Sort documents: those without unwritten lines first, then by priority; parts of each stay together in order."""
    documents: dict[bytes, list[PartProgress]] = {}
    for part in parts:
        documents.setdefault(part.received.key, []).append(part)

    def rank(of_document: list[PartProgress]) -> tuple[bool, int]:
        priority = max(part.received.value.revision.priority for part in of_document)
        return any(part.unwritten for part in of_document), -priority

    return [part for of_document in sorted(documents.values(), key=rank) for part in of_document]


def usable_lines(prompt: ContextPrompt, answer: Completion | NoCompletion, language: str) -> dict[int, str]:
    """Return the usable lines of a completion, by index of their chunk."""
    if isinstance(answer, NoCompletion):
        return {}
    read = zip(prompt.places, prompt.read(answer), strict=True)
    found = {place: line for place, line in read if line is not None and _may_be_in(line, language)}
    # A context may have other words than the material, which is what it is for; a summary is shown.
    words = prompt.is_summary
    return {
        place: line
        for place, line in found.items()
        if _is_supported(line, prompt.sources[place], language, words=words)
        and longest_run(line, instructions(language)) < ECHO_WORDS
        and copied_share(line, prompt.sources[place]) < COPIED_SHARE
    }


def _may_be_in(line: str, language: str) -> bool:
    """Return whether a line may be in the document's language; true if its language is undetermined."""
    return (language not in CANDIDATES or is_latin(line)) and may_be_in(line, language)


def _is_supported(line: str, source: str, language: str, *, words: bool) -> bool:
    """Return whether the figures of a line, and with `words` half of its words, are in the material."""
    if not words:
        return has_figures(line, [source])
    doubt = doubt_of(statement(line, language), [statement(source, language)], language=language)
    # The closest statement of much text is often another one, which may be negated.
    return doubt is None or doubt is Doubt.NEGATION


def with_line(chunk: ContextualChunk, line: ContextLine) -> ContextualChunk:
    """Add a line to the context of a chunk."""
    return replace(
        chunk,
        context=joined(chunk.context, "", line.text),
        context_key=written_by(chunk.context_key, line.writer),
    )
