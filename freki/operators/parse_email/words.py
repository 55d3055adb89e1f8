"""The text of header fields, whose letters beyond ASCII are encoded words such as `=?utf-8?q?f=C3=BCr?=`."""

import re
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import decode_header
from itertools import groupby
from typing import NamedTuple

from freki.operators.parse_email.content import UTF_8
from freki.schemas.charsets import text_codec
from freki.schemas.outline import printable

_HEAD = re.compile(r"=\?([^?\r\n]*)\?[qb]\?", re.IGNORECASE)
_END = "?="
_FOLD = re.compile(r"\r?\n(?=[ \t])|\r(?=[ \t])")


class _Word(NamedTuple):
    charset: str
    """Empty for text that is not encoded."""
    content: bytes


def decoded(value: str) -> str:
    """Return the text of a header field, in time linear in its length; undecoded if a word of it cannot be.

    White space between encoded words is no text, and such words of one charset may part a letter. Raw bytes are UTF-8.
    """
    # The standard library loses the blank where a line ends, and letters of UTF-8 beside encoded words.
    raw = value.encode(UTF_8, errors="surrogateescape").decode(UTF_8, errors="replace")
    try:
        words = groupby(_words(_FOLD.sub("", raw)), key=lambda word: word.charset)
        texts = [
            b"".join(word.content for word in run).decode(text_codec(charset or UTF_8), errors="replace")
            for charset, run in words
        ]
    except (HeaderParseError, LookupError, UnicodeError):
        return printable(raw)
    return printable("".join(texts))


def _words(value: str) -> Iterator[_Word]:
    """Yield encoded words, with their bytes, and the text between, without white space that only parts such words."""
    place = 0
    for head in _HEAD.finditer(value):
        if head.start() < place:
            continue
        end = value.find(_END, head.end())
        if end < 0:
            break
        between = value[place : head.start()]
        if between and not (place and between.isspace()):
            yield _Word("", between.encode())
        place = end + len(_END)
        yield from _content(value[head.start() : place])
    if place < len(value):
        yield _Word("", value[place:].encode())


def _content(word: str) -> Iterator[_Word]:
    for content, charset in decode_header(word):
        yield _Word(charset or "", content if isinstance(content, bytes) else content.encode())
