"""Large content in real S3 servers."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from freki.infra.claims import ClaimStore
from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.settings import ClaimSettings, Settings
from freki.schemas import ClaimCheck, DocumentId, OutcomeStatus, TenantId
from freki.schemas.errors import Rejected, Unavailable
from freki.schemas.names import root_id
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import ask, documents, publish, upsert
from tests.neighbours.s3_server import MINIO, VERSITY, running_s3

pytestmark = [
    pytest.mark.usefixtures("server"),
    pytest.mark.timeout(1800),  # the first time they are built
]

BUCKET = "documents"
DIRECTORY = f"s3://{BUCKET}/claims/"
DOCUMENT = root_id(TenantId("default"), DocumentId("a.md"))
TEXT = "Der Schlüssel liegt beim Hausmeister.\n\n" + "Im Flur hängt ein Plan der Räume. " * 200


def connected_anew() -> None:
    """Let drivers read the environment again: they are kept."""
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture(scope="module", params=[MINIO, VERSITY], ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest) -> Iterator[None]:
    with running_s3(request.param) as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        connected_anew()
        fsspec.filesystem("s3").mkdir(BUCKET)
        yield


@pytest.fixture(autouse=True)
def connections() -> Iterator[None]:
    connected_anew()
    yield
    connected_anew()


def stored(name: str) -> bytes:
    """Read what lies under a name."""
    content: bytes = fsspec.filesystem("s3").cat_file(f"{BUCKET}/{name}")
    return content


@pytest.fixture
def store() -> ClaimStore:
    return ClaimStore(ClaimSettings(directory=DIRECTORY))


def claim_of(uri: str, content: bytes) -> ClaimCheck:
    return ClaimCheck(uri=uri, size=len(content), sha256=hashlib.sha256(content).hexdigest())


async def put(store: ClaimStore, content: bytes) -> ClaimCheck:
    return await store.put(content, document=DOCUMENT, version=1)


@pytest.mark.parametrize("content", [b"", b"x", TEXT.encode(), bytes(9_000_000)], ids=["none", "one", "text", "large"])
async def test_what_is_written_is_read(store: ClaimStore, content: bytes) -> None:
    claim = await put(store, content)

    assert claim.uri == f"{DIRECTORY}{DOCUMENT}/1-{hashlib.sha256(content).hexdigest()}"
    assert stored(f"claims/{DOCUMENT}/1-{claim.sha256}") == content
    assert await store.get(claim) == content
    assert await put(store, content) == claim


async def test_what_is_not_there_or_differs_is_refused(store: ClaimStore) -> None:
    claim, long = await put(store, b"the one"), await put(store, bytes(9_000))

    with pytest.raises(Rejected, match="cannot be read"):
        await store.get(claim_of(f"{DIRECTORY}nothing", b"the one"))
    # Encrypted content may be some thousand bytes longer.
    with pytest.raises(Rejected, match="its size is not the 9 bytes of the claim"):
        await store.get(claim_of(long.uri, b"the other"))
    with pytest.raises(Rejected, match="the content is not the one that was claimed"):
        await store.get(claim_of(claim.uri, b"the two"))
    with pytest.raises(Rejected, match="no prefix in FREKI_CLAIMS__ALLOWED holds it"):
        await store.get(claim_of(f"s3://{BUCKET}/secret", b"the one"))


async def test_a_bucket_that_is_not_there_is_refused() -> None:
    with pytest.raises(Rejected, match="cannot be read"):
        await ClaimStore(ClaimSettings(directory="s3://nowhere/")).get(claim_of("s3://nowhere/a", b"a"))


async def test_a_wrong_secret_is_refused(store: ClaimStore, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = await put(store, b"the one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    connected_anew()

    with pytest.raises(Rejected, match="cannot be read"):
        await store.get(claim)


async def test_a_server_that_is_down_is_waited_for(store: ClaimStore, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = await put(store, b"the one")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    connected_anew()

    with pytest.raises(Unavailable, match="cannot be reached"):
        await store.get(claim)


async def test_a_large_document_goes_through_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Workers get these from the environment, as the credentials.
    monkeypatch.setenv("FREKI_CLAIMS__DIRECTORY", DIRECTORY)
    monkeypatch.setenv("FREKI_CLAIMS__INLINE_BYTES", "1000")
    settings = Settings(local=Settings().local.elsewhere(tmp_path))
    children = Children()
    async with LocalStack(settings, report=children.report, prepare=apply_topics) as stack:
        freki = Freki(settings_for(settings, stack.state), children)
        (outcome,) = await publish(freki, upsert("t", "keys.txt", TEXT))
        result = await ask(freki, "t", "Wo liegt der Schlüssel?", deadline_ms=60_000)

    assert outcome.status is OutcomeStatus.INDEXED
    assert documents(result) == ["keys.txt"]
    folder, digest = root_id(TenantId("t"), DocumentId("keys.txt")), hashlib.sha256(TEXT.encode()).hexdigest()
    assert stored(f"claims/{folder}/{outcome.version}-{digest}").decode() == TEXT
