"""Recognition and parsing of content. Most of it runs in child processes, so it imports no more than necessary."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from freki.operators.errors import UnreadableContent
from freki.operators.join_words import join_words
from freki.operators.parse_csv import parse_csv
from freki.operators.parse_email import parse_email
from freki.operators.parse_html import parse_html
from freki.operators.parse_markdown import parse_markdown
from freki.operators.parse_office import parse_docx, parse_epub, parse_odp, parse_ods, parse_odt, parse_pptx, parse_xlsx
from freki.operators.parse_rst import parse_rst
from freki.operators.parse_text import parse_text
from freki.operators.recognise import Profile, Recognised, recognise
from freki.schemas.names import record
from freki.schemas.outline import ParsedDocument
from freki.streams.ingest.short_calls import ShortCalls

PARSER_VERSIONS: Mapping[Profile, int] = {
    **dict.fromkeys(Profile, 1),
    Profile.HTML: 7,
    Profile.PDF: 9,
    Profile.EPUB: 7,
    Profile.DOCX: 12,
    Profile.ODT: 8,
    Profile.ODP: 8,
    Profile.PPTX: 4,
    Profile.XLSX: 9,
    Profile.ODS: 5,
    Profile.CSV: 6,
    Profile.EMAIL: 14,
    Profile.MARKDOWN: 7,
    Profile.RST: 5,
    Profile.TEXT: 12,
    Profile.CODE: 2,
}
"""Version of each parser; increment it when the parser returns other text or blocks for the same content.

Also that of a format whose documents are recognised as another one: they are outdated only if theirs changes.
"""

LIGHT_LENGTH = 50_000
"""Maximum length of content parsed in this process, in characters or bytes: a child process would cost more time."""
LIGHT_CELLS = 50_000
"""Maximum cells of a Markdown table, or tries at its lines, for the same: they take 0.3 s and 50 MB.

The parser of Markdown fills up short rows of tables, and tries each line at every level of a quotation.
"""
_LIGHT = {Profile.MARKDOWN, Profile.RST, Profile.TEXT, Profile.CSV}
"""Profiles parsed by Python and its own library."""


Parse = Callable[[str, str | None, str | bytes], Awaitable["Parsed"]]
"""Parser of content by name and media type, within limits. Raises UnreadableContent or Rejected for bad content."""


@record
class ParseLimits:
    """Maximum size of a document; a larger one is rejected."""

    max_characters: int
    max_pages: int
    max_unpacked_bytes: int


@record
class Parsed:
    """Recognised format and parsed document."""

    media_type: str
    profile: Profile
    document: ParsedDocument


def parse(name: str, media_type: str | None, content: str | bytes, *, limits: ParseLimits) -> Parsed:
    """Recognise and parse content. Raises UnreadableContent if it is too long, or not of its declared format."""
    return _parsed(name, recognise(name, media_type, content), limits)


def by_weight(parse_apart: Parse, limits: ParseLimits) -> Parse:
    """Return a parser that parses short text formats in a thread of this process, and all else by `parse_apart`.

    Pure Python parsers of short text are safe, except Markdown with wide tables or deep quotations of many lines: the
    worst known case takes 0.7 s. Parsers in C may crash, hang or exhaust memory.
    """
    short_calls = ShortCalls(LIGHT_LENGTH)

    async def parse_somewhere(name: str, media_type: str | None, content: str | bytes) -> Parsed:
        parsed = None
        if is_short(content):
            parsed = await short_calls.run(partial(_light, name, media_type, content, limits), weight=len(content))
        return parsed or await parse_apart(name, media_type, content)

    return parse_somewhere


def is_short(content: str | bytes) -> bool:
    """Return whether content is short enough to be parsed, or outlined, beside others in this process."""
    return len(content) <= LIGHT_LENGTH


def _light(name: str, media_type: str | None, content: str | bytes, limits: ParseLimits) -> Parsed | None:
    found = recognise(name, media_type, content)
    return _parsed(name, found, limits) if found.profile in _LIGHT and not _is_wide(found) else None


def _is_wide(found: Recognised) -> bool:
    """Return whether Markdown may have more cells, or tries at lines, than are parsed here."""
    if found.profile is not Profile.MARKDOWN or not isinstance(found.content, str):
        return False
    lines = found.content.splitlines()
    return len(lines) * max((line.count("|") + line.count(">") for line in lines), default=0) > LIGHT_CELLS


def _parsed(name: str, found: Recognised, limits: ParseLimits) -> Parsed:
    if isinstance(found.content, str):
        _check_length(name, found.content, limits.max_characters)
    try:
        document = _parsers(limits, found.language)[found.profile](found.content)
    except UnreadableContent as error:
        raise type(error)(f"{name}: {error}") from error
    except RecursionError as error:
        raise UnreadableContent(f"{name}: nested too deep; save it again with less nesting") from error
    _check_length(name, document.text, limits.max_characters)
    return Parsed(media_type=found.media_type, profile=found.profile, document=document)


def _parsers(limits: ParseLimits, language: str) -> Mapping[Profile, Callable[[Any], ParsedDocument]]:
    """Return the parser of each profile, for content as `recognise` returns it."""
    max_bytes = limits.max_unpacked_bytes
    return {
        Profile.MARKDOWN: parse_markdown,
        Profile.RST: parse_rst,
        Profile.HTML: parse_html,
        Profile.TEXT: _parse_text,
        Profile.CODE: partial(_parse_code, language=language),
        Profile.PDF: partial(_parse_pdf, max_pages=limits.max_pages),
        Profile.DOCX: partial(parse_docx, max_unpacked_bytes=max_bytes),
        Profile.ODT: partial(parse_odt, max_unpacked_bytes=max_bytes),
        Profile.ODP: partial(parse_odp, max_unpacked_bytes=max_bytes),
        Profile.ODS: partial(parse_ods, max_unpacked_bytes=max_bytes),
        Profile.PPTX: partial(parse_pptx, max_unpacked_bytes=max_bytes),
        Profile.XLSX: partial(parse_xlsx, max_unpacked_bytes=max_bytes),
        Profile.EMAIL: partial(parse_email, html=parse_html, text=_parse_text, markdown=parse_markdown),
        Profile.CSV: parse_csv,
        Profile.EPUB: partial(parse_epub, html=parse_html, max_unpacked_bytes=max_bytes),
    }


def _parse_text(source: str) -> ParsedDocument:
    return join_words(parse_text(source))


def _parse_code(source: str, *, language: str) -> ParsedDocument:
    from freki.operators.parse_code import parse_code  # noqa: PLC0415 - loads tree-sitter

    return parse_code(source, language=language)


def _parse_pdf(content: bytes, *, max_pages: int) -> ParsedDocument:
    from freki.operators.parse_pdf import parse_pdf  # noqa: PLC0415 - loads PDFium, which few processes need

    return parse_pdf(content, max_pages=max_pages)


def _check_length(name: str, text: str, max_characters: int) -> None:
    if len(text) > max_characters:
        raise UnreadableContent(
            f"{name}: {len(text)} characters are more than {max_characters}; split the document, or raise "
            "FREKI_CHUNKING__MAX_CHARACTERS"
        )
