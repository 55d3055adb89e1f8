"""Rules of robots.txt and of the header X-Robots-Tag."""

import re
from collections.abc import Sequence

from protego import Protego

from freki.operators.crawl.url import normalise_url

MAX_BYTES = 512_000
"""Maximum size that is read; at least 500 KiB by RFC 9309, 2.5."""


_WHOM = re.compile(r"([\w-]+)\s*:\s*([\w-]*)\s*")
_WITH_VALUES = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


def robots_rules(header: str, agent: str) -> set[str]:
    """Return the rules of the header X-Robots-Tag for all and for one agent, in lower case.

    header: its values, one a line. An agent that a value names is told all rules up to the next agent, and nobody else
    is. Rules that have values of their own, such as a date, are left out. Source: Google, robots meta tag
    specifications.
    """
    rules = set()
    for line in header.lower().splitlines():
        whom = agent
        for part in map(str.strip, line.split(",")):
            named = _WHOM.fullmatch(part)
            if named is None:
                rule = part
            elif named[1] in _WITH_VALUES:
                continue
            else:
                whom, rule = named[1], named[2]
            if whom == agent:
                rules.add(rule)
    return rules


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
