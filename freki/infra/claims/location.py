"""Locations of content: URLs parsed so strictly that no two programs can interpret them differently."""

import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LOCAL = "file"
WEB = frozenset({"http", "https"})
S3 = frozenset({"s3", "s3a"})
OBJECT_STORES = S3 | frozenset({"gs", "gcs", "az", "oss", "oci", "memory"})
"""Schemes of object stores: writes are atomic, names are plain keys, and there are no links."""

_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class ClaimLocation(NamedTuple):
    """The location of one content, or a prefix of many."""

    scheme: str
    host: str
    """Host and port, or bucket; empty for local files."""
    path: PurePosixPath
    """Absolute path; percent-encoding is kept unless local."""

    @property
    def url(self) -> str:
        """URL built from the validated parts."""
        return Path(self.path).as_uri() if self.scheme == LOCAL else f"{self.scheme}://{self.host}{self.path}"

    def holds(self, other: "ClaimLocation") -> bool:
        """Return whether the other location is this one or below it; `docs` does not hold `docs-secret`."""
        return self[:2] == other[:2] and other.path.is_relative_to(self.path)


def parse_location(url: str) -> ClaimLocation:
    """Parse a URL or an absolute local path. Raises ValueError for anything ambiguous."""
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
    """Return the path. Raises ValueError for dots, empty segments and encoded slashes, which servers may normalise."""
    segments = [_decoded(segment) for segment in path.removeprefix("/").removesuffix("/").split("/")]
    if segments != [""] and any(segment in ("", ".", "..") or re.search(r"[/\\]", segment) for segment in segments):
        raise ValueError("dots, empty segments and encoded slashes may not stand in its path")
    if any(map(_CONTROL.search, segments)):
        raise ValueError("control characters have no place in it")
    return PurePosixPath("/" + path.strip("/"))


def _decoded(segment: str) -> str:
    """Return the segment with all levels of percent-encoding decoded."""
    while (decoded := unquote(segment)) != segment:
        segment = decoded
    return segment
