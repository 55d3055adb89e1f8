"""Settings of the rights of people: erasure on request, and retention by rules."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from freki.infra.settings.section import SettingsSection, TenantName, TenantPrincipal


class ErasureSettings(SettingsSection):
    """Erasure as a request on a topic; `docs/security.md` explains it."""

    enabled: bool = Field(
        default=False, description="Let a worker of `freki up` and `freki worker` erase what is requested on a topic"
    )
    key_file: Path | None = Field(
        default=None, description="Private key that signs reports of the worker; none: FREKI_AUDIT__KEY_FILE"
    )
    requesters: tuple[TenantPrincipal, ...] = Field(
        default=(),
        description="Who may request erasures, each in the tenant of the token, as JSON of tenant/user or tenant/group:"
        ' `["acme/privacy-officers"]`; needed with FREKI_AUTH__JWKS. Without tokens, rights of Kafka say who may write '
        "to the topic",
    )
    patience_s: float = Field(
        default=120.0,
        gt=0,
        description="Longest wait of the worker for the next receipt of a deletion, and for stages to read records of "
        "what is erased",
    )
    look_s: float = Field(
        default=60.0, gt=0, description="How often the worker looks whether holds on requested documents have ended"
    )


MOST_DAYS = 1_000_000
"""Largest number of days that documents may stay, or be looked ahead: as good as for ever, and a time all the same."""


class RetentionRule(SettingsSection):
    """Which documents go after which time; a document meets all conditions that are given."""

    name: str = Field(min_length=1, max_length=128)
    tenant: TenantName | None = None
    prefix: str = ""
    source: str = ""
    media_type: str = ""
    attributes: Mapping[str, str] = {}
    after_days: float = Field(gt=0, le=MOST_DAYS)
    since: Literal["published", "occurred"] = "published"
    action: Literal["delete", "erase"] = "delete"


class RetentionSettings(SettingsSection):
    """Deletion of documents by rules."""

    rules: tuple[RetentionRule, ...] = Field(
        default=(), description="Which documents go when, `[[retention.rules]]` in freki.toml: docs/security.md"
    )
    every_hours: float | None = Field(
        default=None,
        gt=0,
        description="How often the worker of FREKI_ERASURE__ENABLED applies the rules; none: on `freki retention run`",
    )

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        names = [rule.name for rule in self.rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"FREKI_RETENTION__RULES: two rules are named {twice[0]!r}; give each a name of its own")
        if self.every_hours is not None and not self.rules:
            raise ValueError("FREKI_RETENTION__EVERY_HOURS applies no rule: give FREKI_RETENTION__RULES")
        return self
