import asyncio
import errno
import hashlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.claims import ClaimStore
from freki.infra.claims.location import parse_location
from freki.infra.keys import Cipher, LocalKeys, make_keys
from freki.infra.keys.envelope import Damaged
from freki.infra.settings import ClaimSettings
from freki.schemas import ClaimCheck, DocumentId, RootId, TenantId
from freki.schemas.errors import Misconfigured, Rejected, Unavailable
from freki.schemas.names import root_id
from freki.streams.deliver.retry import Backoff

CONTENT = "Größe".encode()
A, B = (root_id(TenantId("hr"), DocumentId(name)) for name in "ab")


def claim_of(uri: str, content: bytes = CONTENT) -> ClaimCheck:
    return ClaimCheck(uri=uri, size=len(content), sha256=hashlib.sha256(content).hexdigest())


async def put(store: ClaimStore, content: bytes, *, document: RootId = A, version: int = 1) -> ClaimCheck:
    return await store.put(content, document=document, version=version)


def settings(tmp_path: Path, *allowed: str, max_bytes: int = 100) -> ClaimSettings:
    return ClaimSettings(directory=str(tmp_path / "own"), allowed=allowed, max_bytes=max_bytes)


@pytest.fixture
def store(tmp_path: Path) -> ClaimStore:
    """Give a store that may read its own directory and nothing else."""
    (tmp_path / "own").mkdir()
    return ClaimStore(settings(tmp_path))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Give a file beside the directory."""
    (tmp_path / "secret.txt").write_bytes(CONTENT)
    return tmp_path / "secret.txt"


@pytest.fixture
def bucket() -> Iterator[str]:
    """Give a folder in an object store, in memory."""
    memory = fsspec.filesystem("memory")
    memory.pipe_file("memory://bucket/docs/a.md", CONTENT)
    memory.pipe_file("memory://bucket-evil/docs/a.md", CONTENT)
    memory.pipe_file("memory://bucket/docs-evil/a.md", CONTENT)
    yield "memory://bucket/docs/"
    memory.store.clear()


class Web(BaseHTTPRequestHandler):
    """Serves one file, and all the ways in which a server can go wrong."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined] # ours
        match self.path:
            case "/docs/a.md":
                self._answer(200, CONTENT)
            case "/docs/longer.md":
                self._answer(200, CONTENT + b"!")
            case "/docs/endless.md":
                self._answer(200, CONTENT * 1_000_000, length=None)
            case "/docs/cut.md":
                self._answer(200, CONTENT[:3], length=len(CONTENT))
            case "/docs/moved.md":
                self._answer(302, b"", Location="http://localhost:1/secret")
            case "/docs/busy.md":
                self._answer(429, b"")
            case "/docs/broken.md":
                self._answer(500, b"")
            case _:
                self._answer(404, b"")

    def _answer(self, status: int, body: bytes, length: int | None = -1, **headers: str) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(len(body) if length < 0 else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """Run a web server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.asked = []  # type: ignore[attr-defined] # ours
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def web(server: ThreadingHTTPServer, tmp_path: Path) -> tuple[ClaimStore, str]:
    """Give a store that may read a folder of the server, and its URL."""
    prefix = f"http://127.0.0.1:{server.server_port}/docs/"
    return ClaimStore(settings(tmp_path, prefix)), prefix


@pytest.mark.parametrize("content", [b"", CONTENT, b"\x00" * 100])
async def test_what_is_put_is_what_is_got(store: ClaimStore, content: bytes) -> None:
    claim = await put(store, content)

    assert await store.get(claim) == content
    assert claim == claim_of(claim.uri, content)


async def test_the_same_content_of_a_version_lies_there_once_and_whole(store: ClaimStore, tmp_path: Path) -> None:
    first = await put(store, CONTENT)

    assert await put(store, CONTENT) == first
    assert [path.name for path in (tmp_path / "own" / A).iterdir()] == [f"1-{first.sha256}"]


@pytest.mark.parametrize("place", ["directory", "bucket"])
async def test_what_was_written_of_a_document_is_found_and_removed_by_version(
    place: str, bucket: str, tmp_path: Path
) -> None:
    directory = str(tmp_path / "own") if place == "directory" else f"{bucket}claims"
    store = ClaimStore(ClaimSettings(directory=directory))
    of_a = [await put(store, CONTENT, version=version) for version in (1, 2, 3)]
    of_b = await put(store, CONTENT, document=B)

    assert await store.versions(A) == {claim.uri: version for version, claim in enumerate(of_a, start=1)}
    assert await store.remove_versions(A, until=2) == 2
    assert await store.remove_versions(A, until=2) == 0

    assert await store.versions(A) == {of_a[2].uri: 3}
    assert await store.versions(B) == {of_b.uri: 1}
    assert await store.read(of_b.uri) == await store.get(of_a[2]) == CONTENT
    assert await store.versions(root_id(TenantId("sales"), DocumentId("a"))) == {}


@pytest.mark.parametrize("count", [1, 60])
async def test_many_documents_are_found_at_once(store: ClaimStore, count: int) -> None:
    documents = [root_id(TenantId("hr"), DocumentId(str(number))) for number in range(count)]
    claims = [await put(store, CONTENT, document=each, version=number) for number, each in enumerate(documents)]
    other = await put(store, CONTENT, document=A)

    found = await store.versions_of([*documents, B])

    assert found == {each: {claims[number].uri: number} for number, each in enumerate(documents)} | {B: {}}
    assert await store.versions(A) == {other.uri: 1}


async def test_what_cannot_be_listed_is_told_and_what_is_absent_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)

    with pytest.raises(Rejected, match="cannot be read"):
        await ClaimStore(ClaimSettings(directory=str(tmp_path / "file"))).versions(A)
    assert await ClaimStore(ClaimSettings(directory=str(tmp_path / "absent"))).versions(A) == {}


async def test_a_disk_that_is_not_mounted_is_not_taken_for_an_empty_one(store: ClaimStore, tmp_path: Path) -> None:
    claim, elsewhere = await put(store, CONTENT), tmp_path / "unmounted"
    (tmp_path / "own").rename(elsewhere)

    for empty in (False, True):
        if empty:
            (tmp_path / "own").mkdir()
        assert not await store.is_there()
        for missed in (store.check(), store.has(claim.uri), store.remove(claim.uri)):
            with pytest.raises(Unavailable, match="mounted"):
                await missed

    (tmp_path / "own").rmdir()
    elsewhere.rename(tmp_path / "own")
    assert await store.remove(claim.uri)


@pytest.mark.parametrize("place", ["directory", "bucket"])
async def test_what_was_emptied_is_still_known_to_be_there(place: str, bucket: str, tmp_path: Path) -> None:
    directory = str(tmp_path / "own") if place == "directory" else f"{bucket}claims"
    store = ClaimStore(ClaimSettings(directory=directory))
    assert not await store.is_there()
    claim = await put(store, CONTENT)

    assert await store.remove(claim.uri)

    assert await store.is_there()
    assert not await store.has(claim.uri)
    assert not await store.remove(claim.uri)
    assert await store.versions(A) == {}


async def test_what_producers_wrote_by_themselves_shows_that_the_disk_is_there(
    store: ClaimStore, tmp_path: Path
) -> None:
    claim = await put(ClaimStore(settings(tmp_path)), CONTENT)
    for each in (tmp_path / "own").iterdir():
        if each.is_file():
            each.unlink()

    assert await store.is_there()
    assert await store.remove(claim.uri)
    assert await store.is_there(), "removal leaves a mark"


async def test_a_disk_that_cannot_be_written_is_told_and_not_tried_again(
    store: ClaimStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = await put(store, CONTENT)

    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(Rejected, match=r"cannot be removed: .*reading only"):
        await store.remove(claim.uri)


async def test_what_a_killed_writer_left_goes_with_its_document(store: ClaimStore, tmp_path: Path) -> None:
    claim = await put(store, CONTENT, version=4)
    folder = tmp_path / "own" / A
    unfinished = folder / f".3-{'0' * 64}.0123456789abcdef.tmp"
    unfinished.write_bytes(CONTENT[:3])

    assert await store.versions(A) == {claim.uri: 4, unfinished.as_uri(): 3}
    with pytest.raises(Rejected, match="not what was written"):
        await store.read(unfinished.as_uri())
    assert await store.remove_versions(A, until=4) == 2
    assert not folder.exists()


async def test_a_folder_that_goes_while_content_is_written_is_made_anew(store: ClaimStore) -> None:
    async def write_and_remove(version: int) -> None:
        claim = await put(store, CONTENT, version=version)
        assert await store.get(claim) == CONTENT
        assert await store.remove(claim.uri)

    await asyncio.gather(*map(write_and_remove, range(200)))


async def test_a_directory_with_a_strange_name_serves_as_well(tmp_path: Path) -> None:
    store = ClaimStore(ClaimSettings(directory=str(tmp_path / "50 % größer #1?")))

    assert await store.get(await put(store, CONTENT)) == CONTENT


async def test_a_relative_directory_is_one_place_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = ClaimStore(ClaimSettings(directory="x/../claims"))
    claim = await put(store, CONTENT)

    assert claim.uri == f"file://{tmp_path}/claims/{A}/1-{claim.sha256}"


async def test_a_file_may_be_named_by_its_path_alone(store: ClaimStore, tmp_path: Path) -> None:
    (tmp_path / "own" / "a.md").write_bytes(CONTENT)

    assert await store.get(claim_of(f"{tmp_path}/own/a.md")) == CONTENT


async def test_too_much_content_is_not_put(store: ClaimStore) -> None:
    with pytest.raises(Rejected, match="FREKI_CLAIMS__MAX_BYTES"):
        await put(store, b"x" * 101)


@pytest.mark.parametrize("size", [-1, 101, 2**62])
async def test_a_claim_over_the_limit_is_refused_unread(store: ClaimStore, size: int) -> None:
    claim = await put(store, CONTENT)

    with pytest.raises(Rejected, match="FREKI_CLAIMS__MAX_BYTES"):
        await store.get(ClaimCheck(uri=claim.uri, size=size, sha256=claim.sha256))


async def test_a_file_of_another_size_is_refused_unread(store: ClaimStore, tmp_path: Path) -> None:
    claim = await put(store, CONTENT)
    with (tmp_path / "own" / A / f"1-{claim.sha256}").open("wb") as file:
        file.truncate(2**40)

    with pytest.raises(Rejected, match="size"):
        await store.get(claim)


async def test_content_that_is_not_the_claimed_one_is_refused(store: ClaimStore, tmp_path: Path) -> None:
    claim = await put(store, CONTENT)
    (tmp_path / "own" / A / f"1-{claim.sha256}").write_bytes(CONTENT[::-1])

    with pytest.raises(Rejected, match="not the one that was claimed"):
        await store.get(claim)


async def test_a_file_that_is_not_there_is_refused(store: ClaimStore, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="No such file"):
        await store.get(claim_of(f"{tmp_path}/own/gone.md"))


async def test_a_directory_that_is_not_there_is_worth_waiting_for(tmp_path: Path) -> None:
    store = ClaimStore(settings(tmp_path))

    with pytest.raises(Unavailable, match="mounted"):
        await store.get(claim_of(f"{tmp_path}/own/a.md"))


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "/etc/passwd",
        "file://localhost/etc/passwd",
        "file://evil.example{home}/own/a.md",
        "file:{home}/own/a.md",
        "{home}/own/../secret.txt",
        "file://{home}/own/../secret.txt",
        "file://{home}/own/%2e%2e/secret.txt",
        "file://{home}/own/a.md%00",
        "{home}/own-evil/a.md",
        "{home}/secret.txt",
        "own/a.md",
        "../secret.txt",
        "FILE://{home}/secret.txt",
        "local://{home}/secret.txt",
        "simplecache::file://{home}/secret.txt",
        "zip://a::file://{home}/own/a.zip",
        "data:text/plain,abc",
        "http://127.0.0.1:1/own",
        "s3://bucket/a.md",
        "//evil.example/own/a.md",
        "{home}/own/a.md\n",
        "",
    ],
)
async def test_what_is_not_allowed_is_not_read(store: ClaimStore, secret: Path, uri: str) -> None:
    make_evil(secret.parent)

    with pytest.raises(Rejected, match=r"may not be read|cannot be read"):
        await store.get(claim_of(uri.replace("{home}", str(secret.parent))))


def make_evil(home: Path) -> None:
    """Give the attacks something to find."""
    (home / "own-evil").mkdir()
    (home / "own-evil" / "a.md").write_bytes(CONTENT)


async def test_a_link_that_leads_out_of_the_directory_is_refused(store: ClaimStore, secret: Path) -> None:
    (secret.parent / "own" / "link.txt").symlink_to(secret)
    (secret.parent / "own" / "folder").symlink_to(secret.parent)

    for uri in (f"{secret.parent}/own/link.txt", f"{secret.parent}/own/folder/secret.txt"):
        with pytest.raises(Rejected, match="a link that leads out"):
            await store.get(claim_of(uri))


async def test_a_link_within_the_directory_is_followed(store: ClaimStore, tmp_path: Path) -> None:
    (tmp_path / "own" / "a.md").write_bytes(CONTENT)
    (tmp_path / "own" / "link.md").symlink_to("a.md")

    assert await store.get(claim_of(f"{tmp_path}/own/link.md")) == CONTENT


async def test_what_is_no_regular_file_is_refused_and_not_waited_for(store: ClaimStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own" / "pipe")
    (tmp_path / "own" / "folder").mkdir()
    (tmp_path / "own" / "self").symlink_to("self")

    for name in ("pipe", "folder", "self"):
        with pytest.raises(Rejected):
            await store.get(claim_of(f"{tmp_path}/own/{name}", b""))


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3_000, "\ud800"])
async def test_a_name_that_no_file_can_have_is_refused(store: ClaimStore, tmp_path: Path, name: str) -> None:
    with pytest.raises(Rejected, match=r"cannot be read|no file"):
        await store.get(claim_of(f"file://{tmp_path}/own/{name}"))


async def test_under_a_name_that_no_file_can_have_is_none(store: ClaimStore, tmp_path: Path) -> None:
    await put(store, CONTENT)

    assert not await store.has(f"file://{tmp_path}/own/{'a' * 300}")


async def test_an_object_under_an_allowed_prefix_is_read(tmp_path: Path, bucket: str) -> None:
    store = ClaimStore(settings(tmp_path, bucket))

    assert await store.get(claim_of("memory://bucket/docs/a.md")) == CONTENT


@pytest.mark.parametrize(
    "uri",
    [
        "memory://bucket-evil/docs/a.md",
        "memory://bucket/docs-evil/a.md",
        "memory://bucket/docs/../docs-evil/a.md",
        "memory://bucket/docs/%2e%2e/docs-evil/a.md",
        "memory://bucket/docs/%252e%252e/docs-evil/a.md",
        "memory://bucket/docs/..%2fdocs-evil/a.md",
        "memory://bucket/docs\\..\\docs-evil/a.md",
        "memory://bucket//docs/a.md",
        "memory://me@bucket/docs/a.md",
        "memory://bucket/docs/a.md?versionId=1",
        "memory://bucket/docs/a.md#x",
        "memory://bucket/docs/a.md::file:///etc/passwd",
        "memory:///bucket/docs/a.md",
        "s3://bucket/docs/a.md",
    ],
)
async def test_an_object_under_another_prefix_is_not_read(tmp_path: Path, bucket: str, uri: str) -> None:
    store = ClaimStore(settings(tmp_path, bucket))

    with pytest.raises(Rejected, match=r"may not be read|cannot be read"):
        await store.get(claim_of(uri))


async def test_content_can_be_put_into_an_object_store(bucket: str) -> None:
    store = ClaimStore(ClaimSettings(directory=bucket))
    claim = await put(store, CONTENT)

    assert claim.uri == f"memory://bucket/docs/{A}/1-{claim.sha256}"
    assert await store.get(claim) == CONTENT


async def test_an_object_that_is_missing_or_of_another_size_is_refused(tmp_path: Path, bucket: str) -> None:
    store = ClaimStore(settings(tmp_path, bucket))

    with pytest.raises(Rejected, match="cannot be read"):
        await store.get(claim_of("memory://bucket/docs/gone.md"))
    with pytest.raises(Rejected, match="size"):
        await store.get(claim_of("memory://bucket/docs/a.md", CONTENT + b"!"))


async def test_a_file_of_an_allowed_web_server_is_read(web: tuple[ClaimStore, str]) -> None:
    store, prefix = web

    assert await store.get(claim_of(f"{prefix}a.md")) == CONTENT


@pytest.mark.parametrize(
    ("name", "message"),
    [("moved.md", "sends the reader on"), ("longer.md", "size"), ("gone.md", "404"), ("endless.md", "claimed")],
)
async def test_a_web_server_that_gives_something_else_is_refused(
    web: tuple[ClaimStore, str], name: str, message: str
) -> None:
    store, prefix = web

    with pytest.raises(Rejected, match=message):
        await store.get(claim_of(prefix + name))


@pytest.mark.parametrize("name", ["busy.md", "broken.md", "cut.md"])
async def test_a_web_server_in_trouble_is_worth_waiting_for(web: tuple[ClaimStore, str], name: str) -> None:
    store, prefix = web

    with pytest.raises(Unavailable):
        await store.get(claim_of(prefix + name))


async def test_a_web_server_that_is_down_is_worth_waiting_for(tmp_path: Path) -> None:
    store = ClaimStore(settings(tmp_path, "http://127.0.0.1:1/docs/"))

    with pytest.raises(Unavailable, match="cannot be reached"):
        await store.get(claim_of("http://127.0.0.1:1/docs/a.md"))


async def failures(store: ClaimStore, claim: ClaimCheck, count: int) -> None:
    """Read what cannot be read so many times, and be told to try again each time."""
    for _ in range(count):
        with pytest.raises(Unavailable):
            await store.get(claim)


LAST_BUT_ONE = Backoff().attempts - 1
"""The attempt that may fail at most, so that the record is a dead letter before the stage stops."""


async def test_what_a_web_server_never_gives_is_refused_before_the_stage_stops(web: tuple[ClaimStore, str]) -> None:
    store, prefix = web
    claim = claim_of(f"{prefix}broken.md")
    await failures(store, claim, LAST_BUT_ONE - 1)

    for count in (LAST_BUT_ONE, LAST_BUT_ONE + 1):
        with pytest.raises(
            Rejected, match=rf"broken\.md.* answers 500, {count} times in a row: `freki dead-letters replay all`"
        ):
            await store.get(claim)
    await failures(store, claim_of(claim.uri, b"a later version"), 1)
    assert await store.get(claim_of(f"{prefix}a.md")) == CONTENT


async def test_what_cannot_be_read_while_its_directory_is_there_is_refused(store: ClaimStore, tmp_path: Path) -> None:
    await put(store, CONTENT)
    with socket.socket(socket.AF_UNIX) as unopenable:
        unopenable.bind(str(tmp_path / "own" / "socket"))
    claim = claim_of(f"{tmp_path}/own/socket")
    await failures(store, claim, LAST_BUT_ONE - 1)

    with pytest.raises(Rejected, match=f"{LAST_BUT_ONE} times"):
        await store.get(claim)


async def test_a_directory_that_stays_away_is_waited_for(store: ClaimStore, tmp_path: Path) -> None:
    claim = await put(store, CONTENT)
    (tmp_path / "own").rename(tmp_path / "unmounted")

    await failures(store, claim, LAST_BUT_ONE + 2)

    (tmp_path / "unmounted").rename(tmp_path / "own")
    assert await store.get(claim) == CONTENT


async def test_only_failures_without_a_success_between_them_count(tmp_path: Path) -> None:
    other = tmp_path / "other"
    store, claim = ClaimStore(settings(tmp_path, str(other))), claim_of(f"{other}/a.md")
    await failures(store, claim, LAST_BUT_ONE - 1)
    other.mkdir()
    (other / "a.md").write_bytes(CONTENT)
    assert await store.get(claim) == CONTENT
    other.rename(tmp_path / "away")

    await failures(store, claim, LAST_BUT_ONE - 1)
    with pytest.raises(Rejected, match=f"{LAST_BUT_ONE} times"):
        await store.get(claim)


async def test_failures_of_a_thousand_claims_are_remembered_at_most(tmp_path: Path) -> None:
    store = ClaimStore(settings(tmp_path, str(tmp_path / "other")))
    first = claim_of(f"{tmp_path}/other/first.md")
    await failures(store, first, LAST_BUT_ONE - 1)
    for number in range(1_000):
        await failures(store, claim_of(f"{tmp_path}/other/{number}.md"), 1)

    await failures(store, first, LAST_BUT_ONE - 1)


async def test_another_port_host_or_scheme_is_not_asked(
    web: tuple[ClaimStore, str], server: ThreadingHTTPServer
) -> None:
    store, prefix = web

    for uri in (
        prefix.replace("127.0.0.1", "localhost") + "a.md",
        prefix.replace("http:", "https:") + "a.md",
        prefix.replace("//", "//user:secret@") + "a.md",
        prefix.replace("/docs", ".evil.example/docs") + "a.md",
        prefix.replace("docs/", "docs/%2e%2e/") + "a.md",
    ):
        with pytest.raises(Rejected):
            await store.get(claim_of(uri))

    assert server.asked == []  # type: ignore[attr-defined] # ours


@pytest.mark.parametrize(
    ("directory", "allowed", "message"),
    [
        ("http://example.org/docs/", (), "FREKI_CLAIMS__DIRECTORY"),
        ("ftp://example.org/docs/", (), "FREKI_CLAIMS__DIRECTORY.*ftp is none of"),
        (".", ("s3://",), "FREKI_CLAIMS__ALLOWED.*host"),
        (".", ("https://example.org/docs/?a=b",), "FREKI_CLAIMS__ALLOWED"),
        (".", ("zip://a::file:///",), "FREKI_CLAIMS__ALLOWED"),
    ],
)
def test_a_place_that_cannot_be_used_is_named_with_its_setting(
    directory: str, allowed: tuple[str, ...], message: str
) -> None:
    with pytest.raises(Misconfigured, match=message):
        ClaimStore(ClaimSettings(directory=directory, allowed=allowed))


def test_a_missing_driver_is_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="oci://"):
        ClaimStore(settings(tmp_path, "oci://bucket/docs/"))


@given(name=st.text(st.characters(codec="ascii", exclude_characters="\\\x7f", min_codepoint=0x20), min_size=1))
def test_no_name_leads_out_of_its_prefix(name: str) -> None:
    prefix = parse_location("https://example.org/docs/")
    try:
        place = parse_location(f"https://example.org/docs/{name}")
    except ValueError:
        return

    assert prefix.holds(place)
    assert parse_location(place.url) == place


def bytes_of(claim: ClaimCheck) -> bytes:
    return Path(unquote(urlsplit(claim.uri).path)).read_bytes()


def rewrite(claim: ClaimCheck, content: bytes) -> None:
    Path(unquote(urlsplit(claim.uri).path)).write_bytes(content)


def encrypted(tmp_path: Path) -> tuple[ClaimStore, Cipher, LocalKeys]:
    keys = make_keys(tmp_path / "freki.keys")
    cipher = Cipher(keys, cache_s=0.001)
    return ClaimStore(settings(tmp_path, max_bytes=10_000), cipher), cipher, keys


async def test_an_encrypted_claim_shows_nothing_and_comes_back(tmp_path: Path) -> None:
    store, _, _ = encrypted(tmp_path)
    for content in (b"Ein vertraulicher Satz. " * 99, b"", b"FKE1 and more"):
        claim = await put(store, content)
        written = bytes_of(claim)
        assert written.startswith(b"FKE1")
        assert not content or content not in written
        assert claim == await put(ClaimStore(settings(tmp_path, max_bytes=10_000)), content)
        assert await store.get(claim) == content, "plain ones of before are read too"
        assert await put(store, content) == claim
        assert await store.get(claim) == content
        with pytest.raises(Rejected, match=r"FREKI_ENCRYPTION__KEYS|not the .* bytes"):
            await ClaimStore(settings(tmp_path, max_bytes=10_000)).get(claim)


async def test_an_encrypted_claim_that_was_altered_or_renamed_is_refused(tmp_path: Path) -> None:
    store, _, _ = encrypted(tmp_path)
    first, second = await put(store, b"first content"), await put(store, b"other content")
    paths = [Path(unquote(urlsplit(claim.uri).path)) for claim in (first, second)]
    paths[0].write_bytes(paths[1].read_bytes())
    with pytest.raises(Rejected, match="moved"):
        await store.get(first)
    raw = bytearray(paths[1].read_bytes())
    raw[-1] ^= 1
    paths[1].write_bytes(raw)
    with pytest.raises(Rejected, match="altered"):
        await store.get(second)


@pytest.mark.parametrize("damage", [bytes(8), b"local:vx", b"local:v0", b"!ocal:v1"])
async def test_a_claim_whose_wrapped_key_was_damaged_is_held_against_no_setting(damage: bytes, tmp_path: Path) -> None:
    store, _, _ = encrypted(tmp_path)
    claim = await put(store, b"content")
    raw = bytes_of(claim)
    at = raw.index(b"local:v1")
    for damaged in (raw[:at] + damage + raw[at + len(damage) :], raw[: at + 20] + bytes(9) + raw[at + 29 :]):
        rewrite(claim, damaged)
        with pytest.raises(Damaged, match="publish it again"):
            await store.get(claim)


async def test_another_key_file_is_held_against_no_claim(tmp_path: Path) -> None:
    store, _, _ = encrypted(tmp_path)
    claim = await put(store, b"content")
    (tmp_path / "freki.keys").unlink()
    other = Cipher(make_keys(tmp_path / "freki.keys"), cache_s=1)
    with pytest.raises(Misconfigured, match="put that file back"):
        await ClaimStore(settings(tmp_path, max_bytes=10_000), other).get(claim)


async def test_claims_are_wrapped_anew_and_plain_ones_encrypted(tmp_path: Path) -> None:
    store, _, keys = encrypted(tmp_path)
    contents = [b"plain", b"old " * 500, b"new"]
    claims = [await put(ClaimStore(settings(tmp_path, max_bytes=10_000)), contents[0]), await put(store, contents[1])]
    await keys.rotate()
    await asyncio.sleep(0.01)
    claims.append(await put(store, contents[2]))
    assert await store.rewrap() == 2
    assert await store.rewrap() == 0
    assert [await store.get(claim) for claim in claims] == contents
    for claim in claims:
        assert b"local:v2:" in bytes_of(claim)


async def test_a_claim_that_is_erased_while_claims_are_wrapped_anew_stays_so(tmp_path: Path) -> None:
    class Slow(LocalKeys):
        """Keys that are asked once all claims are listed; meanwhile two of them are erased."""

        async def versions(self) -> Sequence[int]:
            for claim in erased:
                await store.remove(claim.uri)
            return await super().versions()

    make_keys(tmp_path / "freki.keys")
    store = ClaimStore(settings(tmp_path, max_bytes=10_000), Cipher(Slow(tmp_path / "freki.keys"), cache_s=0.001))
    plain = ClaimStore(settings(tmp_path, max_bytes=10_000))
    claims = [await put(plain, f"claim {number}".encode()) for number in range(3)]
    *erased, kept = sorted(claims, key=lambda claim: claim.uri)

    assert await store.rewrap() == 1

    assert [await store.has(claim.uri) for claim in (*erased, kept)] == [False, False, True]
    assert b"local:v1:" in bytes_of(kept)


async def test_a_claim_that_was_damaged_keeps_no_other_from_being_wrapped_anew(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "freki.keys")
    store = ClaimStore(settings(tmp_path, max_bytes=10_000), Cipher(keys, cache_s=0.001))
    claims = [await put(store, f"claim {number}".encode()) for number in range(3)]
    damaged, *others = sorted(claims, key=lambda claim: claim.uri)
    path = Path(unquote(urlsplit(damaged.uri).path))
    await asyncio.to_thread(path.write_bytes, bytes_of(damaged)[:-1])
    await keys.rotate()

    with pytest.raises(Damaged, match=damaged.sha256):
        await store.rewrap()

    assert all(b"local:v2:" in bytes_of(claim) for claim in others)
