"""The text of a part of a mail."""

import re
from binascii import a2b_base64
from collections.abc import Sequence
from copy import copy
from email.message import Message

from freki.schemas.charsets import text_codec
from freki.schemas.outline import printable

UTF_8 = "utf-8"
_ASCII = {"us-ascii", "ascii"}
"""Charsets that bytes beyond ASCII contradict: these are UTF-8 if they can be."""
_BASE64 = "base64"
_ENCODED = {_BASE64, "quoted-printable"}
_BASE64_LINE, _WIDE_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2}"), re.compile(rb"[A-Za-z0-9+/]{60,}={0,2}")
_BASE64_GROUP = 4
_NOT_BASE64, _PADDING = re.compile(rb"[^A-Za-z0-9+/=]+"), re.compile(rb"=+")
_ENRICHED = re.compile(
    r"<param>[^<]*(?:<(?!/?param>)[^<]*)*</param>|<(?!<)/?[A-Za-z0-9-]{1,60}>", re.DOTALL | re.IGNORECASE
)
"""Commands of text/enriched; `<<` is a sign of the text. Parameters end before the next, so that the time is linear."""


def content_of(part: Message) -> str:
    """Return the decoded text of a part."""
    # The standard library returns a header with bytes beyond ASCII as another object than text.
    encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
    stated = part.get_content_charset(UTF_8)
    stated = UTF_8 if stated in _ASCII else stated
    if encoding == _BASE64:
        parted = zip(_parted(_raw(part)), (stated, UTF_8), strict=True)
        return "\n".join(_decoded(content, charset) for content, charset in parted if content)
    payload = part.get_payload(decode=True)
    content = payload if isinstance(payload, bytes) else b""
    # Text that was decoded before still has the header with its old charset.
    recoded = not content.isascii() and encoding not in _ENCODED
    return _decoded(content, *((UTF_8, stated) if recoded else (stated, UTF_8)))


def without_commands(enriched: str) -> str:
    """Return the text of text/enriched without its commands."""
    return _ENRICHED.sub("", enriched.replace("<<", "\0")).replace("\0", "<")


def _raw(part: Message) -> bytes:
    plain = copy(part)
    del plain["Content-Transfer-Encoding"]
    payload = plain.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _parted(raw: bytes) -> tuple[bytes, bytes]:
    """Return what is encoded in base64, decoded, and the plain text behind it, such as a mailing list adds.

    What is encoded without a rest that fits is plain text, unless there is more encoded text behind: that is damaged.
    """
    lines = raw.splitlines(keepends=True)
    end = _end([line.strip() for line in lines])
    encoded, behind = b"".join(lines[:end]), b"".join(lines[end:])
    if not behind.strip() or any(_WIDE_LINE.fullmatch(line.strip()) for line in lines[end:]):
        return _from_base64(raw), b""
    if len(b"".join(encoded.split())) % _BASE64_GROUP:
        return b"", raw
    return _from_base64(encoded), behind


def _end(lines: Sequence[bytes]) -> int:
    """Return how many lines are encoded: they end with padding or a shorter line, or before other characters."""
    width = 0
    for place, line in enumerate(lines):
        if (line or width) and not _BASE64_LINE.fullmatch(line):
            return place
        width = width or len(line)
        if len(line) < width or line.endswith(b"="):
            return place + 1
    return len(lines)


def _from_base64(encoded: bytes) -> bytes:
    """Decode base64 as far as it goes; several texts may follow each other, each with its padding."""
    texts = _PADDING.split(_NOT_BASE64.sub(b"", encoded))
    # A single letter more than whole groups stands for nothing.
    whole = [text[:-1] if len(text) % _BASE64_GROUP == 1 else text for text in texts]
    return b"".join(a2b_base64(text + b"==") for text in whole)


def _decoded(content: bytes, *charsets: str) -> str:
    for charset in (*charsets, UTF_8):
        try:
            return printable(content.decode(text_codec(charset)))
        except (LookupError, UnicodeError):
            continue
    return printable(content.decode("cp1252", errors="replace"))
