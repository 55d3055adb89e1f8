"""Where content lies: URLs taken apart, so strictly that no two programs can read them differently."""

import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LOCAL = "file"
WEB = frozenset({"http", "https"})
S3 = frozenset({"s3", "s3a"})
OBJECT_STORES = S3 | frozenset({"gs", "gcs", "az", "oss", "oci", "memory"})
"""Where writing is atomic, names are plain keys, and nothing can lead elsewhere."""

_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ClaimLocation(NamedTuple):
    """A content, or a prefix of many."""

    scheme: str
    host: str
    """Host and port, or bucket; empty for local files."""
    path: PurePosixPath
    """Absolute. Local paths as they are; others as they stand in the URL."""

    @property
    def url(self) -> str:
        """Give the URL, made from what was checked."""
        return Path(self.path).as_uri() if self.scheme == LOCAL else f"{self.scheme}://{self.host}{self.path}"

    def holds(self, other: "ClaimLocation") -> bool:
        """Tell whether the other place is this one or below it; `docs` does not hold `docs-secret`."""
        return self[:2] == other[:2] and other.path.is_relative_to(self.path)


def parse_location(url: str) -> ClaimLocation:
    """Take a URL or an absolute local path apart. Raises ValueError for whatever is not plain."""
    if _CONTROL.search(url) or "\\" in url:
        raise ValueError("control characters and backslashes have no place in it")
    if "://" not in url:
        return _local(url)
    parts = urlsplit(url)
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ValueError("it may have no query and no fragment")
    if parts.scheme == LOCAL:
        if parts.netloc not in ("", "localhost"):
            raise ValueError("files of other machines are not read")
        return _local(unquote(parts.path, errors="strict"))
    if parts.scheme not in WEB | OBJECT_STORES:
        raise ValueError(f"{parts.scheme} is none of {', '.join(sorted({LOCAL} | WEB | OBJECT_STORES))}")
    if not _HOST.fullmatch(parts.netloc):
        raise ValueError("its host is missing, or more than a name and a port")
    host = parts.netloc.lower() if parts.scheme in WEB else parts.netloc
    return ClaimLocation(parts.scheme, host, _checked(parts.path))


def _local(path: str) -> ClaimLocation:
    if not path.startswith("/"):
        raise ValueError("it is neither a URL nor an absolute path")
    if _CONTROL.search(path):
        raise ValueError("control characters have no place in it")
    if ".." in path.split("/"):
        raise ValueError("`..` may not stand in it")
    return ClaimLocation(LOCAL, "", PurePosixPath("/" + path.lstrip("/")))


def _checked(path: str) -> PurePosixPath:
    """Refuse what a server might read as another path: dots, empty segments and encoded slashes."""
    segments = [_decoded(segment) for segment in path.removeprefix("/").removesuffix("/").split("/")]
    if segments != [""] and any(segment in ("", ".", "..") or re.search(r"[/\\]", segment) for segment in segments):
        raise ValueError("dots, empty segments and encoded slashes may not stand in its path")
    if any(map(_CONTROL.search, segments)):
        raise ValueError("control characters have no place in it")
    return PurePosixPath("/" + path.strip("/"))


def _decoded(segment: str) -> str:
    """Decode until nothing is encoded any more."""
    while (decoded := unquote(segment)) != segment:
        segment = decoded
    return segment
