"""Rules by which documents are made, derived from settings: limits, contexts, and the fingerprints of both."""

from collections.abc import Mapping

from freki.infra.settings import ChunkingSettings, ChunkProfile, ContextSettings, Settings
from freki.operators.chunk import ChunkLimits
from freki.operators.fingerprint import fingerprint
from freki.operators.recognise import Profile
from freki.streams.ingest.context_prompts import ContextRules, rules_fingerprint
from freki.streams.ingest.contextualise import with_contexts
from freki.streams.ingest.outline import outline_fingerprint
from freki.streams.ingest.parse import ParseLimits
from freki.streams.wire.from_settings import rows_version


def limits_of(settings: ChunkingSettings) -> Mapping[Profile, ChunkLimits]:
    """Return the chunk limits by document format."""

    def limits(profile: ChunkProfile) -> ChunkLimits:
        return ChunkLimits(
            min_tokens=settings.min_tokens,
            max_tokens=settings.max_tokens,
            max_chars=profile.max_chars,
            overlap_chars=profile.overlap_chars,
            least_similarity=settings.least_similarity,
            breakpoint_percentile=settings.breakpoint_percentile,
            min_chars=settings.min_chars,
            overlap_tokens=settings.overlap_tokens,
        )

    return {
        Profile.MARKDOWN: limits(settings.markdown),
        Profile.RST: limits(settings.markdown),
        Profile.HTML: limits(settings.html),
        Profile.TEXT: limits(settings.text),
        Profile.CODE: limits(settings.code),
        Profile.PDF: limits(settings.pdf),
        Profile.DOCX: limits(settings.docx),
        Profile.ODT: limits(settings.docx),
        Profile.ODP: limits(settings.docx),
        Profile.ODS: limits(settings.docx),
        Profile.PPTX: limits(settings.docx),
        Profile.XLSX: limits(settings.docx),
        Profile.EMAIL: limits(settings.text),
        Profile.CSV: limits(settings.docx),
        Profile.EPUB: limits(settings.html),
    }


def rules_of(settings: ContextSettings) -> ContextRules:
    """Return the rules for contexts and summaries written by a language model."""
    return ContextRules(
        contexts=settings.llm,
        summaries=settings.summaries,
        batch_chunks=settings.batch_chunks,
        min_chars=settings.min_chars,
        max_chars=settings.max_chars,
        max_tokens_document=settings.max_tokens_document,
    )


def fingerprints_of(settings: Settings) -> frozenset[str]:
    """Return the fingerprints of revisions made by these settings, one per document format."""
    from freki.infra.models import joint_identity  # noqa: PLC0415

    contexts = rules_fingerprint(rules_of(settings.contexts), model=settings.llm.model or "")
    analyser, embedder = rows_version(settings), joint_identity(settings.models)
    outlines = (
        outline_fingerprint(profile, limits, define=settings.contexts.definitions)
        for profile, limits in limits_of(settings.chunking).items()
    )
    return frozenset(
        fingerprint(with_contexts(outline, contexts), analyser=analyser, embedder=embedder) for outline in outlines
    )


def parse_limits_of(settings: Settings) -> ParseLimits:
    """Return the size limits of parsing."""
    return ParseLimits(
        max_characters=settings.chunking.max_characters,
        max_pages=settings.parsing.max_pages,
        max_unpacked_bytes=settings.parsing.max_unpacked_mb << 20,
    )
