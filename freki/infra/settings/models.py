"""Settings of the models: embedders, rerankers and the language model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, SecretStr, model_validator

from freki.infra.settings.section import SecretFile, ServerUrl, SettingsSection, check_command
from freki.schemas import ChunkKind

LATE_INTERACTION = "late-interaction"
"""Value of FREKI_MODELS__RERANKER for reranking by stored token vectors."""

# Names of environment variables are case-insensitive.
_Kind = Annotated[ChunkKind, BeforeValidator(str.upper)]


REMOTE = "remote"
"""Value of FREKI_MODELS__EMBEDDER for the service of FREKI_MODELS__REMOTE__…"""


class RemoteEmbedderSettings(SettingsSection):
    """Embedding service, with FREKI_MODELS__EMBEDDER=remote; `docs/embedders.md` explains it."""

    url: ServerUrl | None = Field(
        default=None,
        description="Base URL; with its version for OpenAI's and Cohere's, as https://api.openai.com/v1",
    )
    interface: Literal["openai", "tei", "cohere", "ollama"] = Field(
        default="openai",
        description="`openai`: also vLLM, llama.cpp, LiteLLM; `tei`: text-embeddings-inference; `cohere`; `ollama`",
    )
    model: str | None = Field(default=None, description="Name of the model, as the service knows it; not for `tei`")
    revision: str = Field(
        default="1", pattern=r"^[\w.-]{1,40}$", description="Change it when the service changes the model's vectors"
    )
    dim: int | None = Field(default=None, ge=1, le=32_768, description="Length of its vectors")
    max_tokens: int = Field(default=512, ge=8, description="Maximum number of tokens of a text that it reads")
    tokenizer: Path | None = Field(
        default=None, description="Its `tokenizer.json`, to size chunks by; none: tokens of multilingual-e5-small count"
    )
    query_prefix: str = Field(default="", description="Before each query, such as `query: `")
    passage_prefix: str = Field(default="", description="Before each passage")
    token: SecretStr | None = Field(default=None, description="Bearer token")
    token_file: SecretFile = Field(default=None, description="File that holds it")
    fallback_urls: tuple[ServerUrl, ...] = Field(
        default=(), description="Further base URLs of the same model, as JSON; asked where the first does not answer"
    )
    batch_texts: int = Field(default=32, ge=1, le=2048, description="Maximum number of texts of one call")
    at_once: int = Field(default=4, ge=1, le=256, description="Calls under way at once")
    attempts: int = Field(default=3, ge=1, le=10, description="Attempts of a call, with growing pauses")
    timeout_s: float = Field(default=30.0, gt=0, description="Longest wait for one attempt")
    price_per_million: float = Field(
        default=0.0,
        ge=0,
        description="Price of a million tokens, in any currency, for the metric `freki_model_cost_total`",
    )


class ModelSettings(SettingsSection):
    """Models and their location."""

    cache_dir: Path = Field(
        default=Path("~/.cache/freki/models"), description="Built models, and vectors of the examples of query types"
    )
    embedder: str = Field(
        default="multilingual-e5-small",
        description="Name in the registry, a directory, or `remote`: the service of `FREKI_MODELS__REMOTE__URL`",
    )
    remote: RemoteEmbedderSettings = RemoteEmbedderSettings()
    providers: tuple[str, ...] = Field(
        default=("CPUExecutionProvider",),
        description='Execution providers of onnxruntime, best first, as JSON: `["CUDAExecutionProvider", '
        '"CPUExecutionProvider"]` with onnxruntime-gpu; all must be there',
    )
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
        default=0,
        ge=0,
        le=1024,
        description="Threads a model uses, of which the embedder gives each batch one; 0: one for each core that the "
        "process may use, in a container up to its limit",
    )
    batch_tokens: int = Field(
        default=512,
        ge=64,
        description="Maximum number of tokens of one padded batch: small ones stay in the cache of a core",
    )
    embed_cache_mb: int = Field(
        default=64, ge=0, description="Room for vectors of passages that were embedded, in MiB; 0: none are remembered"
    )

    @model_validator(mode="after")
    def _check_remote(self) -> Self:
        needed = {"URL": self.remote.url, "DIM": self.remote.dim}
        if self.remote.interface != "tei":
            needed["MODEL"] = self.remote.model
        missing = [f"FREKI_MODELS__REMOTE__{name}" for name, value in needed.items() if value is None]
        if self.embedder == REMOTE and missing:
            raise ValueError(f"FREKI_MODELS__EMBEDDER=remote needs {' and '.join(missing)}: set it")
        if self.embedder == REMOTE and self.late_window_tokens:
            raise ValueError(
                "FREKI_MODELS__LATE_WINDOW_TOKENS needs a model in this process, and FREKI_MODELS__EMBEDDER=remote is "
                "none: set it to 0"
            )
        if REMOTE in self.embedders.values():
            raise ValueError("FREKI_MODELS__EMBEDDERS: `remote` embeds all kinds or none; name it as the only embedder")
        if self.embedder == REMOTE and self.kind_embedders:
            raise ValueError(
                "FREKI_MODELS__EMBEDDERS beside FREKI_MODELS__EMBEDDER=remote is not possible: leave it out"
            )
        return self

    @property
    def cross_encoder(self) -> str | None:
        """Name or directory of the chosen cross-encoder; None without one."""
        return None if self.reranker == LATE_INTERACTION else self.reranker

    @property
    def all_embedders(self) -> str:
        """Names of all embedders, for display."""
        default = f"{self.remote.model or self.remote.url} (remote)" if self.embedder == REMOTE else self.embedder
        return ", ".join([default, *(f"{name} for {kind}" for kind, name in self.kind_embedders.items())])

    @property
    def kind_embedders(self) -> dict[ChunkKind, str]:
        """Embedders of chunk kinds that differ from the default, in the order of kinds."""
        named = {kind: self.embedders.get(kind, self.embedder) for kind in ChunkKind}
        return {kind: name for kind, name in named.items() if name != self.embedder}


class RemoteRerankerSettings(SettingsSection):
    """Remote reranking service: docs/queries.md."""

    url: ServerUrl | None = Field(
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
    url: ServerUrl = Field(default="https://discoveryengine.googleapis.com", description="Base URL of the service")
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
        check_command("VERTEX_RERANKER__TOKEN_COMMAND", self.token_command)
        return self


def _sendable(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        # Environment and TOML can say NaN, infinity and half of a character; no request can.
        raise ValueError(
            "FREKI_LLM__EXTRA_BODY has NaN, infinity or a lone surrogate, which no request can have: leave it out"
        ) from error
    if own := sorted(_OWN_FIELDS & fields.keys()):
        raise ValueError(f"FREKI_LLM__EXTRA_BODY: Freki sets {', '.join(own)} itself; leave it out")
    return fields


_OWN_FIELDS = {"model", "messages", "max_tokens", "temperature", "stream", "stream_options", "n"}


class LlmSettings(SettingsSection):
    """Language model with an OpenAI-compatible chat API, such as Ollama, vLLM or llama.cpp."""

    url: ServerUrl | None = Field(
        default=None, description="Base URL with version, such as Ollama's http://localhost:11434/v1"
    )
    model: str | None = Field(default=None, description="Name of the model, as the server knows it")
    api_key: SecretStr | None = Field(default=None, description="Bearer token")
    api_key_file: SecretFile = Field(default=None, description="File that holds it")
    extra_body: Annotated[dict[str, JsonValue], AfterValidator(_sendable)] = Field(
        default={},
        description="Further fields of each request, such as those that switch off thinking: docs/contexts.md",
    )
    timeout_s: float = Field(default=60.0, gt=0, description="Longest wait for one answer, all attempts together")
    at_once: int = Field(default=2, ge=1, le=256, description="Calls under way at once, of each worker")
    answer_tokens: int = Field(
        default=1000,
        ge=0,
        description="Maximum number of tokens of an answer written for `freki serve`, thoughts included; 0: none",
    )
    max_tokens_day: int = Field(
        default=10_000_000,
        ge=0,
        description="Maximum number of tokens a day (UTC) of all workers that share `ledger`; 0: any",
    )
    ledger: Path = Field(default=Path(".freki/llm-tokens"), description="File that counts the tokens of the day")
