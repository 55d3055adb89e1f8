"""Errors of external systems: broker, store, models, files.

InfraError
├── Unavailable   temporary: retry, then stop and read the records again
│   └── Busy            the server said when to retry
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


class Unavailable(InfraError):
    """The same request may succeed later."""

    gist = "it does not answer"


class Busy(Unavailable):
    """The server asks to retry after `wait_s` seconds."""

    gist = "it is busy"

    def __init__(self, message: str, wait_s: float, *, gist: str = "") -> None:
        super().__init__(message, gist=gist)
        self.wait_s = wait_s


class Rejected(InfraError):
    """The request can never succeed as it is."""

    gist = "it refused the request"


class Misconfigured(Rejected):
    """A setting or file is wrong; the message names it and the fix."""

    gist = "a setting is wrong, which the worker's log names"
