"""What kind of document content is, and its text where it is text."""

import codecs
import re
import zlib
from enum import StrEnum
from io import BytesIO
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

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
    ODT = "odt"
    PPTX = "pptx"
    XLSX = "xlsx"
    EMAIL = "email"


class Recognised(NamedTuple):
    """The media type, how to parse it, and the content as its parser takes it."""

    media_type: str
    profile: Profile
    content: str | bytes
    """Text for all profiles but those of files: PDF, DOCX, ODT, PPTX, XLSX are bytes, EMAIL is either."""


_OOXML = "application/vnd.openxmlformats-officedocument"
_MEDIA_TYPES = {
    Profile.MARKDOWN: "text/markdown",
    Profile.RST: "text/x-rst",
    Profile.HTML: "text/html",
    Profile.TEXT: "text/plain",
    Profile.CODE: "text/x-source",
    Profile.PDF: "application/pdf",
    Profile.DOCX: f"{_OOXML}.wordprocessingml.document",
    Profile.ODT: "application/vnd.oasis.opendocument.text",
    Profile.PPTX: f"{_OOXML}.presentationml.presentation",
    Profile.XLSX: f"{_OOXML}.spreadsheetml.sheet",
    Profile.EMAIL: "message/rfc822",
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
    | dict.fromkeys(("docx", "docm", "dotx"), Profile.DOCX)
    | dict.fromkeys(("odt", "ott"), Profile.ODT)
    | dict.fromkeys(("pptx", "pptm", "ppsx"), Profile.PPTX)
    | dict.fromkeys(("xlsx", "xlsm", "xltx"), Profile.XLSX)
    | {"pdf": Profile.PDF, "eml": Profile.EMAIL}
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
_BINARY = {Profile.PDF, Profile.DOCX, Profile.ODT, Profile.PPTX, Profile.XLSX}
_ZIP = b"PK\x03\x04"
_OFFICE_FOLDERS = {"word/": Profile.DOCX, "ppt/": Profile.PPTX, "xl/": Profile.XLSX}
_MAX_ENTRIES = 10_000
_MAX_MIMETYPE_BYTES = 200
# A reader takes a PDF that begins within the first kilobyte; text that only speaks of one does not begin with it.
_PDF = re.compile(rb"(?:\xef\xbb\xbf)?\s*%PDF-\d")
_PDF_LOOSE_BYTES = 1024
_HEADER = re.compile(rb"[!-9;-~]{1,70}:.*(?:\r?\n[ \t].*)*\r?\n")
_MAIL_HEADERS = {b"received", b"return-path", b"delivered-to", b"message-id", b"mime-version", b"from", b"date", b"to"}
_MIN_MAIL_HEADERS = 3
_MAX_HEADERS = 50
_MAX_HEADER_BYTES = 50_000
_OTHER_FILES = {
    b"\xd0\xcf\x11\xe0": "an old Office file, or one with a password; save it as DOCX, XLSX or PPTX without one",
    b"{\\rtf": "RTF, which is not read; save it as DOCX",
}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
# Text of Western Europe in one byte a character stays well below; other alphabets and binary data do not.
_MAX_HIGH_SHARE = 0.2
_MAX_CONTROL_SHARE = 0.01
_AS_UTF8 = "save it as UTF-8, or leave the document out"


def recognise(name: str, media_type: str | None, content: str | bytes) -> Recognised:
    """Say how to parse content, and decode what is text.

    Bytes that begin as a PDF or an Office file does are that, whatever they are called. Otherwise the profile comes
    from the media type where that says more than "text" or "bytes", else from the name's extension, else from the
    content: what begins with the headers of a mail is one, a page that begins with a doctype or `<html` is HTML, all
    other text is text. Content that is text already, or declared text/plain, may have the name of a file that it was
    taken from. Bytes of a text are UTF-8, or what their byte order mark says. Only where no byte could be UTF-8's are
    they Windows-1252, and only if at most one in five is above 127 and none is a control character. Empty content is
    valid. Raises UnreadableContent, naming the fix, for anything else: other files, binary data, a damaged encoding.
    """
    says_text = isinstance(content, str) or _bare(media_type) == "text/plain"
    declared = _declared(name, media_type)
    found = _file(name, content, declared, says_text=says_text) if isinstance(content, bytes) else None
    if found:
        return Recognised(_MEDIA_TYPES[found], found, content)
    if content[:5] == "%PDF-" or (declared in _BINARY and not says_text):
        raise UnreadableContent(f"{name}: not the file that it claims to be; send its bytes, or its text as text/plain")
    text = _decode(name, content) if isinstance(content, bytes) else content.removeprefix("\ufeff")
    _refuse_junk(name, text)
    profile = declared if declared is not None and declared not in _BINARY else _sniffed(text)
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


def _file(name: str, content: bytes, declared: Profile | None, *, says_text: bool) -> Profile | None:
    """Return the format of content that is a file. Raises UnreadableContent for one that has no parser."""
    what = next((what for magic, what in _OTHER_FILES.items() if content.startswith(magic)), None)
    if what:
        raise UnreadableContent(f"{name}: {what}")
    if _PDF.match(content) or (declared is Profile.PDF and b"%PDF-" in content[:_PDF_LOOSE_BYTES]):
        return Profile.PDF
    if content.startswith(_ZIP):
        return _archived(name, content, declared)
    is_mail = declared is Profile.EMAIL or (declared is None and not says_text and _begins_as_mail(content))
    return Profile.EMAIL if is_mail else None


def _archived(name: str, content: bytes, declared: Profile | None) -> Profile:
    """Return the format of a ZIP archive. Of one that is damaged its parser says so, if there is one."""
    names, mimetype = _entries(content)
    if mimetype.startswith(_MEDIA_TYPES[Profile.ODT]):
        return Profile.ODT
    folder = next((folder for folder in _OFFICE_FOLDERS if any(entry.startswith(folder) for entry in names)), None)
    if folder and "[Content_Types].xml" in names:
        return _OFFICE_FOLDERS[folder]
    if declared in _BINARY and not names:
        return declared
    what = mimetype or "a ZIP archive"
    raise UnreadableContent(f"{name}: {what}, which is not read; send its documents, or save it as PDF, DOCX or XLSX")


def _entries(content: bytes) -> tuple[list[str], str]:
    """Return the names in an archive, and the media type that it states; nothing where it is damaged."""
    if content.count(b"PK\x01\x02") > _MAX_ENTRIES:
        return [], ""
    try:
        with ZipFile(BytesIO(content)) as archive:
            names = archive.namelist()
            mimetype = b""
            if "mimetype" in names:
                with archive.open("mimetype") as file:
                    mimetype = file.read(_MAX_MIMETYPE_BYTES)
    except (BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return [], ""
    return names, mimetype.decode("ascii", errors="ignore").strip()


def _begins_as_mail(content: bytes) -> bool:
    """Say whether content begins with headers, three of them of the kind that mails have."""
    at, seen = 0, set[bytes]()
    start = content[:_MAX_HEADER_BYTES]
    while len(seen) < _MAX_HEADERS and (header := _HEADER.match(start, at)):
        seen.add(header.group().partition(b":")[0].lower())
        at = header.end()
    return len(seen & _MAIL_HEADERS) >= _MIN_MAIL_HEADERS


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
