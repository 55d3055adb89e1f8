"""The URLs that a crawl has found and is still to visit."""

from collections import deque
from collections.abc import Callable, Iterator

from freki.operators.crawl import host_of
from freki.streams.feed.crawl_records import CrawlScope

MAX_TRIES = 2
"""Maximum requests of a URL per crawl."""


class Frontier:
    """URLs by host, in the order in which they were found, each with its depth: links from a start page to it."""

    def __init__(self, scope: CrawlScope, ready_at: Callable[[str], float]) -> None:
        """Begin without URLs; ready_at: returns when the delay of a host ends, on any clock."""
        self._scope = scope
        self._ready_at = ready_at
        self._queues: dict[str, deque[str]] = {}
        self._depths: dict[str, int] = {}
        self._tries: dict[str, int] = {}

    def __contains__(self, url: str) -> bool:
        """Return whether a URL was reached."""
        return url in self._depths

    def __iter__(self) -> Iterator[str]:
        """Iterate over the URLs that wait."""
        return (url for queue in self._queues.values() for url in queue)

    def depth(self, url: str) -> int:
        """Return the depth of a URL that was reached."""
        return self._depths[url]

    def reach(self, url: str, depth: int) -> bool:
        """Note the depth of a URL; return False if it is out of scope, or was reached at no greater depth before."""
        before = self._depths.get(url)
        is_near = depth <= self._scope.depth and (before is None or depth < before)
        if not is_near or host_of(url) not in self._scope.hosts:
            return False
        self._depths[url] = depth
        return True

    def add(self, url: str) -> None:
        """Let a URL wait, after the others of its host."""
        self._queues.setdefault(host_of(url), deque()).append(url)

    def next(self) -> str | None:
        """Return the next URL of the host whose delay ends first; None if none waits."""
        hosts = [host for host, queue in self._queues.items() if queue]
        if not hosts:
            return None
        return self._queues[min(hosts, key=self._ready_at)].popleft()

    def may_retry(self, url: str) -> bool:
        """Count a request of a URL that failed; return whether it may be asked again."""
        self._tries[url] = self._tries.get(url, 1) + 1
        return self._tries[url] <= MAX_TRIES
