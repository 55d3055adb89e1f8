"""Parsing without a process of its own, for tests of what comes after it."""

from freki.infra.settings import ChunkingSettings, ParsingSettings
from freki.streams.ingest.parse import Parsed, ParseLimits, parse

LIMITS = ParseLimits(
    max_characters=ChunkingSettings().max_characters,
    max_pages=ParsingSettings().max_pages,
    max_unpacked_bytes=ParsingSettings().max_unpacked_mb << 20,
)


async def parse_here(name: str, media_type: str | None, content: str | bytes) -> Parsed:
    return parse(name, media_type, content, limits=LIMITS)
