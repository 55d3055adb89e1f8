"""All settings, read once from the environment and `freki.toml`; `sources.py` alone reads the environment."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from freki.infra.settings.audit import AuditSettings
from freki.infra.settings.auth import AuthSettings
from freki.infra.settings.encryption import EncryptionSettings
from freki.infra.settings.environment import Environment, File
from freki.infra.settings.feed import CrawlSettings, FolderSettings, RelaySettings
from freki.infra.settings.ingest import (
    ChunkingSettings,
    ClaimSettings,
    ContextSettings,
    IngestSettings,
    LexicalSettings,
    ParsingSettings,
)
from freki.infra.settings.kafka import KafkaSettings, RegistrySettings
from freki.infra.settings.limits import LimitSettings
from freki.infra.settings.milvus import MilvusSettings
from freki.infra.settings.models import LlmSettings, ModelSettings, RemoteRerankerSettings, VertexRerankerSettings
from freki.infra.settings.ocr import OcrSettings
from freki.infra.settings.privacy import ErasureSettings, RetentionSettings
from freki.infra.settings.profiles import Profile, ProfileName
from freki.infra.settings.retrieval import FeedbackSettings, RetrievalSettings
from freki.infra.settings.scan import ScanSettings
from freki.infra.settings.section import Clearable, TenantName, check_ascending
from freki.infra.settings.services import LocalSettings, McpSettings, ServeSettings, TelemetrySettings
from freki.schemas import RerankerChoice
from freki.schemas.stalling import MAX_BATCH_S


class Settings(BaseSettings, Clearable):
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

    tenant: TenantName = Field(default="default", description="Tenant that the command line speaks for")
    profile: ProfileName | None = Field(
        default=None,
        description="Set of values in place of defaults: `seeds`, those of the documents that Freki was specified by "
        "(docs/profiles.md); what is set by itself wins",
    )
    ready_file: Path | None = Field(default=None, description="File that a worker creates once its stages are ready")
    kafka: KafkaSettings = KafkaSettings()
    registry: RegistrySettings = RegistrySettings()
    milvus: MilvusSettings = MilvusSettings()
    auth: AuthSettings = AuthSettings()
    audit: AuditSettings = AuditSettings()
    erasure: ErasureSettings = ErasureSettings()
    retention: RetentionSettings = RetentionSettings()
    limits: LimitSettings = LimitSettings()
    encryption: EncryptionSettings = EncryptionSettings()
    models: ModelSettings = ModelSettings()
    remote_reranker: RemoteRerankerSettings = RemoteRerankerSettings()
    vertex_reranker: VertexRerankerSettings = VertexRerankerSettings()
    claims: ClaimSettings = ClaimSettings()
    scan: ScanSettings = ScanSettings()
    parsing: ParsingSettings = ParsingSettings()
    ocr: OcrSettings = OcrSettings()
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
    serve: ServeSettings = ServeSettings()
    folders: tuple[FolderSettings, ...] = Field(
        default=(),
        description="Folders that `freki watch` and `freki up` publish, `[[folders]]` in freki.toml: docs/sources.md",
    )
    relays: tuple[RelaySettings, ...] = Field(
        default=(), description="Topics of others that `freki relay` reads, `[[relays]]` in freki.toml: docs/sources.md"
    )

    @model_validator(mode="after")
    def _check_sections(self) -> Self:
        records = {
            "CLAIMS__INLINE_BYTES": self.claims.inline_bytes,
            "KAFKA__MAX_MESSAGE_BYTES": self.kafka.max_message_bytes,
        }
        check_ascending(records, strictly=True)
        check_ascending({"LOCAL__EMBED_WORKERS": self.local.embed_workers, "KAFKA__PARTITIONS": self.kafka.partitions})
        if window := self.models.late_window_tokens:
            check_ascending({"CHUNKING__MAX_TOKENS": self.chunking.max_tokens, "MODELS__LATE_WINDOW_TOKENS": window})
        if self.contexts.llm:
            most, name = max((profile.max_chars, name) for name, profile in self.chunking.profiles.items())
            check_ascending(
                {"CONTEXTS__MIN_CHARS": self.contexts.min_chars, f"CHUNKING__{name.upper()}__MAX_CHARS": most}
            )
        if self.auth.required and (silent := [one for one in self.relays if "principals" not in one.model_fields_set]):
            raise ValueError(
                f"relay of {silent[0].topic}: principals are missing; with FREKI_AUTH__JWKS name who may read its "
                'documents, ["everyone"] for all of the tenant'
            )
        if self.auth.required and (
            open_ones := [one for one in self.folders if "principals" not in one.model_fields_set]
        ):
            raise ValueError(
                f"folder {open_ones[0].path}: principals are missing; with FREKI_AUTH__JWKS name who may read its "
                'documents, ["everyone"] for all of the tenant'
            )
        self._check_erasure()
        self._check_names()
        self._check_times()
        self._check_folders()
        self._check_reranker()
        if self.retrieval.feedback and not self.feedback.read:
            raise ValueError(
                f"FREKI_RETRIEVAL__FEEDBACK={self.retrieval.feedback} counts judgements that nobody reads: set "
                "FREKI_FEEDBACK__READ=true, or FREKI_RETRIEVAL__FEEDBACK=0"
            )
        return self

    def _check_erasure(self) -> None:
        if self.erasure.enabled and self.erasure.key_file is None and self.audit.key_file is None:
            raise ValueError(
                "FREKI_ERASURE__ENABLED needs a key that signs reports: make one with `freki audit keys make FILE` and "
                "set FREKI_ERASURE__KEY_FILE=FILE"
            )
        if self.erasure.enabled and self.auth.required and not self.erasure.requesters:
            raise ValueError(
                "FREKI_ERASURE__ENABLED with FREKI_AUTH__JWKS: nobody may request erasures; name users or groups of "
                "tokens in FREKI_ERASURE__REQUESTERS"
            )
        if self.erasure.enabled and self.auth.replay_window_s:
            raise ValueError(
                "FREKI_ERASURE__ENABLED with FREKI_AUTH__REPLAY_WINDOW_S: requests for erasures are not in the window, "
                "so that a token of a query could be used again; run `freki erase` instead, or leave the window out"
            )
        if self.retention.every_hours is not None and not self.erasure.enabled:
            raise ValueError(
                "FREKI_RETENTION__EVERY_HOURS needs the worker of FREKI_ERASURE__ENABLED=true, which applies the rules"
            )

    @property
    def document_s(self) -> float:
        """Maximum time that scanning, recognising and parsing may take with one document, in seconds."""
        scanning_s = self.scan.timeout_s if self.scan.command or self.scan.clamd else 0.0
        # What was recognised is parsed too.
        recognising_s = self.ocr.timeout_s + self.parsing.timeout_s if self._recognises else 0.0
        return self.parsing.timeout_s + recognising_s + scanning_s

    @property
    def _recognises(self) -> bool:
        return bool(self.ocr.command or self.ocr.url)

    def _check_times(self) -> None:
        """Refuse limits with which a single document can take so long that its worker counts as stalled, for ever."""
        # Without a scan the limits of the others are below it by themselves.
        if self.document_s > MAX_BATCH_S:
            others = "FREKI_SCAN__TIMEOUT_S, FREKI_OCR__TIMEOUT_S" if self._recognises else "FREKI_SCAN__TIMEOUT_S"
            raise ValueError(
                f"{others} and FREKI_PARSING__TIMEOUT_S let one document take {self.document_s:g} s, and a worker that "
                f"is busy for {MAX_BATCH_S:g} s counts as stalled and is restarted: lower one of them"
            )

    def _check_folders(self) -> None:
        """Refuse traces in the folder of the audit log: the oldest files of a folder of traces are removed."""
        traces, audit = self.telemetry.trace_dir, self.audit.directory or self.local.state_dir / "audit"
        if self.audit.enabled and traces is not None and traces.expanduser().resolve() == audit.expanduser().resolve():
            raise ValueError(
                f"FREKI_TELEMETRY__TRACE_DIR={traces} is the folder of the audit log, FREKI_AUDIT__DIRECTORY, whose "
                "files would be removed as old traces: choose another one"
            )

    def _check_reranker(self) -> None:
        """Refuse a reranker that no query could be answered with: each answer would say that it is missing."""
        needed = {
            RerankerChoice.REMOTE: {"REMOTE_RERANKER__URL": self.remote_reranker.url},
            RerankerChoice.VERTEX: {"VERTEX_RERANKER__PROJECT": self.vertex_reranker.project},
            RerankerChoice.LLM: {"LLM__URL": self.llm.url, "LLM__MODEL": self.llm.model},
        }.get(self.retrieval.reranker, {})
        if missing := [f"FREKI_{name}" for name, value in needed.items() if value is None]:
            raise ValueError(
                f"FREKI_RETRIEVAL__RERANKER={self.retrieval.reranker} needs {' and '.join(missing)}: set it, or choose "
                "another reranker"
            )

    def _check_names(self) -> None:
        """Refuse names of those who may do something where all may, since no token says who somebody is."""
        named = {
            "SERVE__PUBLISHERS": (self.serve.publishers, "publish and delete documents at `freki serve`"),
            "SERVE__OPERATORS": (self.serve.operators, "see all tenants and replay dead letters at `freki serve`"),
            "ERASURE__REQUESTERS": (self.erasure.requesters, "request erasures"),
        }
        for name, (names, what) in named.items():
            if names and not self.auth.required:
                raise ValueError(
                    f"FREKI_{name} says who may {what}, and without FREKI_AUTH__JWKS nothing tells them from others, "
                    f"who may too: set FREKI_AUTH__JWKS, or leave FREKI_{name} out"
                )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic-settings names the arguments
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over the environment, the environment over the file, the file over the profile."""
        return init_settings, Environment(settings_cls), File(settings_cls), Profile(settings_cls)
