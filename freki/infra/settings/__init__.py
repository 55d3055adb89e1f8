"""Settings of each adapter and stage, and `Settings`, which holds all of them."""

from freki.infra.settings.audit import AuditSettings
from freki.infra.settings.auth import AuthSettings
from freki.infra.settings.encryption import EncryptionSettings
from freki.infra.settings.feed import CrawlSettings, FolderSettings, RelaySettings
from freki.infra.settings.ingest import (
    ChunkingSettings,
    ChunkProfile,
    ClaimSettings,
    ContextSettings,
    IngestSettings,
    LexicalSettings,
    ParsingSettings,
)
from freki.infra.settings.kafka import KafkaSettings, OAuthSettings, RegistrySettings
from freki.infra.settings.limits import LimitSettings, TenantLimitSettings
from freki.infra.settings.milvus import MilvusSettings
from freki.infra.settings.models import (
    LATE_INTERACTION,
    REMOTE,
    LlmSettings,
    ModelSettings,
    RemoteEmbedderSettings,
    RemoteRerankerSettings,
    VertexRerankerSettings,
)
from freki.infra.settings.ocr import OcrSettings
from freki.infra.settings.privacy import ErasureSettings, RetentionRule, RetentionSettings
from freki.infra.settings.retrieval import PROFILES, ContextProfile, FeedbackSettings, RetrievalSettings
from freki.infra.settings.root import Settings
from freki.infra.settings.scan import ScanSettings
from freki.infra.settings.section import SettingsSection
from freki.infra.settings.services import LocalSettings, McpSettings, ServeSettings, TelemetrySettings

__all__ = [
    "LATE_INTERACTION",
    "PROFILES",
    "REMOTE",
    "AuditSettings",
    "AuthSettings",
    "ChunkProfile",
    "ChunkingSettings",
    "ClaimSettings",
    "ContextProfile",
    "ContextSettings",
    "CrawlSettings",
    "EncryptionSettings",
    "ErasureSettings",
    "FeedbackSettings",
    "FolderSettings",
    "IngestSettings",
    "KafkaSettings",
    "LexicalSettings",
    "LimitSettings",
    "LlmSettings",
    "LocalSettings",
    "McpSettings",
    "MilvusSettings",
    "ModelSettings",
    "OAuthSettings",
    "OcrSettings",
    "ParsingSettings",
    "RegistrySettings",
    "RelaySettings",
    "RemoteEmbedderSettings",
    "RemoteRerankerSettings",
    "RetentionRule",
    "RetentionSettings",
    "RetrievalSettings",
    "ScanSettings",
    "ServeSettings",
    "Settings",
    "SettingsSection",
    "TelemetrySettings",
    "TenantLimitSettings",
    "VertexRerankerSettings",
]
