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
    """Why a page cannot be read without another login."""

    why: str
    is_forbidden: bool = False
    """Whether the server may know who asks, and does not let them."""


PASSWORD = Refusal(why="asks for a login: it has a field for a password, which it had not before")


def redirect_to(target: str) -> Refusal:
    """Return the refusal of a page that redirects to a login."""
    # The query often has the way back, and sometimes more.
    return Refusal(why=f"asks for a login: it redirects to {target.partition('?')[0]}")


def refusal_of(answer: WebAnswer) -> Refusal | None:
    """Return how a response asks for a login, by its status or by a redirect; None if it does not."""
    if answer.status == FORBIDDEN:
        return Refusal(why=f"may not be read: status {FORBIDDEN}", is_forbidden=True)
    if answer.status in REFUSED:
        return Refusal(why=f"asks for a login: status {answer.status}")
    if answer.status in MOVED | ELSEWHERE and not is_login(answer.url):
        target = normalise_url(answer.headers.get("location", ""), base=answer.url)
        if target is not None and is_login(target):
            return redirect_to(target)
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

    def refuse(self, url: str, refusal: Refusal, *, is_document: bool) -> bool:
        """Count a page that asks for a login; return whether the login should be looked at.

        is_document: whether it was read before. Raises Misconfigured for a start page that is crawled with a login.
        """
        self._last = f"{url} {refusal.why}"
        if self._login and url in self._seeds:
            self.end()
        if refusal.is_forbidden and not is_document:
            # Many sites have pages that are for others.
            return False
        self._refused += 1
        self._in_a_row += 1
        return bool(self._login) and self._in_a_row % MAX_REFUSALS == 0

    def miss(self, url: str, status: int) -> None:
        """Raise Misconfigured for a start page that is gone, which a site may say to strangers."""
        if self._login and url in self._seeds and status in GONE:
            self._last = f"{url} is not there for this login: status {status}"
            self.end()

    @property
    def is_refused(self) -> bool:
        """Whether at least as many pages were refused as read."""
        return 0 < self._refused >= self._read

    def finish(self) -> None:
        """Raise Misconfigured if at least as many pages were refused as read."""
        if self._login and self.is_refused:
            self.end()

    def end(self) -> None:
        """Raise Misconfigured: the login has ended, or is none of this site."""
        raise Misconfigured(
            f"{self._last}. The login has expired, or is for another site: renew {self._login}."
            " No document was deleted for it"
        )
