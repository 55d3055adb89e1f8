"""Descriptions of models: the data needed to obtain, check and run them."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class ModelKind(StrEnum):
    """Purpose of a model."""

    EMBEDDER = "embedder"
    RERANKER = "reranker"


class Pooling(StrEnum):
    """Pooling of token states into one vector, where the graph does not include it."""

    MEAN = "mean"
    CLS = "cls"


class ModelDescription(BaseModel):
    """The data needed to run a model; `manifest.json` in its directory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    kind: ModelKind
    dim: int | None = Field(default=None, ge=1)
    """Dimension of vectors; None for a reranker."""
    max_tokens: int = Field(ge=8)
    """Maximum tokens of the input, including special ones."""
    pooling: Pooling = Pooling.MEAN
    query_prefix: str = ""
    passage_prefix: str = ""
    licence: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVector:
    """The first components of the vector of a query, from an independent implementation."""

    text: str
    leading: tuple[float, ...]
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownScore:
    """The logit of a pair, from an independent implementation."""

    query: str
    text: str
    logit: float
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSource:
    """Weights inside an installed Python package."""

    package: str
    version: str
    file: str
    sha256: str
    recipe: str
    """Version of the build in `build.py`; another recipe gives other vectors."""
    late_interaction: str | None = None
    """File of the heads for late interaction, in the directory of this module."""
    known: tuple[KnownVector, ...] = ()

    @property
    def revision(self) -> str:
        """Identifier that distinguishes vectors of this source from those of others."""
        return f"{self.package}-{self.version}-{self.recipe}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """An ONNX export on the Hugging Face hub."""

    repository: str
    commit: str
    weights: str
    size_bytes: int
    """Approximate size of the download."""
    known: tuple[KnownVector | KnownScore, ...] = ()

    @property
    def revision(self) -> str:
        """Identifier that distinguishes vectors of this source from those of others."""
        return self.commit[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledSource:
    """Weights bundled with Freki."""

    file: str
    """File name in the directory of this module."""
    sha256: str
    recipe: str
    """Version of the build in `build.py`."""
    known: tuple[KnownVector, ...] = ()

    @property
    def revision(self) -> str:
        """Identifier that distinguishes vectors of this source from those of others."""
        return f"bundled-{self.recipe}"


Source = WheelSource | BundledSource | HubSource


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """A model that can be chosen by its name."""

    description: ModelDescription
    sources: tuple[Source, ...]
    """Sources in the order in which they are tried."""

    def fingerprint(self, source: Source) -> str:
        """Return the fingerprint of the model from a source."""
        return f"{self.description.name}@{source.revision}"
