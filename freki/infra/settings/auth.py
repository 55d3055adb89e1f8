"""Settings of authentication: who asks, and the token of those who ask from here."""

import re
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from freki.infra.settings.section import LOOPBACK, SettingsSection, check_ascending, checked_url

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by private keys. `none` and HS256 are none of them: with public keys as secrets, everybody could sign."""
TENANT = "{tenant}"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]*\{tenant\}[a-zA-Z0-9._-]*")
_NEEDED = ("jwks", "issuer", "audience")


class AuthSettings(SettingsSection):
    """Proof of who asks; `docs/security.md` explains it."""

    jwks: str | None = Field(
        default=None,
        description="Public keys of the issuer: https URL or file of a JSON Web Key Set; set: queries need a token",
    )
    issuer: str | None = Field(default=None, description="What tokens say in `iss`")
    audience: str | None = Field(default=None, description="What tokens say in `aud`: that they are meant for Freki")
    algorithms: tuple[Algorithm, ...] = Field(
        default=("RS256", "PS256", "ES256", "EdDSA"), min_length=1, description="Allowed signatures, as JSON"
    )
    leeway_s: float = Field(default=30.0, ge=0, le=600, description="Difference of clocks that is tolerated")
    max_age_s: float | None = Field(
        default=None,
        gt=0,
        description="Longest time since a token was issued, `iat`; none: the replay window, else `exp` alone counts",
    )
    replay_window_s: float = Field(
        default=0.0,
        ge=0,
        le=86_400,
        description="Seconds in which a token serves one query, whose id is its `jti`; 0: any number until it expires",
    )
    tenant_claim: str = Field(
        default="tenant", min_length=1, description="Claim with the tenant; this and the next two may be `/path/to/it`"
    )
    principal_claim: str = Field(default="sub", min_length=1, description="Claim with the user")
    groups_claim: str = Field(default="groups", min_length=1, description="Claim with the groups of the user, if any")
    jwks_reload_s: float = Field(default=300.0, ge=1, description="How often the keys are read again")
    jwks_timeout_s: float = Field(default=5.0, gt=0, description="Longest wait for the keys of `jwks`")
    reply_topic: str | None = Field(
        default=None,
        description="The only topic of answers to a tenant, such as `contexts-{tenant}`; none: one topic for all",
    )
    token_file: Path | None = Field(
        default=None, description="File that something keeps a fresh token in, for `freki ask` and `freki mcp`"
    )

    @property
    def required(self) -> bool:
        """Whether queries need a token."""
        return self.jwks is not None

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        given = [name for name in _NEEDED if getattr(self, name) is not None]
        missing = [_variable(name) for name in _NEEDED if name not in given]
        if given and missing:
            raise ValueError(
                f"{_variable(given[0])} says that queries need tokens, which cannot be judged without "
                f"{' and '.join(missing)}: set {'both' if len(missing) > 1 else 'it'}, or none of the three"
            )
        return self

    @model_validator(mode="after")
    def _check_needed(self) -> Self:
        limits = {"max_age_s": self.max_age_s, "replay_window_s": self.replay_window_s}
        if not self.required and (given := [name for name, value in limits.items() if value]):
            raise ValueError(
                f"{_variable(given[0])} limits the use of tokens, and without FREKI_AUTH__JWKS queries need none: set "
                "FREKI_AUTH__JWKS too, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.replay_window_s and self.max_age_s is not None:
            # A token that lives longer could come again after the window.
            ages = {"AUTH__MAX_AGE_S": self.max_age_s, "AUTH__REPLAY_WINDOW_S": self.replay_window_s}
            check_ascending(ages)
        return self

    @model_validator(mode="after")
    def _check_reply_topic(self) -> Self:
        if self.reply_topic is None:
            return self
        if not self.required:
            raise ValueError(
                "FREKI_AUTH__REPLY_TOPIC names a topic by the tenant of a token, and queries have none: set "
                "FREKI_AUTH__JWKS too, or leave it out"
            )
        if not _TOPIC.fullmatch(self.reply_topic):
            raise ValueError(
                f"FREKI_AUTH__REPLY_TOPIC={self.reply_topic} is no name of a topic with {TENANT} in it once: write it "
                "like contexts-{tenant}, with letters, digits, dots, underscores and hyphens"
            )
        return self

    @field_validator("jwks")
    @classmethod
    def _check_url(cls, jwks: str | None) -> str | None:
        """Refuse an address without a server; `_check_place` says of the others which are safe."""
        return checked_url(jwks) if jwks is not None and jwks.startswith(("http:", "https:")) else jwks

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.jwks is None or "://" not in self.jwks:
            return self
        parts = urlsplit(self.jwks)
        if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK):
            return self
        raise ValueError(
            f"FREKI_AUTH__JWKS begins with {parts.scheme}://: who changes an answer on its way could sign tokens; "
            "use https, or a file"
        )


def _variable(name: str) -> str:
    return f"FREKI_AUTH__{name.upper()}"
