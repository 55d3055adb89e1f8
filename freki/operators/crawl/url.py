"""Normalisation of URLs."""

import re
from posixpath import normpath
from urllib.parse import SplitResult, quote, urljoin, urlsplit

MAX_LENGTH = 2000
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?\.?|\[[0-9a-f:.]+\]")
_JUNK = re.compile(r"[\x00-\x20\x7f]+")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_KEPT = "!$&'()*+,;=:@/?%-._~[]"


def normalise_url(url: str, *, base: str | None = None) -> str | None:
    """Return the normal form of the URL of a link; None for anything but a plain web address.

    Only http and https, without user and password, of at most 2,000 characters. Scheme and host are in lower case, the
    host in ASCII, without default port, fragment and dot segments, and with escapes only where needed. Idempotent.
    Source: RFC 3986, 6.2.2 and 6.2.3.
    """
    try:
        parts = urlsplit(urljoin(base or "", _JUNK.sub(lambda junk: "%20" * (" " in junk[0]), url.strip())))
        host, port = _host(parts), parts.port
    except (ValueError, UnicodeError):
        return None
    if parts.scheme not in _PORTS or host is None or "@" in parts.netloc:
        return None
    place = host if port is None or port == _PORTS[parts.scheme] else f"{host}:{port}"
    query = f"?{_escaped(parts.query)}" if parts.query else ""
    normal = f"{parts.scheme}://{place}{_path(parts.path)}{query}"
    return normal if len(normal) <= MAX_LENGTH else None


def host_of(url: str) -> str:
    """Return host and port of a URL of `normalise_url`."""
    return urlsplit(url).netloc


def _host(parts: SplitResult) -> str | None:
    name = parts.hostname or ""
    host = f"[{name}]" if ":" in name else name.encode("idna").decode().lower()
    return host if _HOST.fullmatch(host) else None


def _path(path: str) -> str:
    normal = normpath("/" + _escaped(path).lstrip("/"))
    is_folder = path.endswith(("/", "/.", "/..")) and normal != "/"
    return normal + "/" * is_folder


def _escaped(text: str) -> str:
    return _ESCAPE.sub(_one_escape, quote(re.sub(r"%(?![0-9a-fA-F]{2})", "%25", text), safe=_KEPT))


def _one_escape(escape: re.Match[str]) -> str:
    byte = int(escape[1], 16)
    return chr(byte) if byte in _UNRESERVED else f"%{byte:02X}"
