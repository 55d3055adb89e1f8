"""Replayed tokens: a token serves one query.

A query is answered only if no earlier record of its partition, within the window before it, has the same token id and
asks something else. That follows from the topic alone, so all workers judge alike, whoever has the partition; a worker
reads back what came before the first query that it is given.

All queries with a token id must be in one partition for that. So the query has the id of its token as its id and key,
and lies in the partition that the key gives.
"""

import asyncio
from bisect import insort
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

from freki.schemas import ContextQuery, Timestamp
from freki.schemas.identity import Identity, RefusalReason
from freki.streams.messages import TOKEN_HEADER, Received, Stored, header
from freki.streams.ports import TokenVerifier


class PastQueries(Protocol):
    """The topic of queries."""

    @property
    def changes(self) -> int:
        """Number of times that the topic is known to have been deleted and recreated."""

    async def partition_of(self, key: bytes) -> int:
        """Return the partition of a key. Raises Unavailable."""

    async def before(self, partition: int, offset: int, *, first: int | None, since: Timestamp) -> Sequence[Stored]:
        """Return the records before an offset, in order, from the offset `first`, or from the time `since`.

        There may be earlier ones among them. Raises Unavailable.
        """


class _Use(NamedTuple):
    """A query with a token."""

    offset: int
    timestamp: Timestamp
    digest: bytes
    """Digest of what was asked."""


class _Seen:
    """The uses of tokens in one partition."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """Offset from which on records were judged; the window before it was read back."""
        self.end = floor
        """Offset up to which all records are known."""
        self.forgotten = Timestamp(0)
        """Time before which uses are forgotten."""
        self._uses: dict[str, list[_Use]] = defaultdict(list)

    def add(self, token_id: str, use: _Use) -> None:
        if use not in (uses := self._uses[token_id]):
            insort(uses, use)

    def is_replayed(self, token_id: str, use: _Use, window_ms: int) -> bool:
        return any(
            each.offset < use.offset and each.timestamp >= use.timestamp - window_ms and each.digest != use.digest
            for each in self._uses[token_id]
        )

    def forget(self, before: Timestamp) -> None:
        """Forget uses that are out of every window to come."""
        self.forgotten = max(self.forgotten, before)
        for token_id in [token_id for token_id, uses in self._uses.items() if uses[-1].timestamp < before]:
            del self._uses[token_id]


class ReplayWindow:
    """Remembers for a time which query each token came with."""

    def __init__(
        self,
        past: PastQueries,
        verifier: TokenVerifier,
        *,
        window_ms: int,
        decode: Callable[[bytes], ContextQuery],
        encode: Callable[[ContextQuery], bytes],
        prepare: Callable[[Sequence[bytes | None]], Awaitable[None]] | None = None,
    ) -> None:
        """Create one; encode: gives equal bytes for equal queries."""
        self._past = past
        self._verifier = verifier
        self._window_ms = window_ms
        self._decode = decode
        self._encode = encode
        self._prepare = prepare
        self._changes = 0
        self._seen: dict[int, _Seen] = {}
        self._turns: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def check(self, received: Received[ContextQuery], identity: Identity) -> RefusalReason | None:
        """Return why a query may not be answered with its token; None if it may. Raises Unavailable."""
        token_id, key = identity.token_id, received.key
        if not token_id or received.value.query_id != token_id or key != token_id.encode():
            return RefusalReason.QUERY_ID
        if received.partition != await self._past.partition_of(key):
            return RefusalReason.QUERY_ID
        use = _Use(received.offset, received.timestamp, self._digest(received.value))
        if self._changes != (changes := self._past.changes):
            # Their offsets are those of another topic.
            self._changes = changes
            self._seen.clear()
        async with self._turns[received.partition]:
            seen = await self._through(received)
            seen.add(token_id, use)
            return RefusalReason.REPLAYED if seen.is_replayed(token_id, use, self._window_ms) else None

    async def _through(self, received: Received[ContextQuery]) -> _Seen:
        """Return the uses in a partition, once all records before this one are among them."""
        partition, offset = received.partition, received.offset
        since = Timestamp(received.timestamp - self._window_ms)
        seen = self._seen.get(partition)
        if seen is None or offset < seen.floor or since < seen.forgotten:
            # Given back meanwhile, never ours, or delivered again after a long time: what came before is unknown.
            seen, first = _Seen(offset), None
        else:
            first = seen.end
        if first is None or first < offset:
            for stored in await self._past.before(partition, offset, first=first, since=since):
                await self._take(seen, stored)
        seen.end = max(seen.end, offset + 1)
        # Once a window: it looks at all uses, which with every query took milliseconds.
        if since >= seen.forgotten + 2 * self._window_ms:
            seen.forget(Timestamp(since - self._window_ms))
        self._seen[partition] = seen
        return seen

    async def _take(self, seen: _Seen, stored: Stored) -> None:
        """Add the use of a token whose signature is valid; nobody else's queries use it up."""
        token = header(stored.headers, TOKEN_HEADER)
        if not token or stored.value is None:
            return
        claims = await self._verifier.claims(token)
        if isinstance(claims, RefusalReason) or not isinstance(token_id := claims.get("jti"), str):
            return
        if self._prepare is not None:
            await self._prepare([stored.value])
        try:
            query = self._decode(stored.value)
        except ValueError:
            return
        seen.add(token_id, _Use(stored.offset, Timestamp(stored.timestamp_ms), self._digest(query)))

    def _digest(self, query: ContextQuery) -> bytes:
        return sha256(self._encode(query)).digest()
