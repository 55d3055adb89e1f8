import hashlib
import inspect
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import httpx
import huggingface_hub.constants
import huggingface_hub.errors
import numpy as np
import pytest

from freki.infra.models import OnnxEmbedder, embedder_identity
from freki.infra.models.descriptions import HubSource, ModelDescription, ModelKind, RegisteredModel
from freki.infra.models.export import Request, export_model, exporter
from freki.infra.models.hub import _translated, fetch
from freki.infra.models.progress import unseen
from freki.infra.models.registry import MODELS
from freki.infra.settings import ModelSettings
from freki.schemas.arrays import Floats
from freki.schemas.errors import InfraError, Misconfigured, Unavailable
from tests.http_server import serving_http
from tests.unit.tiny_models import write_hub_files, write_sentence_encoder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Serves the files of one repository as the hub does."""

    root: ClassVar[Path]
    requests: ClassVar[list[str]]

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.wfile.write(self.answer())

    def answer(self) -> bytes:
        self.requests.append(f"{self.command} {self.path}")
        if self.path.startswith("/api/models/someone/tiny"):
            return self.listed()
        prefix = f"/someone/tiny/resolve/{COMMIT}/"
        file = self.root / self.path.removeprefix(prefix)
        found = self.path.startswith(prefix) and file.is_file()
        content = file.read_bytes() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        if not found:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.end_headers()
        return content

    def listed(self) -> bytes:
        files = [str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()]
        content = json.dumps(
            {"id": "someone/tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return content

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def point_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send requests to another hub, as HF_ENDPOINT does where it is set before the import."""
    template = huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE
    monkeypatch.setattr(
        huggingface_hub.constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        template.replace(huggingface_hub.constants.ENDPOINT, url),
    )
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Name the directory of a repository."""
    return tmp_path / "repository"


@pytest.fixture
def table(repository: Path) -> Floats:
    """Lay out a repository; its model gives each token a fixed state."""
    return write_sentence_encoder(repository)


@pytest.fixture
def hub(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """Serve the repository on the loopback interface."""
    handler = type("Handler", (Hub,), {"root": repository, "requests": []})
    with serving_http(handler) as port:
        point_at(f"http://127.0.0.1:{port}", monkeypatch)
        yield handler


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSettings:
    """Register the model and allow its download."""
    source = HubSource(repository="someone/tiny", commit=COMMIT, weights="onnx/model.onnx", size_bytes=5000)
    description = ModelDescription(
        name="tiny", kind=ModelKind.EMBEDDER, dim=8, max_tokens=32, query_prefix="w1 ", passage_prefix="w2 "
    )
    monkeypatch.setitem(MODELS, "tiny", RegisteredModel(description=description, sources=(source,)))
    return ModelSettings(cache_dir=tmp_path / "cache", embedder="tiny", allow_download=True, threads=1)


def mean_of(table: Floats, ids: list[int]) -> Floats:
    mean = table[ids].mean(axis=0)
    unit: Floats = mean / np.linalg.norm(mean)
    return unit


@pytest.mark.usefixtures("hub")
async def test_a_model_of_the_hub_is_downloaded_and_its_states_are_pooled(
    settings: ModelSettings, table: Floats
) -> None:
    async with OnnxEmbedder(settings) as embedder:
        vectors = (await embedder.embed_passages(["w5", "w7 w8 w9"])).vectors

    # [CLS] is 2, [SEP] is 3, word i is 4 + i; the prefix is the word w2
    expected = [mean_of(table, [2, 6, 9, 3]), mean_of(table, [2, 6, 11, 12, 13, 3])]
    assert vectors == pytest.approx(np.array(expected), abs=1e-6)
    assert embedder_identity(settings) == ("tiny@0123456789ab", 8)


@pytest.mark.usefixtures("table")
async def test_a_model_that_was_downloaded_needs_no_hub(settings: ModelSettings, hub: type[Hub]) -> None:
    async with OnnxEmbedder(settings):
        hub.requests.clear()

    async with OnnxEmbedder(settings.model_copy(update={"allow_download": False})) as embedder:
        assert embedder.dim == 8
    assert hub.requests == []


@pytest.mark.usefixtures("table")
async def test_only_weights_and_tokenizer_are_fetched(settings: ModelSettings, hub: type[Hub]) -> None:
    async with OnnxEmbedder(settings):
        pass

    fetched = {request.rsplit(f"{COMMIT}/", 1)[1] for request in hub.requests}
    assert fetched == {"onnx/model.onnx", "tokenizer.json"}


@pytest.mark.usefixtures("hub", "table")
async def test_a_file_that_is_not_there_is_a_mistake(settings: ModelSettings, repository: Path) -> None:
    (repository / "tokenizer.json").unlink()

    with pytest.raises(Misconfigured, match=r"cannot download someone/tiny/tokenizer\.json"):
        await OnnxEmbedder(settings).__aenter__()


@pytest.mark.usefixtures("table")
def test_what_an_export_reads_is_fetched_at_the_commit_of_a_revision(
    repository: Path, hub: type[Hub], tmp_path: Path
) -> None:
    write_hub_files(repository)
    for name in ("model.safetensors", "pytorch_model.bin", "README.md"):
        (repository / name).write_text(name)

    commit = fetch("someone/tiny", "main", tmp_path / "fetched", unseen)

    fetched = {request.rsplit(f"{COMMIT}/", 1)[1] for request in hub.requests if "/resolve/" in request}
    assert commit == COMMIT
    assert any(request.startswith("GET /api/models/someone/tiny/revision/main") for request in hub.requests)
    assert {"config.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json", "README.md"} <= fetched
    assert not {"onnx/model.onnx", "pytorch_model.bin"} & fetched


async def test_a_repository_is_fetched_only_where_downloads_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "require", lambda _: None)

    for source, message in (
        ("someone/tiny", "FREKI_MODELS__ALLOW_DOWNLOAD=true"),
        ("tiny", "is no folder, and no rep"),
    ):
        with pytest.raises(Misconfigured, match=message):
            await export_model(Request(source=source, directory=tmp_path / "out"), ModelSettings(), unseen)


async def test_a_hub_that_cannot_be_reached_may_be_there_later(
    settings: ModelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at("http://127.0.0.1:9", monkeypatch)

    with pytest.raises(Unavailable, match="cannot download someone/tiny"):
        await OnnxEmbedder(settings).__aenter__()


@pytest.mark.usefixtures("hub", "table")
async def test_a_damaged_download_is_refused_where_it_cannot_be_repeated(settings: ModelSettings) -> None:
    async with OnnxEmbedder(settings):
        pass
    next(settings.cache_dir.glob("tiny-*/tokenizer.json")).write_text("{}")

    with pytest.raises(Misconfigured, match="is damaged: set FREKI_MODELS__ALLOW_DOWNLOAD=true"):
        await OnnxEmbedder(settings.model_copy(update={"allow_download": False})).__aenter__()

    async with OnnxEmbedder(settings) as embedder:
        assert embedder.dim == 8


def local(directory: Path) -> ModelSettings:
    return ModelSettings(cache_dir=directory / "cache", embedder=str(directory), threads=1)


async def test_a_repository_on_disk_is_read_as_sentence_transformers_wrote_it(repository: Path, table: Floats) -> None:
    write_hub_files(repository)

    async with OnnxEmbedder(local(repository)) as embedder:
        assert embedder.model.manifest.max_tokens == 32
        vectors = np.concatenate(
            [(await embedder.embed_queries(["w5"])).vectors, (await embedder.embed_passages(["w5"])).vectors]
        )

    assert vectors == pytest.approx(np.array([mean_of(table, [2, 5, 9, 3]), mean_of(table, [2, 6, 9, 3])]), abs=1e-6)


async def test_a_repository_that_pools_by_its_first_token_is_pooled_so(repository: Path, table: Floats) -> None:
    write_hub_files(repository, pooling="pooling_mode_cls_token")

    async with OnnxEmbedder(local(repository)) as embedder:
        vectors = (await embedder.embed_passages(["w5"])).vectors

    assert vectors == pytest.approx(np.array([mean_of(table, [2])]), abs=1e-6)


async def test_a_fingerprint_tells_directories_with_other_weights_apart(tmp_path: Path) -> None:
    fingerprints = set()
    for seed in (1, 2):
        directory = tmp_path / f"{seed}" / "model"
        write_sentence_encoder(directory, seed=seed)
        write_hub_files(directory)
        async with OnnxEmbedder(local(directory)) as embedder:
            fingerprints.add(embedder.fingerprint)
            assert embedder_identity(local(directory)) == (embedder.fingerprint, 8)

    assert len(fingerprints) == 2


@pytest.mark.usefixtures("table")
async def test_a_way_of_pooling_that_freki_lacks_is_refused(repository: Path) -> None:
    write_hub_files(repository, pooling="pooling_mode_weightedmean_tokens")

    with pytest.raises(Misconfigured, match="does not pool by pooling_mode_weightedmean_tokens"):
        await OnnxEmbedder(local(repository)).__aenter__()


@pytest.mark.usefixtures("table")
async def test_a_description_of_another_length_is_refused(repository: Path) -> None:
    write_hub_files(repository, dim=16)

    async with OnnxEmbedder(local(repository)) as embedder:
        with pytest.raises(Misconfigured, match="gives vectors of 8 numbers, not 16"):
            await embedder.embed_passages(["w5"])


@pytest.mark.usefixtures("table")
async def test_a_module_that_freki_does_not_run_is_refused(repository: Path) -> None:
    write_hub_files(repository)
    modules = [{"type": "sentence_transformers.models.Transformer"}, {"type": "sentence_transformers.models.Dense"}]
    (repository / "modules.json").write_text(json.dumps(modules))

    with pytest.raises(Misconfigured, match="does not run the modules Dense"):
        await OnnxEmbedder(local(repository)).__aenter__()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_in_trouble_may_work_later(status: int) -> None:
    response = httpx.Response(status, request=httpx.Request("GET", "http://127.0.0.1"))

    with pytest.raises(Unavailable), _translated("cannot download"):
        raise huggingface_hub.errors.HfHubHTTPError("trouble", response=response)


NOT_OF_DOWNLOADS = {
    "InferenceEndpointError",
    "InferenceEndpointTimeoutError",
    "TextGenerationError",
    "ValidationError",
    "GenerationError",
    "OverloadedError",
    "IncompleteGenerationError",
    "UnknownError",
    "DDUFError",
    "DDUFCorruptedFileError",
    "DDUFExportError",
    "DDUFInvalidEntryNameError",
    "SafetensorsParsingError",
    "NotASafetensorsRepoError",
    "StrictDataclassError",
    "StrictDataclassDefinitionError",
    "StrictDataclassFieldValidationError",
    "StrictDataclassClassValidationError",
    "CLIError",
    "ConfirmationError",
    "CLIExtensionInstallError",
    # Raised by functions that we do not call, or about names that stand in our registry.
    "CacheNotFound",
    "CorruptedCacheException",
    "HFValidationError",
    "HfUriError",
}


def downloads_raise() -> list[type[Exception]]:
    kinds = [kind for _, kind in inspect.getmembers(huggingface_hub.errors, inspect.isclass)]
    return [
        kind
        for kind in kinds
        if issubclass(kind, Exception)
        and kind.__module__ == "huggingface_hub.errors"
        and kind.__name__ not in NOT_OF_DOWNLOADS
    ]


@pytest.mark.parametrize("kind", downloads_raise())
def test_every_error_of_a_download_is_translated(kind: type[Exception]) -> None:
    error = kind.__new__(kind)
    Exception.__init__(error, "trouble")
    error.response = httpx.Response(404)  # type: ignore[attr-defined]

    with pytest.raises(InfraError), _translated("cannot download"):
        raise error
