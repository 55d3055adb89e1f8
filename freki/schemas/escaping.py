"""Escaping of texts and keys for filter expressions of the store."""

import re
from urllib.parse import quote, unquote

# Characters that end a literal in some grammar of Milvus or that versions treat differently: Lite does not know the
# escape \n, the server truncates code points above U+FFFF to 16 bits. U+FFFF ends a prefix range in filters.py.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\"'%\\\\\u2028\u2029\ud800-\udfff\uffff\U00010000-\U0010ffff]")


def escaped(text: str) -> str:
    """Return the text with each character that is special in a filter percent-encoded on its own.

    Prefixes of texts stay prefixes. Filterable columns hold this form, and filters compare with it.
    """
    return _UNSAFE.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), text)


def escaped_key(key: str) -> str:
    """Return the key of an attribute percent-encoded, except ASCII letters, digits, dots, dashes and underscores."""
    return quote(key, safe="", errors="surrogatepass").replace("~", "%7E")


def unescaped(text: str) -> str:
    """Return the original of `escaped` or `escaped_key`."""
    return unquote(text, errors="surrogatepass")
