"""What holds the keys that wrap data keys."""

from collections.abc import Sequence
from typing import Protocol


class KeyService(Protocol):
    """Wraps data keys by a key of which it has several versions; this key never leaves it.

    A wrapped key is printable ASCII without line breaks, `<service>:v<version>:<base64>`. One call serves a batch.
    Raises Unavailable where it does not answer or does not know a version yet, and Misconfigured where a setting or a
    key is wrong.
    """

    async def wrap(self, secrets: Sequence[bytes]) -> list[str]:
        """Return data keys wrapped by the current version, in order."""

    async def unwrap(self, wrapped: Sequence[str]) -> list[bytes]:
        """Return the data keys, in order, whatever version wrapped them."""

    async def rewrap(self, wrapped: Sequence[str]) -> list[str]:
        """Return the same data keys wrapped by the current version, in order."""

    async def versions(self) -> Sequence[int]:
        """Return the versions that unwrap, ascending; the last one is the current one."""

    async def rotate(self) -> int:
        """Make a new version the current one, and return it; older ones still unwrap."""


def version_of(wrapped: str) -> int:
    """Return the version that wrapped a data key; 0 if it is not a wrapped key."""
    parts = wrapped.split(":", 2)
    number = parts[1].removeprefix("v") if len(parts) == 3 else ""  # noqa: PLR2004 - service, version, key
    return int(number) if number.isdecimal() else 0
