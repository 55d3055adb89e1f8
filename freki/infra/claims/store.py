"""The store of claim checks: content by digest, and validation of claims."""

import asyncio
import errno
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec

from freki.infra.claims.backends import (
    files_in,
    has_file,
    has_object,
    read_file,
    read_object,
    read_web,
    remove_file,
    remove_object,
    size_of,
    write_file,
    write_object,
)
from freki.infra.claims.location import LOCAL, OBJECT_STORES, S3, WEB, ClaimLocation, parse_location
from freki.infra.extras import how_to_install
from freki.infra.keys import Cipher
from freki.infra.keys.envelope import Damaged, is_sealed, place_of
from freki.infra.settings import ClaimSettings
from freki.schemas import ClaimCheck, RootId
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable

_NAME = re.compile(
    r"(?P<document>[0-9a-f]{32})/\.?(?P<version>-?[0-9]+)-(?P<digest>[0-9a-f]{64})(?P<unfinished>\.[0-9a-f]+\.tmp)?"
)
"""Folder and name of content: the document, its version, and the SHA-256 of the content.

A writer that was killed leaves an unfinished file.
"""
_MARK = ".freki"
"""Name of what lies in `directory` since content was first written, also when all content is removed."""
_MARK_TEXT = b"Freki keeps large content here. Leave this file: without it, an empty disk counts as one not mounted.\n"
_ENVELOPE_BYTES = 4_096
"""Maximum length of what an envelope adds to content: a wrapped data key above all."""
_LISTED_APART = 50
"""Most documents whose folders are listed one by one."""
_NO_NAME_OF_A_FILE = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL})
"""Errors of names under which there can be no file, so that waiting does not help."""
_FAILURES_OF_A_CLAIM = 7
"""Consecutive transient failures after which a claim counts as unreadable: one attempt less than a delivery makes."""
_CLAIMS_THAT_FAIL = 1_000
"""Most claims whose failures are counted."""
_TIMEOUT_S = 60.0
"""Timeout per content: 64 MB at 1 MB/s."""


class ClaimStore:
    """Writes content, and reads content from the locations that the settings allow.

    Anyone who may write to the documents topic can send a claim, so claims are not trusted: allowed are `directory` and
    the prefixes of `allowed`; links and redirects out of them are not followed; content that differs from its claim is
    rejected, and the message reveals nothing about it. No connection stays open between calls.

    What is written lies in `directory`/ID OF THE DOCUMENT/VERSION-SHA256 (`freki.schemas.names.root_id`), so that an
    erasure finds it even if no record names it any more, and no two documents share it. A mark beside it tells an
    empty directory from a disk that is not mounted.

    cipher: encrypts what is written, and decrypts what lies in `directory`; what was written without is read too.
    """

    def __init__(self, settings: ClaimSettings, cipher: Cipher | None = None) -> None:
        self._cipher = cipher
        self._is_marked = False
        # By hash, since an address may be long.
        self._failures: dict[int, int] = {}
        self._max_bytes = settings.max_bytes
        self._directory = _configured(settings.directory, "FREKI_CLAIMS__DIRECTORY")
        if self._directory.scheme in WEB:
            raise Misconfigured("FREKI_CLAIMS__DIRECTORY: nothing can be written to a web server; name a directory")
        allowed = (_configured(prefix, "FREKI_CLAIMS__ALLOWED") for prefix in settings.allowed)
        self._readable = (self._directory, *allowed)
        for scheme in {location.scheme for location in self._readable} & OBJECT_STORES:
            _load_driver(scheme)

    async def put(self, content: bytes, *, document: RootId, version: int) -> ClaimCheck:
        """Write content of a version and return its claim. Idempotent. Raises Rejected for oversized content."""
        if len(content) > self._max_bytes:
            raise Rejected(f"{len(content)} bytes are more than FREKI_CLAIMS__MAX_BYTES allows, {self._max_bytes}")
        digest = await asyncio.to_thread(_sha256, content)
        location = self._below(f"{document}/{version}-{digest}")
        stored = content if self._cipher is None else (await self._cipher.seal([(_place(digest), content)]))[0]
        await self._mark()
        await self._write(location, stored)
        return ClaimCheck(uri=location.url, size=len(content), sha256=digest)

    async def get(self, claim: ClaimCheck) -> bytes:
        """Read the content of a claim.

        Raises Rejected where the location is not allowed, or the content is missing or differs, and Unavailable where
        the location cannot be reached. A claim that cannot be reached time and again is Rejected too, unless
        `directory` is what is out of reach: no record alone may stop a worker.
        """
        location = self._readable_location(claim.uri)
        if not 0 <= claim.size <= self._max_bytes:
            raise Rejected(f"a claim of {claim.size} bytes: FREKI_CLAIMS__MAX_BYTES allows 0 to {self._max_bytes}")
        try:
            with _translated(claim.uri):
                async with asyncio.timeout(_TIMEOUT_S):
                    content = await self._read(location, claim.size)
        except Unavailable as error:
            await self._give_up_in_time(claim, location, error)
            raise
        self._failures.pop(hash(claim), None)
        content = await self._opened(location, claim, content)
        if len(content) != claim.size or await asyncio.to_thread(_sha256, content) != claim.sha256.lower():
            raise Rejected(f"{_shown(claim.uri)}: the content is not the one that was claimed: publish it again")
        return content

    async def rewrap(self) -> int:
        """Encrypt all content of `directory` again whose data key an older version wraps, or that is plain.

        Return the number of files written. Readers find the one or the other. Raises Rejected, Unavailable, and Damaged
        once all others are written.
        """
        if self._cipher is None:
            return 0
        written, damaged = 0, list[Damaged]()
        for location, name in await self._written():
            if name["unfinished"]:
                continue
            try:
                written += await self._rewrapped(self._cipher, location, name["digest"])
            except Damaged as error:
                damaged.append(error)
        if damaged:
            raise Damaged(f"{damaged[0]}; {len(damaged)} in all, and {written} others were written")
        return written

    async def _rewrapped(self, cipher: Cipher, location: ClaimLocation, digest: str) -> bool:
        """Encrypt content again where it needs that; return whether it did."""
        try:
            with _translated(location.url):
                size = await asyncio.to_thread(size_of, location)
                content = await self._read(location, size)
        except Rejected:
            if await self.has(location.url):
                raise
            # Erased meanwhile.
            return False
        if not is_sealed(content) and await asyncio.to_thread(_sha256, content) != digest:
            return False
        with _translated(location.url):
            [changed] = await cipher.rewrapped([(_place(digest), content)])
        # Else it would be there again.
        if changed is None or not await self.has(location.url):
            return False
        await self._write(location, changed)
        return True

    async def versions(self, document: RootId) -> dict[str, int]:
        """Return the addresses of what was written of a document, also in part, with its version.

        A disk that is not mounted has none: `check` tells. Raises Unavailable where `directory` cannot be reached.
        """
        return (await self.versions_of([document]))[document]

    async def versions_of(self, documents: Collection[RootId]) -> dict[RootId, dict[str, int]]:
        """Return the same for each of some documents; for many, `directory` is listed once."""
        found: dict[RootId, dict[str, int]] = {each: {} for each in documents}
        if len(found) > _LISTED_APART:
            written = await self._written()
        else:
            written = [one for each in found for one in await self._written(each)]
        for at, name in written:
            if (versions := found.get(RootId(name["document"]))) is not None:
                versions[at.url] = int(name["version"])
        return found

    async def remove_versions(self, document: RootId, *, until: int) -> int:
        """Remove what was written of a document up to a version; return the number of files. Raises Unavailable."""
        old = [uri for uri, version in (await self.versions(document)).items() if version <= until]
        return sum([await self.remove(uri) for uri in old])

    async def read(self, uri: str) -> bytes:
        """Return what was written to an address. Raises Rejected where it is missing or altered, and Unavailable."""
        location = self._readable_location(uri)
        with _translated(uri):
            content = await self._read(location, await asyncio.to_thread(size_of, location))
        digest = location.path.name.rpartition("-")[2]
        content = await self._opened(location, ClaimCheck(uri=uri, size=len(content), sha256=digest), content)
        if await asyncio.to_thread(_sha256, content) != digest:
            raise Rejected(f"{_shown(uri)}: the content is not what was written")
        return content

    def owns(self, uri: str) -> bool:
        """Return whether content lies below `directory`: its files are Freki's, others are their producers'."""
        try:
            return self._directory.holds(parse_location(uri))
        except ValueError:
            return False

    async def has(self, uri: str) -> bool:
        """Return whether content of `directory` is there. Raises Rejected, and Unavailable as of `check`."""
        if await self._call(self._own(uri), has_file, has_object):
            return True
        await self.check()
        return False

    async def is_there(self) -> bool:
        """Return whether content was ever written to `directory`. Raises Rejected, Unavailable."""
        if await self._call(self._below(_MARK), has_file, has_object):
            return True
        # Producers that write there by themselves leave no mark.
        return bool(await self._written())

    async def check(self) -> None:
        """Raise Unavailable where `is_there` is false, although a record names content of `directory`."""
        if not await self.is_there():
            raise Unavailable(
                f"nothing is in {self._directory.url}, below which records name content: is the disk of"
                f" FREKI_CLAIMS__DIRECTORY, which all workers share, mounted? If it is, create the file {_MARK} in it"
            )

    async def remove(self, uri: str) -> bool:
        """Remove content from `directory`; return whether it was there.

        Raises Rejected for content elsewhere and where the account may not remove it, and Unavailable as of `check`.
        Buckets that keep versions keep those of the object.
        """
        if not await self.has(uri):
            return False
        # What producers wrote has none, and nothing else may be left.
        await self._mark()
        return await self._call(self._own(uri), remove_file, remove_object, to="removed")

    def _below(self, name: str) -> ClaimLocation:
        return self._directory._replace(path=self._directory.path / name)

    async def _written(self, document: RootId | None = None) -> list[tuple[ClaimLocation, re.Match[str]]]:
        """Return where content of a document, or of all, was written, with the parts of its name."""
        folder, prefix = (self._directory, "") if document is None else (self._below(document), f"{document}/")
        with _translated(folder.url):
            names = [prefix + name for name in await asyncio.to_thread(files_in, folder)]
        return [(self._below(name), found) for name in names if (found := _NAME.fullmatch(name))]

    def _own(self, uri: str) -> ClaimLocation:
        if not self.owns(uri):
            raise Rejected(f"{_shown(uri)} is not below FREKI_CLAIMS__DIRECTORY: its producer removes it")
        return parse_location(uri)

    async def _mark(self) -> None:
        # Not looked for: the account of who only publishes may have no right to list.
        if not self._is_marked:
            await self._write(self._below(_MARK), _MARK_TEXT)
            self._is_marked = True

    async def _call(
        self,
        location: ClaimLocation,
        of_file: Callable[[ClaimLocation], bool],
        of_object: Callable[[ClaimLocation], bool],
        *,
        to: str = "read",
    ) -> bool:
        """Call what serves the location; to: what is tried, for the message of an error."""
        with _translated(location.url, to=to):
            async with asyncio.timeout(_TIMEOUT_S):
                return await asyncio.to_thread(of_file if location.scheme == LOCAL else of_object, location)

    async def _read(self, location: ClaimLocation, size: int) -> bytes:
        around = _ENVELOPE_BYTES if self._directory.holds(location) else 0
        if location.scheme == LOCAL:
            return await asyncio.to_thread(read_file, location, self._readable, size, around=around)
        if location.scheme in WEB:
            return await read_web(location, size)
        return await asyncio.to_thread(read_object, location, size, around=around)

    async def _opened(self, location: ClaimLocation, claim: ClaimCheck, content: bytes) -> bytes:
        """Return content decrypted; content that already is what was claimed is plain, however it begins."""
        if not (self._directory.holds(location) and is_sealed(content)):
            return content
        digest = claim.sha256.lower()
        if len(content) == claim.size and await asyncio.to_thread(_sha256, content) == digest:
            return content
        if self._cipher is None:
            raise Misconfigured(f"{_shown(claim.uri)} is encrypted: set FREKI_ENCRYPTION__KEYS as where it was written")
        return (await self._cipher.unseal([(_place(digest), content)]))[0]

    async def _write(self, location: ClaimLocation, content: bytes) -> None:
        write = write_file if location.scheme == LOCAL else write_object
        with _translated(location.url, to="written"):
            async with asyncio.timeout(_TIMEOUT_S):
                await asyncio.to_thread(write, location, content)

    async def _give_up_in_time(self, claim: ClaimCheck, location: ClaimLocation, error: Unavailable) -> None:
        """Count a failure. Raises Rejected if there were too many in a row, and Unavailable as of `check`.

        Rejected claims stay counted: the batch that holds one is tried again in parts.
        """
        count = self._failures.pop(hash(claim), 0) + 1
        self._failures[hash(claim)] = count
        if len(self._failures) > _CLAIMS_THAT_FAIL:
            del self._failures[next(iter(self._failures))]
        if count < _FAILURES_OF_A_CLAIM:
            return
        if self._directory.holds(location):
            await self.check()
        raise Rejected(
            f"{error}, {count} times in a row: `freki dead-letters replay all` sends it again once it can be read"
        ) from error

    def _readable_location(self, uri: str) -> ClaimLocation:
        try:
            location = parse_location(uri)
        except ValueError as error:
            raise Rejected(f"{_shown(uri)} cannot be read: {error}") from error
        if not any(allowed.holds(location) for allowed in self._readable):
            raise Rejected(f"{_shown(uri)} may not be read: no prefix in FREKI_CLAIMS__ALLOWED holds it")
        return location


def _configured(url: str, setting: str) -> ClaimLocation:
    try:
        # Not `resolve`, which would access the disk.
        return parse_location(url if "://" in url else os.path.abspath(Path(url).expanduser()))  # noqa: PTH100
    except ValueError as error:
        raise Misconfigured(f"{setting}: {url!r}: {error}") from error


def _load_driver(scheme: str) -> None:
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        hint = f"; {how_to_install('s3')}" if scheme in S3 else ""
        raise Misconfigured(
            f"FREKI_CLAIMS__ALLOWED or __DIRECTORY names {scheme}://, but its driver: {error}{hint}"
        ) from error


@contextmanager
def _translated(uri: str, *, to: str = "read") -> Iterator[None]:
    try:
        yield
    except InfraError as error:
        raise type(error)(f"{_shown(uri)}: {error}") from error
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise Rejected(f"{_shown(uri)} cannot be {to}: {error.strerror or type(error).__name__}") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EROFS:
            raise Rejected(f"{_shown(uri)} cannot be {to}: its disk is mounted for reading only") from error
        if isinstance(error, OSError) and error.errno in _NO_NAME_OF_A_FILE:
            raise Rejected(f"{_shown(uri)} cannot be {to}: {error.strerror or type(error).__name__}") from error
        # Every driver has exceptions of its own.
        raise Unavailable(f"{_shown(uri)} cannot be reached: {type(error).__name__}: {error}") from error


def _shown(uri: str) -> str:
    return repr(uri[:200])


def _place(digest: str) -> bytes:
    return place_of("claim", digest)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
