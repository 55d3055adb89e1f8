"""Parsing of scans by way of a recogniser of text."""

from dataclasses import replace

import structlog

from freki.operators.errors import NoText, UnreadableContent
from freki.operators.recognise import scan_type
from freki.schemas.errors import Misconfigured, Rejected
from freki.schemas.outline import ATTACHMENTS, PAGES_WITHOUT_TEXT
from freki.streams.ingest.parse import Parse, Parsed
from freki.streams.ports import Ocr

OCR = "ocr"
"""Attribute of documents whose text was recognised, and may have errors."""

_log = structlog.get_logger(__name__)


class OcrParser:
    """A parser that has pictures, and PDFs with pages without text, recognised, and parses the result.

    Where that fails, a PDF with some text keeps it, and its receipt says which pages lack any; all else is refused with
    the reason. Raises the errors of parsing and recognising. Satisfies `Parse`.
    """

    def __init__(self, parse: Parse, ocr: Ocr) -> None:
        self._parse = parse
        self._ocr = ocr

    async def __call__(self, name: str, media_type: str | None, content: str | bytes) -> Parsed:
        """Parse content."""
        if isinstance(content, str):
            return await self._parse(name, media_type, content)
        try:
            parsed = await self._parse(name, media_type, content)
        except NoText as error:
            return await self._read_or_refuse(name, content, error)
        return await self._completed(name, content, parsed)

    async def _completed(self, name: str, content: bytes, parsed: Parsed) -> Parsed:
        if PAGES_WITHOUT_TEXT not in parsed.document.attributes:
            return parsed
        try:
            found = await self._read(name, content)
        except Misconfigured:
            raise
        except (Rejected, UnreadableContent) as error:
            _log.warning("some pages of a document have no text, and OCR failed", reason=str(error))
            return parsed
        attached = parsed.document.attributes.get(ATTACHMENTS)
        attributes = {**found.document.attributes, **({ATTACHMENTS: attached} if attached else {})}
        return replace(found, document=replace(found.document, attributes=attributes))

    async def _read_or_refuse(self, name: str, content: bytes, error: NoText) -> Parsed:
        try:
            return await self._read(name, content)
        except Misconfigured:
            raise
        except Rejected as failure:
            raise Rejected(f"{name}: no text in it, and {failure}") from error
        except NoText as failure:
            raise UnreadableContent(f"{name}: no text in it, and OCR found none") from failure

    async def _read(self, name: str, content: bytes) -> Parsed:
        scan = scan_type(content)
        text, media_type = await self._ocr.read(content, scan)
        found = await self._parse(name, media_type or ("" if scan_type(text) else "text/plain"), text)
        if not found.document.text.strip():
            raise NoText(f"{name}: OCR found no text")
        # Pages on which it found little are pictures: to run OCR over them would be no advice.
        attributes = {name: value for name, value in found.document.attributes.items() if name != PAGES_WITHOUT_TEXT}
        attributes[OCR] = "true"
        return replace(found, media_type=scan, document=replace(found.document, attributes=attributes))
