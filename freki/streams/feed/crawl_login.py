"""Recognition of a login that has ended, so that pages that ask for one count as neither changed nor gone."""

from collections.abc import Sequence

from freki.operators.crawl import is_login, normalise_url
from freki.schemas.errors import Misconfigured
from freki.schemas.names import record
from freki.schemas.web import WebAnswer
from freki.streams.feed.polite_fetch import ELSEWHERE, FORBIDDEN, GONE, MOVED, REFUSED

MAX_REFUSALS = 3
"""Refusals in a row after which the start pages are asked again."""
MAX_PROBES = 3
"""Maximum pages without a link that are asked for before such pages are deleted."""


@record
class Refusal:
    """How a page asks for a login."""

    how: str
    is_forbidden: bool = False
    """Whether the server may know who asks, and does not let them."""


PASSWORD = Refusal(how="it has a field for a password, which it had not before")


def refusal_of(answer: WebAnswer) -> Refusal | None:
    """Return how a response asks for a login, by its status or by a redirect; None if it does not."""
    if answer.status in REFUSED:
        return Refusal(how=f"status {answer.status}", is_forbidden=answer.status == FORBIDDEN)
    if answer.status in MOVED | ELSEWHERE and not is_login(answer.url):
        target = normalise_url(answer.headers.get("location", ""), base=answer.url)
        if target is not None and is_login(target):
            # The query often has the way back, and sometimes more.
            return Refusal(how=f"it redirects to {target.partition('?')[0]}")
    return None


class LoginWatch:
    """Counts pages that are refused, and pages that are read."""

    def __init__(self, login: str, seeds: Sequence[str]) -> None:
        """Create a watch; login: what is sent, in words, empty: nothing; seeds: start pages."""
        self._login = login
        self._seeds = frozenset(seeds)
        self._read = self._refused = self._in_a_row = 0
        self._last = ""

    def read(self) -> None:
        """Count a page that was read."""
        self._read += 1
        self._in_a_row = 0

    def refuse(self, url: str, refusal: Refusal) -> bool:
        """Count a page that asks for a login; return whether the login should be looked at.

        Raises Misconfigured for a start page that is crawled with a login.
        """
        self._last = f"{url} asks for a login: {refusal.how}"
        if self._login and url in self._seeds:
            self.end()
        self._refused += 1
        self._in_a_row += 1
        return bool(self._login) and self._in_a_row % MAX_REFUSALS == 0

    def miss(self, url: str, status: int) -> None:
        """Raise Misconfigured for a start page that is gone, which a site may say to strangers."""
        if self._login and url in self._seeds and status in GONE:
            self._last = f"{url} is not there for this login: status {status}"
            self.end()

    def finish(self) -> None:
        """Raise Misconfigured if as many pages were refused as read, or more."""
        if self._login and self._refused and self._refused >= self._read:
            self.end()

    def end(self) -> None:
        """Raise Misconfigured: the login has ended, or is none of this site."""
        raise Misconfigured(
            f"{self._last}. The login has expired, or is for another site: renew {self._login}."
            " No document was deleted for it"
        )
