"""What robots.txt asks of us."""

from collections.abc import Sequence

from protego import Protego

from freki.operators.crawl.url import normalise_url

MAX_BYTES = 512_000
"""RFC 9309, 2.5: at least 500 KiB are read."""


class Robots:
    """The rules of one host for one agent, by RFC 9309 with wildcards, and Crawl-delay."""

    def __init__(self, content: bytes, agent: str) -> None:
        self._rules = Protego.parse(content[:MAX_BYTES].decode(errors="replace"))
        self._agent = agent

    def allows(self, url: str) -> bool:
        """Return whether an address may be read."""
        return bool(self._rules.can_fetch(url, self._agent))

    @property
    def delay_s(self) -> float:
        """Least seconds between two questions; 0 where nothing is asked."""
        return max(0.0, self._rules.crawl_delay(self._agent) or 0.0)

    @property
    def sitemaps(self) -> Sequence[str]:
        """Addresses of sitemaps, whatever their host."""
        return [url for text in self._rules.sitemaps if (url := normalise_url(text)) is not None]
