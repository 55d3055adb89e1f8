"""Rules of robots.txt."""

from collections.abc import Sequence

from protego import Protego

from freki.operators.crawl.url import normalise_url

MAX_BYTES = 512_000
"""Maximum size that is read; at least 500 KiB by RFC 9309, 2.5."""


class Robots:
    """The rules of one host for one agent, by RFC 9309 with wildcards, and Crawl-delay."""

    def __init__(self, content: bytes, agent: str) -> None:
        self._rules = Protego.parse(content[:MAX_BYTES].decode("utf-8-sig", errors="replace"))
        self._agent = agent

    def allows(self, url: str) -> bool:
        """Return whether a URL may be fetched."""
        return bool(self._rules.can_fetch(url, self._agent))

    @property
    def delay_s(self) -> float:
        """Minimum seconds between requests; 0 where unspecified."""
        return max(0.0, self._rules.crawl_delay(self._agent) or 0.0)

    @property
    def sitemaps(self) -> Sequence[str]:
        """URLs of sitemaps, on any host."""
        return [url for text in self._rules.sitemaps if (url := normalise_url(text)) is not None]
