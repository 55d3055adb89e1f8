"""What kind of document content is, and its text."""

import codecs
import re
from enum import StrEnum
from typing import NamedTuple

from freki.operators.errors import UnreadableContent


class Profile(StrEnum):
    """How a document is parsed and chunked."""

    MARKDOWN = "markdown"
    RST = "rst"
    HTML = "html"
    TEXT = "text"
    CODE = "code"
    PDF = "pdf"
    DOCX = "docx"


class Recognised(NamedTuple):
    """The media type, how to parse it, and the content as text."""

    media_type: str
    profile: Profile
    text: str


_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_MEDIA_TYPES = {
    Profile.MARKDOWN: "text/markdown",
    Profile.RST: "text/x-rst",
    Profile.HTML: "text/html",
    Profile.TEXT: "text/plain",
    Profile.CODE: "text/x-source",
    Profile.PDF: "application/pdf",
    Profile.DOCX: _DOCX,
}
_PROFILES = {media_type: profile for profile, media_type in _MEDIA_TYPES.items() if profile is not Profile.TEXT} | {
    "text/x-markdown": Profile.MARKDOWN,
    "text/prs.fallenstein.rst": Profile.RST,
    "application/xhtml+xml": Profile.HTML,
    "text/css": Profile.CODE,
    "text/javascript": Profile.CODE,
    "text/xml": Profile.CODE,
    "application/javascript": Profile.CODE,
    "application/json": Profile.CODE,
    "application/sql": Profile.CODE,
    "application/toml": Profile.CODE,
    "application/xml": Profile.CODE,
    "application/yaml": Profile.CODE,
}
_CODE_EXTENSIONS = (
    *("py", "pyi", "js", "mjs", "cjs", "jsx", "ts", "tsx", "java", "kt", "kts", "scala", "c", "h", "cc", "cpp", "cxx"),
    *("hpp", "hh", "cs", "go", "rs", "rb", "php", "swift", "lua", "r", "jl", "pl", "sh", "bash", "zsh", "ps1", "sql"),
    *("css", "scss", "json", "yaml", "yml", "toml", "ini", "cfg", "xml", "avsc", "proto", "tf", "gradle"),
)
_EXTENSIONS = (
    dict.fromkeys(("md", "markdown", "mdx"), Profile.MARKDOWN)
    | dict.fromkeys(("rst", "rest"), Profile.RST)
    | dict.fromkeys(("html", "htm", "xhtml"), Profile.HTML)
    | dict.fromkeys(("txt", "text", "log", "csv", "tsv"), Profile.TEXT)
    | dict.fromkeys(_CODE_EXTENSIONS, Profile.CODE)
    | {"pdf": Profile.PDF, "docx": Profile.DOCX}
)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_PAGE = re.compile(r"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL)
_GENERIC = {"", "text/plain"}
_UNREAD = {Profile.PDF, Profile.DOCX}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
# Text of Western Europe in one byte a character stays well below; other alphabets and binary data do not.
_MAX_HIGH_SHARE = 0.2
_MAX_CONTROL_SHARE = 0.01
_AS_UTF8 = "save it as UTF-8, or leave the document out"


def recognise(name: str, media_type: str | None, content: str | bytes) -> Recognised:
    """Decode content and say how to parse it.

    The profile comes from the media type where that says more than "text" or "bytes", else from the name's
    extension, else from the content: a page that begins with a doctype or `<html` is HTML, all other text is text.
    Content that is text already, or declared text/plain, may have the name of a PDF or DOCX that it was taken from.
    Bytes are UTF-8, or what their byte order mark says. Only where no byte could be UTF-8's are they Windows-1252,
    and only if at most one in five is above 127 and none is a control character. Empty content is valid.
    Raises UnreadableContent, naming the offset, for anything else: binary data, a damaged encoding, PDF and DOCX.
    """
    profile = _declared(name, media_type)
    unread = _unread(content, profile, says_text=isinstance(content, str) or _bare(media_type) == "text/plain")
    if unread:
        raise UnreadableContent(f"{name}: {unread.value.upper()} is not read yet; send its text as text/plain or HTML")
    text = _decode(name, content) if isinstance(content, bytes) else content.removeprefix("\ufeff")
    _refuse_junk(name, text)
    if profile is None or profile in _UNREAD:
        profile = _sniffed(text)
    stated = _bare(media_type)
    return Recognised(stated if stated not in _GENERIC else _MEDIA_TYPES[profile], profile, text)


def _bare(media_type: str | None) -> str:
    """Return the media type without parameters; empty for one that says nothing."""
    bare = (media_type or "").partition(";")[0].strip().lower()
    return "" if bare == "application/octet-stream" else bare


def _declared(name: str, media_type: str | None) -> Profile | None:
    bare = _bare(media_type)
    if bare in _PROFILES:
        return _PROFILES[bare]
    if bare.startswith("text/x-"):
        return Profile.CODE
    return _EXTENSIONS.get(name.rpartition(".")[2].lower())


def _unread(content: str | bytes, profile: Profile | None, *, says_text: bool) -> Profile | None:
    """Return the format of content that is not text, whatever it is called."""
    start = content[:5]
    if start in {"%PDF-", b"%PDF-"}:
        return Profile.PDF
    if isinstance(content, bytes) and content.startswith(b"PK\x03\x04") and b"word/" in content:
        return Profile.DOCX
    return profile if profile in _UNREAD and not says_text else None


def _sniffed(text: str) -> Profile:
    return Profile.HTML if _PAGE.match(text) else Profile.TEXT


def _decode(name: str, content: bytes) -> str:
    encoding = next((encoding for mark, encoding in _BOMS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8" or not _is_western(content):
            raise UnreadableContent(f"{name}: not {encoding.upper()} at byte {error.start}; {_AS_UTF8}") from error
        return content.decode("cp1252")


def _is_western(content: bytes) -> bool:
    high = len(content) - len(content.decode("ascii", errors="ignore"))
    # A damaged UTF-8 file read as Windows-1252 would turn all its umlauts into junk.
    damaged = not content.decode("utf-8", errors="ignore").isascii()
    undefined = any(byte in content for byte in b"\x81\x8d\x8f\x90\x9d")
    odd = damaged or undefined or _CONTROL.search(content.decode("latin-1"))
    return high <= _MAX_HIGH_SHARE * len(content) and not odd


def _refuse_junk(name: str, text: str) -> None:
    nul = text.find("\x00")
    if nul >= 0:
        raise UnreadableContent(f"{name}: NUL at character {nul}, so this is no text; {_AS_UTF8}")
    controls = _CONTROL.findall(text)
    if len(controls) > _MAX_CONTROL_SHARE * len(text):
        first = text.index(controls[0])
        raise UnreadableContent(f"{name}: too many control characters, the first at character {first}; {_AS_UTF8}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnreadableContent(f"{name}: half a surrogate pair at character {error.start}; {_AS_UTF8}") from error
