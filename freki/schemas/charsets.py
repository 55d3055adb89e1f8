"""Names of encodings, read as browsers read them."""

import codecs
import re

_TEXT = re.compile(
    r"ascii|utf-\d|iso8859|iso2022|cp\d|koi8|mac-|gb|big5|shift_jis|euc_|hz|tis-620|johab|ptcp154|kz1048"
)
_AS_WINDOWS = {"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874"}
"""Replacements of stated encodings by their supersets, as in browsers."""


def text_codec(charset: str) -> str:
    """Return the codec for a stated encoding, such as `cp1252` for `ISO-8859-1`, whose superset it mostly is.

    Raises LookupError for an unknown name, and for a codec that is no encoding of text.
    """
    try:
        codec = codecs.lookup(charset).name
    except ValueError as error:
        raise LookupError(charset) from error
    if not _TEXT.match(codec):
        raise LookupError(f"{charset}: no encoding of text")
    return _AS_WINDOWS.get(codec, codec)
