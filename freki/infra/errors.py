"""What can go wrong outside of Freki.

InfraError
├── Unavailable   the world is down: retry, then stop and read again
│   └── Busy            it said when to come again
└── Rejected      the request can never succeed as it is: do not retry
    └── Misconfigured   a setting or file of ours is wrong: the message names it and the fix
"""


class InfraError(Exception):
    """The outside said no."""


class Unavailable(InfraError):
    """It may work later."""


class Busy(Unavailable):
    """It will work in `wait_s` seconds, by its own words."""

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class Rejected(InfraError):
    """It will not work as it is."""


class Misconfigured(Rejected):
    """A setting or file must change; the message names it and says how."""
