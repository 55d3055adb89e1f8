"""Profiles of documents, by name and media type."""

import re
from enum import StrEnum


class Profile(StrEnum):
    """A format, which determines parser and chunk limits."""

    MARKDOWN = "markdown"
    RST = "rst"
    HTML = "html"
    TEXT = "text"
    CODE = "code"
    PDF = "pdf"
    DOCX = "docx"
    ODT = "odt"
    ODP = "odp"
    ODS = "ods"
    PPTX = "pptx"
    XLSX = "xlsx"
    EMAIL = "email"
    CSV = "csv"
    EPUB = "epub"


_OOXML = "application/vnd.openxmlformats-officedocument"
MEDIA_TYPES = {
    Profile.MARKDOWN: "text/markdown",
    Profile.RST: "text/x-rst",
    Profile.HTML: "text/html",
    Profile.TEXT: "text/plain",
    Profile.CODE: "text/x-source",
    Profile.PDF: "application/pdf",
    Profile.DOCX: f"{_OOXML}.wordprocessingml.document",
    Profile.ODT: "application/vnd.oasis.opendocument.text",
    Profile.ODP: "application/vnd.oasis.opendocument.presentation",
    Profile.ODS: "application/vnd.oasis.opendocument.spreadsheet",
    Profile.PPTX: f"{_OOXML}.presentationml.presentation",
    Profile.XLSX: f"{_OOXML}.spreadsheetml.sheet",
    Profile.EMAIL: "message/rfc822",
    Profile.CSV: "text/csv",
    Profile.EPUB: "application/epub+zip",
}
_PROFILES = {media_type: profile for profile, media_type in MEDIA_TYPES.items() if profile is not Profile.TEXT} | {
    "text/x-markdown": Profile.MARKDOWN,
    "text/prs.fallenstein.rst": Profile.RST,
    "application/xhtml+xml": Profile.HTML,
    "text/tab-separated-values": Profile.CSV,
    "application/csv": Profile.CSV,
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
_LANGUAGES = (
    dict.fromkeys(("py", "pyi", "pyw"), "python")
    | dict.fromkeys(("js", "mjs", "cjs", "jsx"), "javascript")
    | dict.fromkeys(("ts", "mts", "cts"), "typescript")
    | dict.fromkeys(("cc", "cpp", "cxx", "h", "hh", "hpp", "hxx"), "cpp")
    | {"tsx": "tsx", "java": "java", "go": "go", "rs": "rust", "sql": "sql", "c": "c", "cs": "csharp"}
)
"""Languages by extension; headers of C are parsed as C++."""
_STATED_LANGUAGES = {
    "text/javascript": "javascript",
    "application/javascript": "javascript",
    "application/sql": "sql",
    "text/x-csrc": "c",
    "text/x-chdr": "cpp",
    "text/x-c++src": "cpp",
    "text/x-c++hdr": "cpp",
    "text/x-c++": "cpp",
    "text/x-java-source": "java",
    "text/x-golang": "go",
    "text/x-rustsrc": "rust",
    "text/x-script.python": "python",
}
_INTERPRETERS = {
    "python": "python",
    "python2": "python",
    "python3": "python",
    "node": "javascript",
    "deno": "typescript",
}
_CODE_EXTENSIONS = (
    *_LANGUAGES,
    *("kt", "kts", "scala", "rb", "php", "swift", "lua", "r", "jl", "pl", "pm", "sh", "bash", "zsh", "ps1", "bat"),
    *("css", "scss", "json", "yaml", "yml", "toml", "ini", "cfg", "conf", "xml", "avsc", "proto", "tf", "gradle"),
    *("dart", "ex", "exs", "erl", "hs", "clj", "vb", "pas", "f90", "m", "mm", "groovy", "graphql", "vue", "svelte"),
)
_CODE_NAMES = {"makefile", "dockerfile", "jenkinsfile", "cmakelists.txt", "rakefile", "gemfile", "vagrantfile"}
_EXTENSIONS = (
    dict.fromkeys(("md", "markdown", "mdx"), Profile.MARKDOWN)
    | dict.fromkeys(("rst", "rest"), Profile.RST)
    | dict.fromkeys(("html", "htm", "xhtml"), Profile.HTML)
    | dict.fromkeys(("txt", "text", "log"), Profile.TEXT)
    | dict.fromkeys(_CODE_EXTENSIONS, Profile.CODE)
    | dict.fromkeys(("docx", "docm", "dotx"), Profile.DOCX)
    | dict.fromkeys(("odt", "ott"), Profile.ODT)
    | dict.fromkeys(("odp", "otp"), Profile.ODP)
    | dict.fromkeys(("ods", "ots"), Profile.ODS)
    | dict.fromkeys(("pptx", "pptm", "ppsx", "potx"), Profile.PPTX)
    | dict.fromkeys(("xlsx", "xlsm", "xltx"), Profile.XLSX)
    | dict.fromkeys(("csv", "tsv", "tab"), Profile.CSV)
    | {"pdf": Profile.PDF, "eml": Profile.EMAIL, "epub": Profile.EPUB}
)
_SHEBANG = re.compile(r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-S[ \t]+)?)?([\w.+-]+)")
_NUMBERED = re.compile(r"\s\d+(?:\.\d+)*\.[A-Za-z]\Z")
_MARKED_UP = re.compile(r"\s*<(?:\?xml|!doctype|html)\b", re.IGNORECASE)


def bare(media_type: str | None) -> str:
    """Return the media type without parameters; empty for a generic one."""
    stated = (media_type or "").partition(";")[0].strip().lower()
    return "" if stated == "application/octet-stream" else stated


def declared(name: str, media_type: str | None) -> Profile | None:
    """Return the profile by a specific media type, else by the name; None where neither is specific."""
    stated = bare(media_type)
    if stated in _PROFILES:
        return _PROFILES[stated]
    if stated.startswith("text/x-"):
        return Profile.CODE
    if name.lower() in _CODE_NAMES:
        return Profile.CODE
    return _EXTENSIONS.get(_extension(name))


def language_of(name: str, media_type: str | None, text: str) -> str:
    """Return the programming language of code, such as `python`; empty where unknown."""
    stated = bare(media_type)
    language = _STATED_LANGUAGES.get(stated) or _LANGUAGES.get(_extension(name), "")
    if stated.startswith("text/x-") and stated not in _STATED_LANGUAGES:
        language = stated.removeprefix("text/x-")
    if shebang := _SHEBANG.match(text):
        language = _INTERPRETERS.get(re.sub(r"\.\d+\Z", "", shebang.group(1)), "")
    # Translation files of Qt also have the extension .ts.
    return "" if _MARKED_UP.match(text) else language


def is_script(text: str) -> bool:
    """Return whether text begins with the line of an interpreter (shebang)."""
    return bool(_SHEBANG.match(text))


def _extension(name: str) -> str:
    """Return the extension in lower case; empty for none, and for a numbered title such as `Anlage 3.C`."""
    _, dot, extension = name.rpartition(".")
    return extension.lower() if dot and not _NUMBERED.search(name) else ""
