"""What can go wrong outside of Freki.

InfraError
├── Unavailable   the world is down: retry, then stop and read again
│   └── Busy            it said when to come again
└── Rejected      the request can never succeed as it is: do not retry
    └── Misconfigured   a setting or file of ours is wrong: the message names it and the fix
"""


class InfraError(Exception):
    """The outside said no. The message is for who runs Freki: it may name hosts, and quote what somebody asked."""

    gist = "it failed"
    """The kind of failure, for whoever asked."""

    def __init__(self, message: str, *, gist: str = "") -> None:
        super().__init__(message)
        self.gist = gist or self.gist


class Unavailable(InfraError):
    """It may work later."""

    gist = "it does not answer"


class Busy(Unavailable):
    """It will work in `wait_s` seconds, by its own words."""

    gist = "it is busy"

    def __init__(self, message: str, wait_s: float, *, gist: str = "") -> None:
        super().__init__(message, gist=gist)
        self.wait_s = wait_s


class Rejected(InfraError):
    """It will not work as it is."""

    gist = "it refused the request"


class Misconfigured(Rejected):
    """A setting or file must change; the message names it and says how."""

    gist = "a setting is wrong, which the worker's log names"
