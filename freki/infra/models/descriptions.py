"""Descriptions of models: what must be known to obtain, check and run one."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class ModelKind(StrEnum):
    """What a model is for."""

    EMBEDDER = "embedder"
    RERANKER = "reranker"


class Architecture(StrEnum):
    """How a reranker reads query and text."""

    CROSS_ENCODER = "cross-encoder"
    """Together, as one input."""
    MATCHING = "matching"
    """Apart; their tokens are compared afterwards."""


class Pooling(StrEnum):
    """How the states of tokens become one vector, where the graph leaves that to us."""

    MEAN = "mean"
    CLS = "cls"


class ModelDescription(BaseModel):
    """What must be known to run a model; `manifest.json` in its directory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    kind: ModelKind
    dim: int | None = Field(default=None, ge=1)
    """Length of a vector; None for a reranker."""
    max_tokens: int = Field(ge=8)
    """Longest input, special tokens included."""
    architecture: Architecture = Architecture.CROSS_ENCODER
    """Of a reranker."""
    pooling: Pooling = Pooling.MEAN
    query_prefix: str = ""
    passage_prefix: str = ""
    licence: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVector:
    """The first numbers of a query's vector, as others than our code computed them."""

    text: str
    leading: tuple[float, ...]
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownScore:
    """What a reranker says of a pair, as a logit, as others than our code computed it."""

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
    """Names what `build.py` makes of the weights: another recipe gives other vectors."""
    layers: int | None = None
    """For a reranker that matches tokens: how many of the lowest layers it needs."""
    known: tuple[KnownVector, ...] = ()

    @property
    def revision(self) -> str:
        """What tells vectors of this source from those of others."""
        return f"{self.package}-{self.version}-{self.recipe}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """An ONNX export on the Hugging Face hub."""

    repository: str
    commit: str
    weights: str
    size_bytes: int
    """About what is downloaded."""
    known: tuple[KnownVector | KnownScore, ...] = ()

    @property
    def revision(self) -> str:
        """What tells vectors of this source from those of others."""
        return self.commit[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledSource:
    """Weights that come with Freki."""

    file: str
    """Beside this module."""
    sha256: str
    recipe: str
    """Names what `build.py` makes of the weights."""
    known: tuple[KnownVector, ...] = ()

    @property
    def revision(self) -> str:
        """What tells vectors of this source from those of others."""
        return f"bundled-{self.recipe}"


Source = WheelSource | BundledSource | HubSource


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """A model that can be chosen by its name."""

    description: ModelDescription
    sources: tuple[Source, ...]
    """In the order in which they are tried."""
    companion: str | None = None
    """Name of an embedder that a reranker asks too."""

    def fingerprint(self, source: Source) -> str:
        """Name the model as made from a source."""
        return f"{self.description.name}@{source.revision}"
