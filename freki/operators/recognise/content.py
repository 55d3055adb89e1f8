"""Recognition of the format of content, and decoding of text."""

import re
import zlib
from io import BytesIO
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from freki.operators.errors import NoText, UnreadableContent
from freki.operators.recognise.decode import AS_UTF8, decode
from freki.operators.recognise.kinds import MEDIA_TYPES, Profile, bare, declared, is_script, language_of
from freki.operators.recognise.markdown import is_markdown


class Recognised(NamedTuple):
    """Media type and profile, and the content in the form that its parser expects."""

    media_type: str
    profile: Profile
    content: str | bytes
    """Text, except bytes for PDF and Office files, and either for EMAIL."""
    language: str = ""
    """Programming language of CODE, such as `python`; empty where unknown."""


_PAGE = re.compile(r"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL)
_GENERIC = {"", "text/plain"}
_TEXTS = {Profile.MARKDOWN, Profile.RST, Profile.HTML, Profile.TEXT, Profile.CODE, Profile.EMAIL, Profile.CSV}
_BINARY = set(Profile) - _TEXTS
_ZIP = b"PK\x03\x04"
_OFFICE_FOLDERS = {"word/": Profile.DOCX, "ppt/": Profile.PPTX, "xl/": Profile.XLSX}
_MAX_ENTRIES = 10_000
_MAX_MIMETYPE_BYTES = 200
# Readers accept a PDF header within the first kilobyte; text that mentions one does not begin with it.
_PDF = re.compile(rb"(?:\xef\xbb\xbf)?\s*%PDF-\d")
_PDF_LOOSE_BYTES = 1024
_HEADER = re.compile(rb"[!-9;-~]{1,70}:.*(?:\r?\n[ \t].*)*\r?\n")
_MAIL_HEADERS = {b"received", b"return-path", b"delivered-to", b"message-id", b"mime-version", b"from", b"date", b"to"}
_MIN_MAIL_HEADERS = 3
_MAX_HEADERS = 50
_MAX_HEADER_BYTES = 50_000
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Names of streams in the directory of an OLE file, which wraps encrypted files of the new formats.
_OLE_FILES = {
    "EncryptedPackage": "an Office file with a password; save it without one",
    "WordDocument": "DOC, the format of Word before 2007, which is not read; save it as DOCX",
    "Workbook": "XLS, the format of Excel before 2007, which is not read; save it as XLSX",
    "Book": "XLS, the format of Excel before 2007, which is not read; save it as XLSX",
    "PowerPoint Document": "PPT, the format of PowerPoint before 2007, which is not read; save it as PPTX",
    "__nameid_version1.0": "MSG, a mail that Outlook saved, which is not read; save it as EML",
}
_OTHER_FILES = {
    b"{\\rtf": "RTF, which is not read; save it as DOCX",
    b"%!PS": "PostScript, which is not read; save it as PDF",
    b"\x78\x9f\x3e\x22": "winmail.dat (TNEF), a mail of Outlook that others cannot read; save it as EML in Outlook",
    b"\x1f\x8b": "packed with gzip; unpack it",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive, which is not read; send its documents",
}
_PICTURES = {
    b"\x89PNG\r\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_MAX_CONTROL_SHARE = 0.01


def recognise(name: str, media_type: str | None, content: str | bytes) -> Recognised:
    """Return the profile of content, with text decoded.

    Bytes with the signature of a PDF or Office file are recognised by it. Otherwise the profile comes from a specific
    media type, else from the extension of the name, else from the content: headers of a mail, a doctype or `<html`, or
    the line of an interpreter; all other text is plain text, or Markdown if it is that beyond doubt. Decoded text, or
    text/plain, may have the name of the file that it was extracted from. Empty content is valid. Raises
    UnreadableContent, naming the fix, for anything else: other files, binary data, a damaged encoding; NoText for
    pictures.
    """
    says_text = isinstance(content, str) or bare(media_type) == "text/plain"
    says = declared(name, media_type)
    found = _file(name, content, says, says_text=says_text) if isinstance(content, bytes) else None
    if found:
        return Recognised(MEDIA_TYPES[found], found, content)
    if content[:5] == "%PDF-" or (says in _BINARY and not says_text):
        raise UnreadableContent(f"{name}: not the file that it claims to be; send its bytes, or its text as text/plain")
    text = decode(name, media_type, content) if isinstance(content, bytes) else content.removeprefix("\ufeff")
    _refuse_junk(name, text)
    profile = says if says is not None and says not in _BINARY else _sniffed(text)
    if profile is Profile.TEXT and is_markdown(text):
        profile = Profile.MARKDOWN
    stated = bare(media_type)
    language = language_of(name, media_type, text) if profile is Profile.CODE else ""
    return Recognised(stated if stated not in _GENERIC else MEDIA_TYPES[profile], profile, text, language)


def scan_type(content: bytes) -> str:
    """Return the media type of a PDF or picture; empty for all else."""
    picture = next((media_type for magic, media_type in _PICTURES.items() if content.startswith(magic)), "")
    return picture or (MEDIA_TYPES[Profile.PDF] if b"%PDF-" in content[:_PDF_LOOSE_BYTES] else "")


def _file(name: str, content: bytes, declared: Profile | None, *, says_text: bool) -> Profile | None:
    """Return the profile of a binary file. Raises UnreadableContent for a format without parser."""
    if any(content.startswith(magic) for magic in _PICTURES):
        raise NoText(
            f"{name}: a picture, which is not read; run OCR over it and send the text, or set FREKI_OCR__COMMAND"
        )
    what = next((what for magic, what in _OTHER_FILES.items() if content.startswith(magic)), "")
    if what := what or (_ole(content) if content.startswith(_OLE) else ""):
        raise UnreadableContent(f"{name}: {what}")
    if _PDF.match(content) or (declared is Profile.PDF and b"%PDF-" in content[:_PDF_LOOSE_BYTES]):
        return Profile.PDF
    if content.startswith(_ZIP):
        return _archived(name, content, declared)
    is_mail = declared is Profile.EMAIL or (declared is None and not says_text and _begins_as_mail(content))
    return Profile.EMAIL if is_mail else None


def _ole(content: bytes) -> str:
    """Return a description of an old Office format, and the fix."""
    found = (what for stream, what in _OLE_FILES.items() if f"{stream}\0".encode("utf-16-le") in content)
    return next(found, "an old Office file; save it as DOCX, XLSX or PPTX")


def _archived(name: str, content: bytes, declared: Profile | None) -> Profile:
    """Return the profile of a ZIP archive; the parser reports damage, if there is one."""
    names, mimetype = _entries(content)
    for profile in (Profile.ODT, Profile.ODP, Profile.ODS, Profile.EPUB):
        if mimetype.startswith(MEDIA_TYPES[profile]):
            return profile
    folder = next((folder for folder in _OFFICE_FOLDERS if any(entry.startswith(folder) for entry in names)), None)
    if folder and "[Content_Types].xml" in names:
        return _OFFICE_FOLDERS[folder]
    if declared in _BINARY and not names:
        return declared
    what = mimetype or "a ZIP archive"
    raise UnreadableContent(f"{name}: {what}, which is not read; send its documents, or save it as PDF, DOCX or XLSX")


def _entries(content: bytes) -> tuple[list[str], str]:
    """Return the names in an archive and its stated media type; empty if damaged."""
    if content.count(b"PK\x01\x02") > _MAX_ENTRIES:
        return [], ""
    try:
        with ZipFile(BytesIO(content)) as archive:
            names = archive.namelist()
            mimetype = b""
            # No program packs it in other ways, whose errors are of many kinds, and which unpack all at once.
            if "mimetype" in names and archive.getinfo("mimetype").compress_type in {ZIP_STORED, ZIP_DEFLATED}:
                with archive.open("mimetype") as file:
                    mimetype = file.read(_MAX_MIMETYPE_BYTES)
    except (BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return [], ""
    return names, mimetype.decode("ascii", errors="ignore").strip()


def _begins_as_mail(content: bytes) -> bool:
    """Return whether content begins with headers, at least three of them typical of mails."""
    at, seen = 0, set[bytes]()
    start = content[:_MAX_HEADER_BYTES]
    while len(seen) < _MAX_HEADERS and (header := _HEADER.match(start, at)):
        seen.add(header.group().partition(b":")[0].lower())
        at = header.end()
    return len(seen & _MAIL_HEADERS) >= _MIN_MAIL_HEADERS


def _sniffed(text: str) -> Profile:
    if _PAGE.match(text):
        return Profile.HTML
    return Profile.CODE if is_script(text) else Profile.TEXT


def _refuse_junk(name: str, text: str) -> None:
    nul = text.find("\x00")
    if nul >= 0:
        raise UnreadableContent(f"{name}: NUL at character {nul}, so this is no text; {AS_UTF8}")
    controls = _CONTROL.findall(text)
    if len(controls) > _MAX_CONTROL_SHARE * len(text):
        first = text.index(controls[0])
        raise UnreadableContent(f"{name}: too many control characters, the first at character {first}; {AS_UTF8}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnreadableContent(f"{name}: half a surrogate pair at character {error.start}; {AS_UTF8}") from error
