"""Settings of sources: crawled sites and topics of other systems."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from freki.infra.settings.section import (
    NamedPath,
    Priority,
    SecretFile,
    SettingsSection,
    TenantName,
    check_ascending,
)


class CrawlSettings(SettingsSection):
    """Behaviour of `freki crawl`."""

    user_agent: str = Field(
        default="Mozilla/5.0 (compatible; freki/0.1)", description="How servers see us; robots.txt knows us as `freki`"
    )
    delay_s: float = Field(
        default=1.0, ge=0, description="Minimum time between two pages of a host; robots.txt may ask more"
    )
    timeout_s: float = Field(default=30.0, gt=0, description="Longest wait for a page, and again for rendering it")
    max_page_mb: int = Field(default=20, ge=1, description="Largest page or file, in MiB")
    max_redirects: int = Field(default=5, ge=0, description="Maximum number of redirects in a row")
    settle_s: float = Field(default=0.5, ge=0, description="A rendered page is done when nothing changed for so long")
    settle_limit_s: float = Field(default=5.0, gt=0, description="Longest wait for a rendered page to settle")
    chromium: Path | None = Field(default=None, description="The browser; none: the one that is installed")
    sandbox: bool = Field(
        default=True, description="Run Chromium in its sandbox, which needs user namespaces; never as root"
    )
    headers: SecretStr | None = Field(
        default=None,
        description="Headers of requests for the hosts of the start URLs, one `Name: value` a line; a line that begins"
        " with `https://host` is for that host alone",
    )
    headers_file: SecretFile = Field(default=None, description="File that holds them")
    cookies: Path | None = Field(
        default=None, description="File with cookies as browsers' extensions and curl write it"
    )
    proxy: str | None = Field(default=None, description="HTTP proxy, `http://host:3128`, also of Chromium")
    proxy_user: str | None = Field(default=None, description="Who asks the proxy")
    proxy_password: SecretStr | None = Field(default=None, description="With `FREKI_CRAWL__PROXY_USER`")
    proxy_password_file: SecretFile = Field(default=None, description="File that holds it")
    no_proxy: tuple[str, ...] = Field(
        default=(), description='Hosts that are asked without the proxy, as JSON; `[".example.org"]`: all below it'
    )

    @model_validator(mode="after")
    def _check_proxy(self) -> Self:
        if self.proxy_user is not None and self.proxy_password is None:
            raise ValueError("FREKI_CRAWL__PROXY_USER needs FREKI_CRAWL__PROXY_PASSWORD, or its _FILE")
        if self.proxy is not None:
            check_proxy(self.proxy)
        return self

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        check_ascending({"CRAWL__SETTLE_S": self.settle_s, "CRAWL__SETTLE_LIMIT_S": self.settle_limit_s})
        # Otherwise a page that never settles would never be done.
        check_ascending(
            {"CRAWL__SETTLE_LIMIT_S": self.settle_limit_s, "CRAWL__TIMEOUT_S": self.timeout_s}, strictly=True
        )
        return self


def check_proxy(url: str) -> None:
    """Raise ValueError, with the fix, for what is no URL of an HTTP proxy, or holds a password."""
    wrong = "FREKI_CRAWL__PROXY is no URL of an HTTP proxy: write http://host:port"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(wrong) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or parts.path not in {"", "/"}:
        raise ValueError(wrong)
    if "@" in parts.netloc:
        raise ValueError(
            "FREKI_CRAWL__PROXY holds a name or password: put them into FREKI_CRAWL__PROXY_USER and"
            " FREKI_CRAWL__PROXY_PASSWORD_FILE"
        )


class FolderSettings(SettingsSection):
    """Folder that `freki watch` keeps published; `docs/sources.md` explains it."""

    path: NamedPath
    name: str | None = Field(default=None, min_length=1)
    root: NamedPath | None = None
    tenant: TenantName | None = None
    principals: tuple[str, ...] = ("everyone",)
    language: str | None = Field(default=None, pattern="^[a-z]{2,3}$")
    kind: str | None = None
    attributes: Mapping[str, str] = {}
    priority: Priority = 0
    settle_s: float = Field(default=0.4, ge=0)
    poll_s: float | None = Field(default=None, ge=0.1)


class RelaySettings(SettingsSection):
    """Topic of another system and the mapping of its records; `docs/sources.md` explains it."""

    topic: str = Field(min_length=1)
    format: Literal["cloudevents", "debezium", "outbox"]
    encoding: Literal["json", "avro"] = "json"
    name: str | None = None
    tenant: TenantName | None = None
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
    priority: Priority = 0

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
