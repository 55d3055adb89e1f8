"""Settings of ingestion: loading, parsing, chunking, contexts, indexing."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from freki.infra.settings.section import SettingsSection, check_ascending


class ClaimSettings(SettingsSection):
    """Storage of content too large for a record."""

    directory: str = Field(default=".freki/claims", description="Directory or URL that `freki publish` writes to")
    allowed: tuple[str, ...] = Field(
        default=(), description="URL prefixes that workers read besides `directory`, such as s3://bucket/docs/"
    )
    inline_bytes: int = Field(
        default=600_000, ge=0, description="Content up to this size travels in the record; more goes to `directory`"
    )
    max_bytes: int = Field(default=64_000_000, ge=1, description="Largest content that a worker loads")


class ParsingSettings(SettingsSection):
    """Limits of parsing, which runs in separate processes so that no file can harm a worker."""

    processes: int = Field(default=1, ge=1, le=64, description="Processes that parse, for each worker that chunks")
    timeout_s: float = Field(
        default=60.0, gt=0, le=400, description="Longest time for a document; one over it is rejected"
    )
    max_memory_mb: int = Field(
        default=1024, ge=256, description="Maximum address space of such a process, in MiB; not held on macOS"
    )
    max_pages: int = Field(default=5000, ge=1, description="Maximum number of pages of a PDF")
    max_unpacked_mb: int = Field(default=64, ge=1, description="Maximum unpacked size of an Office file, in MiB")

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        sizes = {"PARSING__MAX_UNPACKED_MB": self.max_unpacked_mb, "PARSING__MAX_MEMORY_MB": self.max_memory_mb}
        check_ascending(sizes, strictly=True)
        return self


class ChunkProfile(SettingsSection):
    """Chunk sizes of one kind of document."""

    max_chars: int = Field(ge=100, description="Maximum number of characters of a chunk")
    overlap_chars: int = Field(ge=0, description="Characters of the text before it that a chunk remembers")


LEAST_MAX_TOKENS = 32
"""Lowest FREKI_CHUNKING__MAX_TOKENS."""


class ChunkingSettings(SettingsSection):
    """Chunk sizes and limits."""

    min_tokens: int = Field(default=30, ge=1, description="Smaller neighbours are joined, also adjacent sections")
    min_chars: int = Field(default=0, ge=0, description="Minimum number of characters of a chunk, besides `min_tokens`")
    max_tokens: int = Field(
        default=256,
        ge=LEAST_MAX_TOKENS,
        description="Maximum number of tokens of a chunk; with its context it must fit the embedder",
    )
    overlap_tokens: int | None = Field(
        default=None, ge=0, description="Maximum number of tokens of an overlap, besides the characters of its format"
    )
    least_similarity: float | None = Field(
        default=None,
        ge=-1,
        le=1,
        description="Cut long prose where neighbouring sentences are less similar, by vectors; none: at paragraphs",
    )
    breakpoint_percentile: float | None = Field(
        default=None,
        gt=0,
        lt=100,
        description="Instead of a similarity, which differs by embedder: cut where the distance of neighbouring "
        "sentences is above this percentile of those in the section, such as 90",
    )
    max_characters: int = Field(default=20_000_000, ge=1, description="Longest document")
    part_chunks: int = Field(default=64, ge=1, le=512, description="Maximum number of chunks of one ChunkBatch")
    pdf: ChunkProfile = ChunkProfile(max_chars=1000, overlap_chars=150)
    text: ChunkProfile = ChunkProfile(max_chars=800, overlap_chars=120)
    markdown: ChunkProfile = ChunkProfile(max_chars=1200, overlap_chars=150)
    html: ChunkProfile = ChunkProfile(max_chars=1200, overlap_chars=50)
    code: ChunkProfile = ChunkProfile(max_chars=600, overlap_chars=80)
    docx: ChunkProfile = ChunkProfile(max_chars=800, overlap_chars=120)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: object) -> object:
        """Fill in the default size where only the other size of a profile is set."""
        if not isinstance(values, dict):
            return values
        usual = {name: field.default for name, field in cls.model_fields.items() if field.annotation is ChunkProfile}
        return {
            name: {**usual[name].model_dump(), **value} if name in usual and isinstance(value, dict) else value
            for name, value in values.items()
        }

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_ascending({"CHUNKING__MIN_TOKENS": self.min_tokens, "CHUNKING__MAX_TOKENS": self.max_tokens})
        if self.least_similarity is not None and self.breakpoint_percentile is not None:
            raise ValueError(
                "FREKI_CHUNKING__LEAST_SIMILARITY and FREKI_CHUNKING__BREAKPOINT_PERCENTILE both say where prose is "
                "cut: set one of them"
            )
        for name, profile in self.profiles.items():
            check_ascending(
                {"CHUNKING__MIN_CHARS": self.min_chars, f"CHUNKING__{name.upper()}__MAX_CHARS": profile.max_chars}
            )
            sizes = {"OVERLAP_CHARS": profile.overlap_chars, "MAX_CHARS": profile.max_chars}
            check_ascending(
                {f"CHUNKING__{name.upper()}__{size}": value for size, value in sizes.items()}, strictly=True
            )
        return self

    @property
    def is_semantic(self) -> bool:
        """Whether prose is cut by vectors of its sentences."""
        return self.least_similarity is not None or self.breakpoint_percentile is not None

    @property
    def profiles(self) -> dict[str, ChunkProfile]:
        """Chunk sizes by kind of document."""
        return {name: value for name, value in self if isinstance(value, ChunkProfile)}


class ContextSettings(SettingsSection):
    """Context that is embedded with a chunk besides its headings, and never cited: docs/contexts.md."""

    definitions: bool = Field(
        default=False, description="Explain abbreviations that a chunk uses, as the document does elsewhere"
    )
    llm: bool = Field(default=False, description="Let the language model situate each chunk in its document")
    summaries: bool = Field(default=False, description="Let it summarise documents and sections")
    batch_chunks: int = Field(default=5, ge=1, le=50, description="Chunks situated by one call")
    min_chars: int = Field(default=50, ge=0, description="Shorter chunks are left alone")
    max_chars: int = Field(
        default=200, ge=50, le=1000, description="Longest context that the model writes for a chunk, in characters"
    )
    document_chars: int = Field(
        default=8000, ge=500, le=100_000, description="Beginning of the document that the model reads with each call"
    )
    max_tokens_document: int = Field(
        default=500_000,
        ge=0,
        description="Maximum number of tokens of the language model for one version of a document; 0: any",
    )


class LexicalSettings(SettingsSection):
    """Analyser of BM25 terms."""

    analyser: Literal["freki", "plain"] = Field(
        default="freki",
        description="`freki` stems, splits compounds, knows forms such as § 535; `plain` is to compare with",
    )
    protected: Path | None = Field(
        default=None,
        description="File of words, one a line, that are neither stop words nor stemmed or split, such as names; the "
        "same for all workers, and part of the index's analyser",
    )


class IngestSettings(SettingsSection):
    """Batching of the ingest stages."""

    batch_events: int = Field(default=32, ge=1, description="Maximum number of records handled together")
    batch_wait_s: float = Field(
        default=0.02, ge=0, description="Longest wait for a batch to fill, which ends when no further record arrives"
    )
    slice_tokens: int = Field(
        default=8192,
        ge=512,
        description="Maximum number of tokens embedded for one commit; slices up to an eighth of it wait for no others",
    )
    deleted_retention_days: float = Field(
        default=30,
        ge=7,
        description="How long a deletion is remembered: no shorter than older changes may wait in topics, 7 days",
    )
