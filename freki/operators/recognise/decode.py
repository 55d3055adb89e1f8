"""Decoding of text in any encoding."""

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message

from chardet import detect

from freki.operators.errors import UnreadableContent
from freki.schemas.charsets import text_codec

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is a prefix of it
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_STATED = re.compile(
    rb"""<meta[^<>]{0,200}\bcharset\s*=\s*["']?\s*([\w.:-]+)|<\?xml[^<>]{0,200}\bencoding\s*=\s*["']([\w.:-]+)"""
    rb"""|@charset\s+["']([\w.:-]+)|^[ \t\f]*(?:\#|//|--|/\*|;)[^\n]{0,200}?coding[:=][ \t]*([\w.:-]+)""",
    re.IGNORECASE | re.MULTILINE,
)
_STATED_WITHIN_BYTES = 1024
_GUESSED = (
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "iso8859-2", "iso8859-5"),
    *("iso8859-7", "iso8859-15", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "cp437", "cp850", "cp852", "cp866"),
    *("shift_jis_2004", "cp932", "euc_jis_2004", "iso2022_jp_2", "gb18030", "big5hkscs", "cp949", "cp874"),
)
"""Guessable encodings: of Windows, old Macs and DOS; others must be stated."""
_GUESS_BYTES = 200_000
_LEAST_CONFIDENCE = 0.03
"""Minimum confidence; of 626 German texts of at least 150 letters in six encodings the minimum was 0.037."""
_WESTERN = "cp1252"
_MAX_WESTERN_HIGH_SHARE = 0.2
"""Maximum share of bytes beyond ASCII in Western text; more are another alphabet or binary data."""
_MIN_NUL_SHARE = 0.3
"""Minimum share of NUL among every other byte of UTF-16 without mark."""
_MOST_DAMAGED_SHARE = 0.5
_MISREAD_AS = ("latin-1", "mac-roman")
"""Encodings as which programs of Windows, with the signs of cp1252, and of Macs misread UTF-8."""
_WINDOWS = {ord(sign): byte for byte in range(0x80, 0xA0) for sign in bytes([byte]).decode("cp1252", errors="ignore")}
"""Bytes of the signs that cp1252 has beyond Latin-1."""
_LEAST_MISREAD = 6
"""Minimum bytes beyond ASCII of a text that was misread; fewer may be examples of it."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")
_MAX_CONTROL_SHARE = 0.01
AS_UTF8 = "save it as UTF-8, or leave the document out"


def decode(name: str, media_type: str | None, content: bytes) -> str:
    """Return the text.

    Tried in order: UTF-8; the encoding of a byte order mark, the media type or the text itself; the most probable one.
    Text that was UTF-8, was read as another encoding and saved as UTF-8 again, is restored.
    Raises UnreadableContent, with the position, where none fits, and for damaged UTF-8.
    """
    return _restored(_decoded(name, media_type, content))


def _decoded(name: str, media_type: str | None, content: bytes) -> str:
    marked = next((encoding for mark, encoding in _BOMS if content.startswith(mark)), None)
    if marked:
        return _marked(name, content, marked)
    escaped = b"\x1b" in content and content.isascii()
    if not escaped and (text := _read(content, _unmarked(content))) is not None:
        return text
    for encoding in _stated(media_type, content):
        if (text := _read(content, encoding)) is not None and not _is_odd(text):
            return text
    guessed = None if _is_damaged(content) else _guessed(content)
    if guessed and (text := _read(content, guessed)) is not None and not _is_odd(text):
        return text
    if escaped:
        return content.decode("ascii")
    raise UnreadableContent(f"{name}: not UTF-8 at byte {_first_damage(content)}; {AS_UTF8}")


def _restored(text: str) -> str:
    """Return text as it was before its UTF-8 was misread, which makes `Ã¤` of `ä`; unchanged unless all of it was."""
    if text.isascii():
        return text
    for encoding in _MISREAD_AS:
        with suppress(UnicodeError):
            original = (text.translate(_WINDOWS) if encoding == "latin-1" else text).encode(encoding).decode("utf-8")
            is_example = _high(original.encode()) < _LEAST_MISREAD
            return text if is_example or _is_odd(original) else original
    return text


def _marked(name: str, content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableContent(f"{name}: not {encoding.upper()} at byte {error.start}; {AS_UTF8}") from error


def _unmarked(content: bytes) -> str:
    """Return the likely UTF-16 variant by the share of NUL bytes; empty for none."""
    half = len(content) // 2
    if half and not len(content) % 2:
        for encoding, high in (("utf-16-le", content[1::2]), ("utf-16-be", content[::2])):
            if high.count(0) >= _MIN_NUL_SHARE * half:
                return encoding
    return "utf-8"


def _stated(media_type: str | None, content: bytes) -> Iterator[str]:
    """Yield the stated encodings, that of the media type first."""
    header = Message()
    header["Content-Type"] = media_type or ""
    written = (next(filter(None, found.groups())) for found in _STATED.finditer(content[:_STATED_WITHIN_BYTES]))
    for name in (header.get_content_charset() or "", *(name.decode("ascii") for name in written)):
        with suppress(LookupError):
            yield text_codec(name)


def _guessed(content: bytes) -> str | None:
    """Return the most probable encoding; None below the minimum confidence."""
    found = detect(content, max_bytes=_GUESS_BYTES, include_encodings=_GUESSED, compat_names=False)
    if found["confidence"] >= _LEAST_CONFIDENCE:
        return found["encoding"]
    return _WESTERN if _high(content) <= _MAX_WESTERN_HIGH_SHARE * len(content) else None


def _high(content: bytes) -> int:
    """Return the number of bytes beyond ASCII."""
    return len(content) - len(content.decode("ascii", errors="ignore"))


def _read(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except (UnicodeError, LookupError):
        return None


def _is_odd(text: str) -> bool:
    """Return whether text has implausibly many control characters, as in a wrong encoding."""
    return len(_CONTROL.findall(text)) > _MAX_CONTROL_SHARE * len(text)


def _is_damaged(content: bytes) -> bool:
    """Return whether most bytes beyond ASCII are UTF-8, so that another encoding would garble umlauts."""
    kept = _high(content.decode("utf-8", errors="ignore").encode())
    return kept > _MOST_DAMAGED_SHARE * _high(content)


def _first_damage(content: bytes) -> int:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return 0
