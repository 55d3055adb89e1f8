"""Reads and writes content in local files, object stores and web servers.

Readers return at most one byte more than requested, so that the caller detects oversized content.
"""

import errno
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import BinaryIO

import fsspec
import httpx

from freki.infra.claims.location import LOCAL, ClaimLocation
from freki.infra.durable_files import sync_folder
from freki.infra.http.errors import is_transient
from freki.schemas.errors import Rejected, Unavailable

_ANSWER_S = 10.0
"""Timeout for the response of a web server, and between two blocks of it."""


def read_file(location: ClaimLocation, roots: Iterable[ClaimLocation], size: int, *, around: int = 0) -> bytes:
    """Read a regular file that lies under a root after resolving all links. Also raises OSError.

    around: 0: the file has `size` bytes; else it may be encrypted: any number up to so many more.
    """
    holders = [Path(root.path) for root in roots if root.holds(location)]
    if not any(map(Path.exists, holders)):
        raise Unavailable(
            f"{' and '.join(map(str, holders))} is not there: is the disk that all workers share mounted?"
        )
    try:
        real = Path(location.path).resolve()
    except (RuntimeError, ValueError) as error:
        # RuntimeError: links in a circle, before Python 3.13.
        raise Rejected(f"no file can have that name: {error}") from error
    if not any(real.is_relative_to(holder.resolve()) for holder in holders):
        raise Rejected("it is a link that leads out of what FREKI_CLAIMS__ALLOWED names")
    # A pipe would block, and the last component may have become a link after it was resolved.
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            raise Rejected("it is no regular file")
        _check_size(status.st_size, size, around=around)
        return file.read(size + around + 1)


def write_file(location: ClaimLocation, content: bytes) -> None:
    """Write a file atomically and durably."""
    path = Path(location.path)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with _created(unfinished) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync(path.parent)
    _sync(path.parent.parent)


def remove_file(location: ClaimLocation) -> bool:
    """Remove a file durably, and its folder if nothing else is in it; return whether it was there."""
    path = Path(location.path)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    _sync(path.parent)
    with suppress(OSError):  # something is in it
        path.parent.rmdir()
    return True


def remove_object(location: ClaimLocation) -> bool:
    """Remove an object; return whether it was there. Raises exceptions of the driver."""
    store = fsspec.filesystem(location.scheme)
    store.invalidate_cache()
    if not store.exists(location.url):
        return False
    store.rm_file(location.url)
    return True


def has_file(location: ClaimLocation) -> bool:
    """Return whether a file is there. Also raises OSError."""
    try:
        return Path(location.path).exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def has_object(location: ClaimLocation) -> bool:
    """Return whether an object is there. Raises exceptions of the driver."""
    store = fsspec.filesystem(location.scheme)
    store.invalidate_cache()
    return bool(store.exists(location.url))


def read_object(location: ClaimLocation, size: int, *, around: int = 0) -> bytes:
    """Read from an object store; around: as of `read_file`. Raises exceptions of its driver."""
    store = fsspec.filesystem(location.scheme)
    found = store.info(location.url)["size"]
    _check_size(found, size, around=around)
    if found == 0:
        # S3 answers 416: no range lies within an empty object.
        return b""
    content: bytes = store.cat_file(location.url, start=0, end=size + around + 1)
    return content


def write_object(location: ClaimLocation, content: bytes) -> None:
    """Write to an object store, which is atomic. Raises exceptions of its driver."""
    fsspec.filesystem(location.scheme).pipe_file(location.url, content)


async def read_web(location: ClaimLocation, size: int) -> bytes:
    """Read from a web server without following redirects. Also raises httpx.TransportError."""
    async with (
        httpx.AsyncClient(follow_redirects=False, timeout=_ANSWER_S) as client,
        client.stream("GET", location.url, headers={"Accept-Encoding": "identity"}) as response,
    ):
        if response.is_redirect:
            raise Rejected("the server sends the reader on to another place: publish that place instead")
        if is_transient(response.status_code):
            raise Unavailable(f"the server answers {response.status_code}")
        if response.status_code != httpx.codes.OK:
            raise Rejected(f"the server answers {response.status_code}")
        _check_size(int(response.headers.get("Content-Length", size)), size)
        content = bytearray()
        async for block in response.aiter_raw():
            content += block
            if len(content) > size:
                break
        return bytes(content)


def files_in(location: ClaimLocation) -> list[str]:
    """Return the paths of all files below a directory or prefix, relative to it; an absent one has none.

    Also raises OSError, and exceptions of the driver.
    """
    if location.scheme == LOCAL:
        below = [Path(folder, name) for folder, _, names in os.walk(location.path, onerror=_raise) for name in names]
        return sorted(str(each.relative_to(location.path)) for each in below)
    store = fsspec.filesystem(location.scheme)
    store.invalidate_cache()
    keys, root = store.find(location.url) if store.exists(location.url) else (), f"/{location.host}{location.path}"
    return sorted(str(PurePosixPath(f"/{key.lstrip('/')}").relative_to(root)) for key in keys)


def size_of(location: ClaimLocation) -> int:
    """Return the size of a file or object in bytes. Also raises OSError, and exceptions of the driver."""
    if location.scheme == LOCAL:
        return Path(location.path).stat().st_size
    return int(fsspec.filesystem(location.scheme).info(location.url)["size"])


def _raise(error: OSError) -> None:
    """Tell what cannot be listed, unless it is absent: `os.walk` would pass over it."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _created(path: Path) -> BinaryIO:
    """Create a file and its folders; another process may remove empty ones at any time."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return path.open("xb")


def _sync(folder: Path) -> None:
    """Make the names in a folder durable; one that was removed meanwhile has none.

    What is above the directory of all claims may be closed to the account.
    """
    with suppress(FileNotFoundError, PermissionError):
        sync_folder(folder)


def _check_size(found: int | None, claimed: int, *, around: int = 0) -> None:
    if found is not None and found != claimed and not (around and found <= claimed + around):
        raise Rejected(f"its size is not the {claimed} bytes of the claim")
