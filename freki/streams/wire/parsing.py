"""Parsers and outliners by the settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from freki.infra.processes.child import Children
from freki.infra.settings import Settings
from freki.operators.chunk import Similarities
from freki.streams.ingest.ocr import OcrParser
from freki.streams.ingest.outline import CountTokens, Outliner, OutlineRules
from freki.streams.ingest.parse import Parse, by_weight, parse
from freki.streams.wire.rules import limits_of, parse_limits_of


@asynccontextmanager
async def open_parser(settings: Settings) -> AsyncIterator[Parse]:
    """Open a parser, with child processes for all but short text, and OCR if the settings have it."""
    # It loads a client of HTTP.
    from freki.infra.ocr import open_ocr  # noqa: PLC0415

    limits = parse_limits_of(settings)
    async with Children(partial(parse, limits=limits), settings.parsing) as parse_apart:
        parse_any, ocr = by_weight(parse_apart, limits), open_ocr(settings.ocr)
        yield parse_any if ocr is None else OcrParser(parse_any, ocr)


@asynccontextmanager
async def open_outliner(
    settings: Settings, count_tokens: CountTokens, *, similarities: Similarities | None = None
) -> AsyncIterator[Outliner]:
    """Open an outliner; similarities: for semantic chunking."""
    async with open_parser(settings) as parse_any:
        contexts = settings.contexts
        rules = OutlineRules(
            limits=limits_of(settings.chunking),
            define=contexts.definitions,
            lead_characters=contexts.document_chars if contexts.llm or contexts.summaries else 0,
            window_tokens=settings.models.late_window_tokens,
            apart=settings.models.kind_embedders,
        )
        yield Outliner(
            rules,
            parse=parse_any,
            count_tokens=count_tokens,
            similarities=similarities,
        )
