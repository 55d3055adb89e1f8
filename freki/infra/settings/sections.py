"""All settings, read once from the environment and `freki.toml`. `setting_sources.py` alone reads the environment."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from freki.infra.settings.sources import Environment, File
from freki.schemas import ChunkKind, Widening, WidenWhen

NONE = "none"
"""The word for no value: an empty one counts as not set."""
_NOTHING: Mapping[object, object] = {tuple: (), Mapping: {}}


_MARK = "names a file that holds another setting"
SecretFile = Annotated[Path | None, _MARK]
"""Names a file that holds the secret of the same name without `_file`, as Docker and Kubernetes hand them over."""
SECRET_TWICE, SECRET_UNUSABLE = "secret_twice", "secret_unusable"
"""What is wrong with one, where pydantic is told of it."""


class _Clearable(BaseModel):
    """Settings that may be set to `none`: optional ones but for secrets, which may read so, lists and tables."""

    @model_validator(mode="before")
    @classmethod
    def _clear(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        return {
            name: _nothing_of(cls.model_fields[name].annotation, value)
            if name in cls.model_fields and isinstance(value, str) and value.lower() == NONE
            else value
            for name, value in values.items()
        }


def _nothing_of(annotation: Any, word: str) -> object:  # noqa: ANN401 - any type
    """Give what `none` means for a setting of a type; the word itself where it means nothing special."""
    kinds = get_args(annotation)
    if type(None) in kinds and SecretStr not in kinds:
        return None
    return _NOTHING.get(get_origin(annotation), word)


class Section(_Clearable):
    """Part of the settings that belongs to one adapter or stage."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _read_secrets(cls, values: object) -> object:
        """Put what the files of secrets hold in their place."""
        if not isinstance(values, dict):
            return values
        files = {name: values[name] for name in cls.model_fields.keys() & values.keys() if cls._names_secret(name)}
        given = {name: Path(path) for name, path in files.items() if path and str(path).lower() != NONE}
        for name in given:
            if values.get(secret_of(name)) is not None:
                raise PydanticCustomError(SECRET_TWICE, "a secret comes from one place", {"setting": name})
        others = {name: value for name, value in values.items() if name not in given}
        return others | {secret_of(name): _read_secret(name, path) for name, path in given.items()}

    @classmethod
    def _names_secret(cls, name: str) -> bool:
        return _MARK in cls.model_fields[name].metadata


def secret_of(name: str) -> str:
    """Return the secret that a setting names the file of."""
    return name.removesuffix("_file")


def _read_secret(name: str, path: Path) -> str:
    try:
        # Editors and `echo` end a file with a line break, which is part of no password.
        text = path.expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise _unusable(name, f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _unusable(name, f"{path} is not UTF-8") from error
    if not text:
        raise _unusable(name, f"{path} is empty")
    return text


def _unusable(name: str, problem: str) -> PydanticCustomError:
    return PydanticCustomError(SECRET_UNUSABLE, "{problem}", {"setting": name, "problem": problem})


def _in_order(settings: Mapping[str, float], *, strictly: bool = False) -> None:
    """Raise ValueError, naming both settings and the fix, where one is above the next; `strictly`: or equal to it."""
    for (low, least), (high, most) in pairwise(settings.items()):
        if least > most or (strictly and least == most):
            how = "not below" if strictly else "above"
            raise ValueError(f"FREKI_{low}={least} is {how} FREKI_{high}={most}: lower the first or raise the second")


class OAuthSettings(Section):
    """Where tokens for SASL's OAUTHBEARER come from: one of an identity provider, a file, or a command."""

    token_url: str | None = Field(
        default=None, description="With OAUTHBEARER: where the identity provider gives tokens for client credentials"
    )
    client_id: str | None = Field(default=None, description="Who asks it for a token")
    client_secret: SecretStr | None = Field(default=None, description="And proves it so")
    client_secret_file: SecretFile = Field(default=None, description="File that holds it")
    scope: str | None = Field(default=None, description="What the token is for, if the provider asks")
    token_file: Path | None = Field(
        default=None, description="With OAUTHBEARER: file that something keeps a fresh token in"
    )
    token_command: str | None = Field(default=None, description="With OAUTHBEARER: command that prints a token")
    extensions: Mapping[str, str] = Field(
        default={}, description="SASL extensions that the broker asks for, such as Confluent's `logicalCluster`"
    )
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for a token")

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        places = ("token_url", "token_file", "token_command")
        given = [f"FREKI_KAFKA__OAUTH__{name.upper()}" for name in places if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set, and a token comes from one of them: leave out all others")
        if self.token_url is not None and (self.client_id is None or self.client_secret is None):
            raise ValueError(
                "FREKI_KAFKA__OAUTH__TOKEN_URL gives tokens to those it knows: set FREKI_KAFKA__OAUTH__CLIENT_ID and"
                " FREKI_KAFKA__OAUTH__CLIENT_SECRET"
            )
        return self


class KafkaSettings(Section):
    """How to reach the broker."""

    bootstrap: str = Field(default="127.0.0.1:9092", description="host:port of the brokers, separated by commas")
    profile: Literal["local", "kafka"] = Field(
        default="kafka", description="Timeouts: `local` for the broker of `freki up`, `kafka` for Apache Kafka"
    )
    topic_prefix: str = Field(default="freki", description="First part of every topic name")
    topic_version: int = Field(default=1, ge=1, description="Last part of every topic name")
    partitions: int = Field(default=4, ge=1, le=1000, description="Partitions of each topic when created")
    replication: int = Field(default=1, ge=1, description="Replicas of each topic when created")
    max_message_bytes: int = Field(
        default=5_000_000, ge=100_000, description="Largest record: a question of a million characters"
    )
    delivery_timeout_s: float = Field(default=30.0, gt=0, description="Longest wait for the broker to take a record")
    security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="How to speak with the brokers"
    )
    ca_file: Path | None = Field(default=None, description="PEM file of the authority that signed the brokers")
    cert_file: Path | None = Field(default=None, description="PEM file of our own certificate (mutual TLS)")
    key_file: Path | None = Field(default=None, description="PEM file of its key")
    key_password: SecretStr | None = Field(default=None, description="Password of the key, if it is encrypted")
    key_password_file: SecretFile = Field(default=None, description="File that holds it")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="SCRAM-SHA-512", description="With SASL: how to prove who we are"
    )
    username: str | None = Field(default=None, description="With SASL, but not with OAUTHBEARER")
    password: SecretStr | None = Field(default=None, description="With SASL, but not with OAUTHBEARER")
    password_file: SecretFile = Field(default=None, description="File that holds it")
    oauth: OAuthSettings = OAuthSettings()

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError(
                "FREKI_KAFKA__KEY_FILE is the key of no certificate: set FREKI_KAFKA__CERT_FILE too, or neither"
            )
        return self


class RegistrySettings(Section):
    """Avro framing: single-object encoding without a registry, Confluent wire format with one."""

    url: str | None = Field(default=None, description="Base URL of a Confluent-compatible schema registry")
    username: str | None = Field(default=None, description="For basic authentication")
    password: SecretStr | None = Field(default=None, description="For basic authentication")
    password_file: SecretFile = Field(default=None, description="File that holds it")
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one call")


class MilvusSettings(Section):
    """How to reach the store."""

    uri: str = Field(default="http://127.0.0.1:19530", description="URI of Milvus")
    token: SecretStr | None = Field(default=None, description="`user:password` or API key")
    token_file: SecretFile = Field(default=None, description="File that holds it")
    database: str = Field(default="default", description="Database of Milvus")
    generation: str = Field(default="g1", pattern=r"^[a-z0-9_]{1,32}$", description="Which index to use")
    collection_prefix: str = Field(
        default="freki", pattern=r"^[a-z][a-z0-9_]{0,31}$", description="First part of every collection's name"
    )
    timeout_s: float = Field(default=10.0, gt=0, description="Longest wait for one call")
    partition_key: bool = Field(default=False, description="Partition rows by tenant; not on the local store")


# Variables of the environment have names without case.
_Kind = Annotated[ChunkKind, BeforeValidator(str.upper)]


class ModelSettings(Section):
    """Which models, and where they lie."""

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
        default="freki-reranker-1",
        description="Name in the registry, or a directory; `none`: the order is hybrid search's",
    )
    allow_download: bool = Field(default=False, description="May models come from the Hugging Face hub?")
    threads: int = Field(default=0, ge=0, description="Threads a model uses; 0: all cores")
    batch_tokens: int = Field(default=2048, ge=512, description="Most tokens of one padded batch")
    embed_cache_mb: int = Field(
        default=64, ge=0, description="Room for vectors of passages that were embedded, in MiB; 0: none are remembered"
    )
    rerank_cache_mb: int = Field(
        default=64, ge=0, description="Room for texts that the reranker has read, in MiB for each of its two models"
    )

    @property
    def all_embedders(self) -> str:
        """Name them for people."""
        return ", ".join([self.embedder, *(f"{name} for {kind}" for kind, name in self.apart.items())])

    @property
    def apart(self) -> dict[ChunkKind, str]:
        """Kinds that have an embedder for themselves, in the order of kinds; not those that name the default."""
        named = {kind: self.embedders.get(kind, self.embedder) for kind in ChunkKind}
        return {kind: name for kind, name in named.items() if name != self.embedder}


class RemoteRerankerSettings(Section):
    """A ranking service: docs/queries.md."""

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


class VertexRerankerSettings(Section):
    """The ranking API of Google's Vertex AI; a token comes from one of three settings."""

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


class ClaimSettings(Section):
    """Where text lies that is too large for a record."""

    directory: str = Field(default=".freki/claims", description="Directory or URL that `freki publish` writes to")
    allowed: tuple[str, ...] = Field(
        default=(), description="URL prefixes that workers read besides `directory`, such as s3://bucket/docs/"
    )
    inline_bytes: int = Field(
        default=600_000, ge=0, description="Content up to this size travels in the record; more goes to `directory`"
    )
    max_bytes: int = Field(default=64_000_000, ge=1, description="Largest content that a worker loads")


class ParsingSettings(Section):
    """What parsing a document may take. It happens in processes of its own, so that no file can harm a worker."""

    processes: int = Field(default=1, ge=1, le=64, description="Processes that parse, for each worker that chunks")
    timeout_s: float = Field(default=60.0, gt=0, description="Longest time for a document; one over it is rejected")
    max_memory_mb: int = Field(
        default=1024, ge=256, description="Most address space of such a process, in MiB; not held on macOS"
    )
    max_pages: int = Field(default=5000, ge=1, description="Most pages of a PDF")
    max_unpacked_mb: int = Field(default=64, ge=1, description="Most that an Office file holds when unpacked, in MiB")

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        sizes = {"PARSING__MAX_UNPACKED_MB": self.max_unpacked_mb, "PARSING__MAX_MEMORY_MB": self.max_memory_mb}
        _in_order(sizes, strictly=True)
        return self


class ChunkProfile(Section):
    """Sizes for one kind of document."""

    max_chars: int = Field(ge=100, description="Most characters of a chunk")
    overlap_chars: int = Field(ge=0, description="Characters of the text before it that a chunk remembers")


class ChunkingSettings(Section):
    """How documents are split."""

    min_tokens: int = Field(default=30, ge=1, description="Smaller neighbours within a section are joined")
    max_tokens: int = Field(default=256, ge=32, description="Most tokens of a chunk")
    least_similarity: float | None = Field(
        default=None,
        ge=-1,
        le=1,
        description="Cut long prose where neighbouring sentences are less similar, by vectors; none: at paragraphs",
    )
    max_characters: int = Field(default=20_000_000, ge=1, description="Longest document")
    part_chunks: int = Field(default=64, ge=1, le=512, description="Most chunks of one ChunkBatch")
    pdf: ChunkProfile = ChunkProfile(max_chars=1000, overlap_chars=150)
    text: ChunkProfile = ChunkProfile(max_chars=800, overlap_chars=120)
    markdown: ChunkProfile = ChunkProfile(max_chars=1200, overlap_chars=150)
    html: ChunkProfile = ChunkProfile(max_chars=1200, overlap_chars=50)
    code: ChunkProfile = ChunkProfile(max_chars=600, overlap_chars=80)
    docx: ChunkProfile = ChunkProfile(max_chars=800, overlap_chars=120)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: object) -> object:
        """Keep the usual size where only the other one of a profile is set."""
        if not isinstance(values, dict):
            return values
        usual = {name: field.default for name, field in cls.model_fields.items() if field.annotation is ChunkProfile}
        return {
            name: {**usual[name].model_dump(), **value} if name in usual and isinstance(value, dict) else value
            for name, value in values.items()
        }

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        _in_order({"CHUNKING__MIN_TOKENS": self.min_tokens, "CHUNKING__MAX_TOKENS": self.max_tokens})
        for name, profile in self.profiles.items():
            sizes = {"OVERLAP_CHARS": profile.overlap_chars, "MAX_CHARS": profile.max_chars}
            _in_order({f"CHUNKING__{name.upper()}__{size}": value for size, value in sizes.items()}, strictly=True)
        return self

    @property
    def profiles(self) -> dict[str, ChunkProfile]:
        """The sizes of all kinds of documents."""
        return {name: value for name, value in self if isinstance(value, ChunkProfile)}


class LlmSettings(Section):
    """A language model behind the chat interface of OpenAI, as Ollama, vLLM, llama.cpp and others serve it."""

    url: str | None = Field(
        default=None, description="Base URL with version, such as Ollama's http://localhost:11434/v1"
    )
    model: str | None = Field(default=None, description="Name of the model, as the server knows it")
    api_key: SecretStr | None = Field(default=None, description="Bearer token")
    api_key_file: SecretFile = Field(default=None, description="File that holds it")
    timeout_s: float = Field(default=60.0, gt=0, description="Longest wait for one answer, all attempts together")
    at_once: int = Field(default=2, ge=1, le=256, description="Calls under way at once, of each worker")
    max_tokens_day: int = Field(
        default=10_000_000, ge=0, description="Most tokens a day (UTC) of all workers that share `ledger`; 0: any"
    )
    ledger: Path = Field(default=Path(".freki/llm-tokens"), description="File that counts the tokens of the day")


class ContextSettings(Section):
    """What is embedded with a chunk besides its headings, and never cited: docs/contexts.md."""

    definitions: bool = Field(
        default=False, description="Explain abbreviations that a chunk uses, as the document does elsewhere"
    )
    llm: bool = Field(default=False, description="Let the language model situate each chunk in its document")
    summaries: bool = Field(default=False, description="Let it summarise documents and sections")
    batch_chunks: int = Field(default=5, ge=1, le=50, description="Chunks situated by one call")
    min_chars: int = Field(default=50, ge=0, description="Shorter chunks are left alone")
    document_chars: int = Field(
        default=8000, ge=500, le=100_000, description="Beginning of the document that the model reads with each call"
    )
    max_tokens_document: int = Field(
        default=500_000, ge=0, description="Most tokens of the language model for one version of a document; 0: any"
    )


class LexicalSettings(Section):
    """What BM25 counts."""

    analyser: Literal["freki", "plain"] = Field(
        default="freki",
        description="`freki` stems, splits compounds, knows forms such as § 535; `plain` is to compare with",
    )


class IngestSettings(Section):
    """How the ingest stages batch."""

    batch_events: int = Field(default=32, ge=1, description="Most events handled together")
    batch_wait_s: float = Field(default=0.02, ge=0, description="How long a batch waits to fill")
    slice_tokens: int = Field(default=8192, ge=512, description="Tokens embedded before the next commits")
    deleted_retention_days: float = Field(
        default=30,
        ge=7,
        description="How long a deletion is remembered: no shorter than older changes may wait in topics, 7 days",
    )


class ContextProfile(Section):
    """What a model that reads the context can take."""

    context_tokens: int = Field(ge=50, description="Most tokens of the context text")
    hits: int = Field(ge=1, le=200, description="How many hits")
    min_similarity: float = Field(default=0.0, description="Least similarity of a hit")
    tokenizer: Path | None = Field(
        default=None, description="`tokenizer.json` of that model, which counts the tokens; none: the embedder's"
    )


PROFILES: Mapping[str, ContextProfile] = {
    "phi3": ContextProfile(context_tokens=800, hits=3, min_similarity=0.4),
    "1b": ContextProfile(context_tokens=800, hits=3, min_similarity=0.4),
    "default": ContextProfile(context_tokens=2000, hits=5, min_similarity=0.3),
    "70b": ContextProfile(context_tokens=4000, hits=10, min_similarity=0.25),
    "72b": ContextProfile(context_tokens=4000, hits=10, min_similarity=0.25),
}
"""Those that need no setting."""


class RetrievalSettings(Section):
    """Defaults of a query's options."""

    top_k: int = Field(default=8, ge=1, le=200, description="How many hits")
    hybrid_alpha: float | None = Field(
        default=None, ge=0, le=1, description="Weight of dense search; none: less the better the words match"
    )
    keyword_alpha: float = Field(default=0.4, ge=0, le=1, description="The same for queries of up to 3 words")
    lexical_pivot: float = Field(
        default=60, gt=0, description="BM25 score of the best match at which both searches weigh the same"
    )
    fusion: Literal["WEIGHTED", "RRF", "ZSCORE", "TMM", "ARCTAN"] = Field(
        default="WEIGHTED", description="How rankings become one"
    )
    rrf_k: int = Field(default=60, ge=1, description="k of reciprocal rank fusion")
    reranker: Literal["AUTO", "REMOTE", "VERTEX", "LOCAL", "LLM", "COSINE", "NONE"] = Field(
        default="AUTO", description="Which reranker is asked first: docs/queries.md"
    )
    widen: tuple[Widening, ...] = Field(
        default=(Widening.SPELLING,), description="Kinds of further searches: docs/queries.md"
    )
    widen_llm_s: float = Field(default=2.0, gt=0, description="Longest wait for a language model that rephrases")
    widen_when: WidenWhen = Field(default=WidenWhen.WEAK, description="When: always, or where the first one looks weak")
    rerank_candidates: int = Field(default=16, ge=0, le=500, description="How many candidates are rescored")
    usual_blend: float = Field(
        default=0.0, ge=0, le=1000, description="Log-odds that a fused score of 1 adds to the reranker's, in the order"
    )
    exact_blend: float = Field(
        default=4.0, ge=0, le=1000, description="The same for questions that name a norm, such as § 573c"
    )
    fold_at: float = Field(
        default=1.0, ge=0, le=1, description="Likeness from which on candidates count as one; 1: the same text"
    )
    per_document: int = Field(default=0, ge=0, le=200, description="Most hits of one document; 0: any number")
    mmr_lambda: float = Field(default=0.7, ge=0, le=1, description="1 is relevance only, 0 is diversity only")
    min_score: float = Field(default=0.0, description="Least score of a hit")
    parents: bool = Field(default=True, description="Give each hit the section around it")
    neighbours: int = Field(default=1, ge=0, le=10, description="Chunks before and after each hit")
    context_tokens: int = Field(default=2000, ge=50, description="Most tokens of the context text")
    citations: Literal["QUELLE", "DOCUMENT"] = Field(default="QUELLE", description="Form of citations")
    exact: bool = Field(default=True, description="Must hits hold what the question quotes, where any candidate does?")
    prototypes: bool = Field(default=True, description="Type questions that no rule knows by questions near to them?")
    profiles: Mapping[str, ContextProfile] = Field(
        default={}, description="Profiles for `target_model`, besides or instead of those in docs/queries.md"
    )
    min_similarity: float | None = Field(
        default=None, description="Least similarity of a hit: 0 as any two texts, 1 as answer and question; none: any"
    )
    expand_documents: int = Field(
        default=0, ge=0, le=10, description="Of how many of the best documents to show further chunks; 0: of none"
    )
    expand_chunks: int = Field(default=20, ge=0, le=100, description="Most further chunks of each")
    expand_similarity: float = Field(default=0.3, description="Least similarity of a further chunk")
    unrelated_cosine: float = Field(
        default=0.74, ge=-1, le=1, description="Similarity 0: the embedder's cosine of a question and any text"
    )
    related_cosine: float = Field(
        default=0.87, ge=-1, le=1, description="Similarity 1: its cosine of a question and its answer"
    )
    deadline_ms: int = Field(default=5000, ge=1, description="For queries that name none")
    max_query_chars: int = Field(default=1_000_000, ge=1, description="Longest question")
    strong: bool = Field(default=True, description="Strong consistency for every search")
    reply_topics: tuple[str, ...] = Field(default=(), description="Topics that queries may name in `reply_to`")
    batch_queries: int = Field(default=16, ge=1, description="Most queries answered together")
    batches: int = Field(default=4, ge=1, description="Most such batches at a time: a new one waits for no other")
    feedback: float = Field(
        default=0.0, ge=0, le=1, description="Most that judgements of users move a score; needs `FREKI_FEEDBACK__READ`"
    )
    cache_mb: int = Field(
        default=0,
        ge=0,
        description="Room for answers, candidates and vectors of questions asked again, in MiB; 0: none",
    )
    cache_s: float = Field(default=60, gt=0, description="Longest that any of these is kept")

    @model_validator(mode="after")
    def _check_scale(self) -> Self:
        """Similarity is 0 at one cosine and 1 at the other, and no cosine is above 1."""
        unrelated, related = self.unrelated_cosine, self.related_cosine
        _in_order({"RETRIEVAL__UNRELATED_COSINE": unrelated, "RETRIEVAL__RELATED_COSINE": related}, strictly=True)
        highest = (1 - unrelated) / (related - unrelated)
        least = {
            f"PROFILES__{name.upper()}__MIN_SIMILARITY": each.min_similarity for name, each in self.profiles.items()
        }
        least |= {"MIN_SIMILARITY": self.min_similarity or 0.0, "EXPAND_SIMILARITY": self.expand_similarity}
        for name, similarity in least.items():
            if similarity > highest:
                raise ValueError(
                    f"FREKI_RETRIEVAL__{name}={similarity} is more than any text has: the most is {highest:.3g}, by "
                    "FREKI_RETRIEVAL__UNRELATED_COSINE and FREKI_RETRIEVAL__RELATED_COSINE; lower it"
                )
        return self


class FeedbackSettings(Section):
    """Judgements of users, as far as they move later rankings: docs/queries.md."""

    read: bool = Field(default=False, description="Do workers that answer read the topic of judgements?")
    most: int = Field(default=20_000, ge=1, description="Most judgements that a worker keeps: 2 kB each, the latest")
    most_of_judge: int = Field(default=500, ge=1, description="Most of one judge, the latest")
    half_life_days: float = Field(default=90.0, gt=0, description="After so long a judgement counts half")
    least_cosine: float = Field(
        default=0.9, ge=-1, lt=1, description="Questions whose vectors are less alike say nothing of each other"
    )

    @model_validator(mode="after")
    def _check_most(self) -> Self:
        _in_order({"FEEDBACK__MOST_OF_JUDGE": self.most_of_judge, "FEEDBACK__MOST": self.most})
        return self


class TelemetrySettings(Section):
    """Where traces, metrics and logs go."""

    otlp_endpoint: str | None = Field(default=None, description="OTLP/HTTP base URL, such as http://localhost:4318")
    otlp_metrics: bool = Field(default=True, description="Send metrics there too; some take traces only")
    trace_dir: Path | None = Field(default=None, description="Directory for traces as JSON lines")
    trace_share: float = Field(default=1.0, ge=0, le=1, description="Share of traces that are kept, 0..1")
    content: bool = Field(default=False, description="May traces hold text of questions and documents?")
    service_name: str = Field(default="freki", description="First part of the service name in traces")
    http_host: str = Field(default="127.0.0.1", description="Where a worker listens for `/metrics` and `/health`")
    http_port: int | None = Field(
        default=None, ge=0, le=65535, description="Port of `/metrics` and `/health`; 0: a free one; none: not served"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="Least level logged")
    log_format: Literal["console", "json"] = Field(default="console", description="For people, or for machines")


class CrawlSettings(Section):
    """How `freki crawl` reads the web."""

    user_agent: str = Field(
        default="Mozilla/5.0 (compatible; freki/0.1)", description="How servers see us; robots.txt knows us as `freki`"
    )
    delay_s: float = Field(
        default=1.0, ge=0, description="Least time between two pages of a host; robots.txt may ask more"
    )
    timeout_s: float = Field(default=30.0, gt=0, description="Longest wait for a page, and again for rendering it")
    max_page_mb: int = Field(default=20, ge=1, description="Largest page or file, in MiB")
    max_redirects: int = Field(default=5, ge=0, description="Most redirects in a row")
    settle_s: float = Field(default=0.5, ge=0, description="A rendered page is done when nothing changed for so long")
    settle_limit_s: float = Field(default=5.0, gt=0, description="Or when so much time is over")
    chromium: Path | None = Field(default=None, description="The browser; none: the one that is installed")

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        _in_order({"CRAWL__SETTLE_S": self.settle_s, "CRAWL__SETTLE_LIMIT_S": self.settle_limit_s})
        # Or no page that never settles is ever done.
        _in_order({"CRAWL__SETTLE_LIMIT_S": self.settle_limit_s, "CRAWL__TIMEOUT_S": self.timeout_s}, strictly=True)
        return self


class RelaySettings(Section):
    """A topic of somebody else, and which part of its records means what; `docs/sources.md` explains it."""

    topic: str = Field(min_length=1)
    format: Literal["cloudevents", "debezium", "outbox"]
    encoding: Literal["json", "avro"] = "json"
    name: str | None = None
    tenant: str | None = None
    prefix: str = ""
    document_id: str
    content: str
    title: str | None = None
    media_type: str | None = None
    language: str | None = None
    source_uri: str | None = None
    principals: tuple[str, ...] = ("everyone",)
    attributes: Mapping[str, str] = {}
    version: str | None = None
    event_type: str | None = None
    deleted_types: tuple[str, ...] = ()
    priority: int = 0

    @model_validator(mode="after")
    def _check_encoding(self) -> Self:
        if self.encoding == "avro" and self.format != "debezium":
            raise ValueError(
                f'relay of {self.topic}: encoding = "avro" is for format = "debezium" only: leave it out, and let the '
                "producer write JSON"
            )
        return self

    @model_validator(mode="after")
    def _check_deleted_types(self) -> Self:
        if self.format == "debezium" and self.deleted_types and self.event_type is None:
            raise ValueError(
                f"relay of {self.topic}: deleted_types fit no event, since events of Debezium have no type: leave them "
                "out, or say with event_type where it stands"
            )
        return self


class McpSettings(Section):
    """How `freki mcp` serves agents; `docs/tools.md` explains it."""

    principals: tuple[str, ...] = Field(
        default=(), description="Users and groups in whose name agents ask, as JSON; none: what everyone may read"
    )
    host: str = Field(
        default="127.0.0.1", description="With `--http`: where to listen; else than here with a token only"
    )
    port: int = Field(default=8765, ge=1, le=65535, description="With `--http`")
    token: SecretStr | None = Field(default=None, description="With `--http`: what clients send as bearer token")
    token_file: SecretFile = Field(default=None, description="File that holds it")
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="With `--http`: more names, `host:port`, by which clients may call, as JSON"
    )


class LocalSettings(Section):
    """The local stack of `freki up`."""

    state_dir: Path = Field(default=Path(".freki"), description="Everything that the local stack keeps")
    broker: Literal["tansu", "kafka"] = Field(
        default="tansu",
        description="`tansu` comes with the packages and keeps its records in memory; `kafka` is Apache Kafka, which "
        "keeps them on disk: it wants Java 17 and is fetched with Maven",
    )
    kafka_libs: Path | None = Field(
        default=None,
        description="Folder with the jar files of an Apache Kafka 4, its `libs`; none: fetched from Maven Central once",
    )
    broker_port: int = Field(default=0, ge=0, le=65535, description="0: a free one")
    store_port: int = Field(default=0, ge=0, le=65535, description="0: a free one")
    embed_workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes that embed, up to one for each partition; they share the cores, unless"
        " `FREKI_MODELS__THREADS` says how many each uses",
    )

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        if self.broker_port and self.broker_port == self.store_port:
            raise ValueError(
                f"FREKI_LOCAL__BROKER_PORT and FREKI_LOCAL__STORE_PORT are both {self.store_port}: change one of them"
            )
        return self

    def elsewhere(self, state_dir: Path) -> "LocalSettings":
        """Return the settings of another local stack of the same programs, which may run beside this one."""
        return LocalSettings(state_dir=state_dir, broker=self.broker, kafka_libs=self.kafka_libs)


class Settings(BaseSettings, _Clearable):
    """`FREKI_KAFKA__BOOTSTRAP=kafka:9092` sets `kafka.bootstrap`, and so does `[kafka]` in `freki.toml`."""

    model_config = SettingsConfigDict(
        env_prefix="FREKI_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        # Secrets are among it.
        hide_input_in_errors=True,
        toml_file="freki.toml",
    )

    tenant: str = Field(default="default", description="Tenant that the command line speaks for")
    ready_file: Path | None = Field(default=None, description="File that a worker creates once its stages are ready")
    kafka: KafkaSettings = KafkaSettings()
    registry: RegistrySettings = RegistrySettings()
    milvus: MilvusSettings = MilvusSettings()
    models: ModelSettings = ModelSettings()
    remote_reranker: RemoteRerankerSettings = RemoteRerankerSettings()
    vertex_reranker: VertexRerankerSettings = VertexRerankerSettings()
    claims: ClaimSettings = ClaimSettings()
    parsing: ParsingSettings = ParsingSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    llm: LlmSettings = LlmSettings()
    contexts: ContextSettings = ContextSettings()
    lexical: LexicalSettings = LexicalSettings()
    ingest: IngestSettings = IngestSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    local: LocalSettings = LocalSettings()
    crawl: CrawlSettings = CrawlSettings()
    mcp: McpSettings = McpSettings()
    relays: tuple[RelaySettings, ...] = Field(
        default=(), description="Topics of others that `freki relay` reads, `[[relays]]` in freki.toml: docs/sources.md"
    )

    @model_validator(mode="after")
    def _check_sections(self) -> Self:
        records = {
            "CLAIMS__INLINE_BYTES": self.claims.inline_bytes,
            "KAFKA__MAX_MESSAGE_BYTES": self.kafka.max_message_bytes,
        }
        _in_order(records, strictly=True)
        _in_order({"LOCAL__EMBED_WORKERS": self.local.embed_workers, "KAFKA__PARTITIONS": self.kafka.partitions})
        if window := self.models.late_window_tokens:
            _in_order({"CHUNKING__MAX_TOKENS": self.chunking.max_tokens, "MODELS__LATE_WINDOW_TOKENS": window})
        if self.contexts.llm:
            most, name = max((profile.max_chars, name) for name, profile in self.chunking.profiles.items())
            _in_order({"CONTEXTS__MIN_CHARS": self.contexts.min_chars, f"CHUNKING__{name.upper()}__MAX_CHARS": most})
        if self.retrieval.feedback and not self.feedback.read:
            raise ValueError(
                f"FREKI_RETRIEVAL__FEEDBACK={self.retrieval.feedback} counts judgements that nobody reads: set "
                "FREKI_FEEDBACK__READ=true, or FREKI_RETRIEVAL__FEEDBACK=0"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic-settings names the arguments
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over the environment, the environment over the file."""
        return init_settings, Environment(settings_cls), File(settings_cls)
