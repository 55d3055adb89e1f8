"""Errors of external systems: broker, store, models, files.

InfraError
├── Unavailable   temporary: retry, then stop and read the records again
│   ├── Busy            the server said when to retry
│   └── Unanswered      Freki itself has no answer yet, and says so to whoever asked
└── Rejected      the request can never succeed as it is: do not retry
    └── Misconfigured   a setting or file is wrong: the message names it and the fix
"""

from freki.schemas.masking import masked


class InfraError(Exception):
    """An external system failed. The message is for operators of Freki: it may name hosts and quote queries.

    Credentials in URLs of the message are masked.
    """

    gist = "it failed"
    """Kind of failure, for the sender of the query."""

    def __init__(self, message: str, *, gist: str = "") -> None:
        super().__init__(masked(message))
        self.gist = gist or self.gist

    @property
    def for_callers(self) -> str:
        """What the sender of a request learns in place of an answer."""
        return f"a service behind this one failed ({self.gist}): the log of this one says which"


class Unavailable(InfraError):
    """The same request may succeed later."""

    gist = "it does not answer"


class Busy(Unavailable):
    """The server asks to retry after `wait_s` seconds."""

    gist = "it is busy"

    def __init__(self, message: str, wait_s: float, *, gist: str = "") -> None:
        super().__init__(message, gist=gist)
        self.wait_s = wait_s


class Unanswered(Unavailable):
    """There is no answer yet; the message says why, and nothing that only operators may know."""

    @property
    def for_callers(self) -> str:
        """See `InfraError`."""
        return str(self)


class Rejected(InfraError):
    """The request can never succeed as it is."""

    gist = "it refused the request"


class Misconfigured(Rejected):
    """A setting or file is wrong; the message names it and the fix."""

    gist = "a setting is wrong, which the worker's log names"

    @property
    def for_callers(self) -> str:
        """See `InfraError`."""
        return "a setting of this service is wrong, or a right is missing: its log says which"
