"""Settings of the models: embedders, rerankers and the language model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from freki.infra.settings.section import SecretFile, SettingsSection
from freki.schemas import ChunkKind

LATE_INTERACTION = "late-interaction"
"""Value of FREKI_MODELS__RERANKER for reranking by stored token vectors."""

# Names of environment variables are case-insensitive.
_Kind = Annotated[ChunkKind, BeforeValidator(str.upper)]


class ModelSettings(SettingsSection):
    """Models and their location."""

    cache_dir: Path = Field(default=Path("~/.cache/freki/models"), description="Built models")
    embedder: str = Field(default="multilingual-e5-small", description="Name in the registry, or a directory")
    embedders: Mapping[_Kind, str] = Field(
        default={},
        description="Embedders for single kinds of chunks: `FREKI_MODELS__EMBEDDERS__CODE`, or PROSE, LIST, TABLE, "
        "SUMMARY, is a name or a directory; all other kinds have FREKI_MODELS__EMBEDDER",
    )
    late_window_tokens: int = Field(
        default=0,
        ge=0,
        description="Late chunking: encode so many tokens at once and give each chunk the mean of its own; at least "
        "`FREKI_CHUNKING__MAX_TOKENS`, or 0: off",
    )
    reranker: str | None = Field(
        default=LATE_INTERACTION,
        description="`late-interaction`: by stored token vectors; or a cross-encoder after it, by its name in the "
        "registry or a directory; `none`: the order is hybrid search's",
    )
    allow_download: bool = Field(default=False, description="May models come from the Hugging Face hub?")
    threads: int = Field(
        default=0, ge=0, description="Threads a model uses, of which the embedder gives each batch one; 0: all cores"
    )
    batch_tokens: int = Field(
        default=512, ge=64, description="Most tokens of one padded batch: small ones stay in the cache of a core"
    )
    embed_cache_mb: int = Field(
        default=64, ge=0, description="Room for vectors of passages that were embedded, in MiB; 0: none are remembered"
    )

    @property
    def cross_encoder(self) -> str | None:
        """Name or directory of the chosen cross-encoder; None without one."""
        return None if self.reranker == LATE_INTERACTION else self.reranker

    @property
    def all_embedders(self) -> str:
        """Names of all embedders, for display."""
        return ", ".join([self.embedder, *(f"{name} for {kind}" for kind, name in self.apart.items())])

    @property
    def apart(self) -> dict[ChunkKind, str]:
        """Embedders of chunk kinds that differ from the default, in the order of kinds."""
        named = {kind: self.embedders.get(kind, self.embedder) for kind in ChunkKind}
        return {kind: name for kind, name in named.items() if name != self.embedder}


class RemoteRerankerSettings(SettingsSection):
    """Remote reranking service: docs/queries.md."""

    url: str | None = Field(
        default=None, description="Base URL of the service; with its version for Cohere's, as https://api.cohere.com/v2"
    )
    interface: Literal["tei", "cohere"] = Field(
        default="tei",
        description="`tei`: text-embeddings-inference; `cohere`: also Jina, vLLM, llama.cpp and others that do alike",
    )
    model: str | None = Field(default=None, description="Name of the model, with `cohere`")
    token: SecretStr | None = Field(default=None, description="Bearer token")
    token_file: SecretFile = Field(default=None, description="File that holds it")
    raw_scores: bool = Field(default=False, description="Its scores are log-odds, to be mapped to 0..1")
    timeout_s: float = Field(default=2.0, gt=0, description="Longest wait for one call")


class VertexRerankerSettings(SettingsSection):
    """Ranking API of Google's Vertex AI; exactly one of three settings provides a token."""

    project: str | None = Field(default=None, description="Project that pays; none: the service is not asked")
    location: str = Field(default="global", description="Where the configuration lies")
    config: str = Field(default="default_ranking_config", description="Name of the ranking configuration")
    model: str = Field(default="semantic-ranker-default@latest", description="Name of the model")
    url: str = Field(default="https://discoveryengine.googleapis.com", description="Base URL of the service")
    token: SecretStr | None = Field(default=None, description="Bearer token; it ends after an hour, so only to try")
    token_file: Path | None = Field(default=None, description="File that something keeps a fresh token in")
    token_command: str | None = Field(
        default=None, description="Command that prints a token, such as `gcloud auth print-access-token`"
    )
    timeout_s: float = Field(default=2.0, gt=0, description="Longest wait for one call")

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        places = ("token", "token_file", "token_command")
        given = [f"FREKI_VERTEX_RERANKER__{name.upper()}" for name in places if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set, and a token comes from one of them: leave out all others")
        return self


class LlmSettings(SettingsSection):
    """Language model with an OpenAI-compatible chat API, such as Ollama, vLLM or llama.cpp."""

    url: str | None = Field(
        default=None, description="Base URL with version, such as Ollama's http://localhost:11434/v1"
    )
    model: str | None = Field(default=None, description="Name of the model, as the server knows it")
    api_key: SecretStr | None = Field(default=None, description="Bearer token")
    api_key_file: SecretFile = Field(default=None, description="File that holds it")
    timeout_s: float = Field(default=60.0, gt=0, description="Longest wait for one answer, all attempts together")
    at_once: int = Field(default=2, ge=1, le=256, description="Calls under way at once, of each worker")
    answer_tokens: int = Field(
        default=1000,
        ge=0,
        description="Most tokens of an answer that `freki serve` has written, thoughts included; 0: none is written",
    )
    max_tokens_day: int = Field(
        default=10_000_000, ge=0, description="Most tokens a day (UTC) of all workers that share `ledger`; 0: any"
    )
    ledger: Path = Field(default=Path(".freki/llm-tokens"), description="File that counts the tokens of the day")
