"""Protocol of what encrypts values that leave a stage."""

from collections.abc import Sequence
from typing import Protocol


class ValueCipher(Protocol):
    """Encrypts values, each bound to the place that it belongs to: elsewhere it does not decrypt.

    Values come as pairs of place and value. Raises Unavailable where the keys cannot be reached.
    """

    async def seal(self, values: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        """Return values encrypted, in order."""

    async def unseal(self, values: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        """Return values decrypted, in order. Raises Rejected for one that was altered or moved."""
