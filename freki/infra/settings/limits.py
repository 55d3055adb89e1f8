"""Settings of the limits of tenants."""

from collections.abc import Mapping

from pydantic import Field

from freki.infra.settings.names import ExactName
from freki.infra.settings.section import SettingsSection


class TenantLimitSettings(SettingsSection):
    """Limits of a tenant."""

    documents: int | None = Field(
        default=None, ge=0, description="Maximum number of documents of a tenant; none: any number"
    )
    characters: int | None = Field(
        default=None, ge=0, description="Maximum number of characters of text in its documents"
    )
    published_bytes_per_day: int | None = Field(
        default=None, ge=0, description="Maximum content that it may publish in a day, UTC, in bytes"
    )
    embedded_tokens_per_day: int | None = Field(
        default=None, ge=0, description="Maximum number of tokens that are embedded for it in a day, UTC"
    )
    queries_per_minute: int | None = Field(
        default=None, ge=0, description="Maximum number of its queries answered in a minute"
    )


class LimitSettings(TenantLimitSettings):
    """Limits of each tenant; `docs/security.md` explains them."""

    tenants: Mapping[ExactName, TenantLimitSettings] = Field(
        default={},
        description="Limits of single tenants by name, besides or instead of those above, as JSON: "
        '`{"hr": {"documents": 1000, "queries_per_minute": null}}`',
    )

    def of(self, tenant: str) -> Mapping[str, int | None]:
        """Return the limits of a tenant by name."""
        own = self.tenants.get(tenant)
        names = TenantLimitSettings.model_fields
        return {name: getattr(own if own and name in own.model_fields_set else self, name) for name in names}
