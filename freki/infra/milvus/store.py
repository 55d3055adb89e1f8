"""Calls to Milvus: one timeout over all attempts, retries, and batches that fit a message."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from typing import Any, TypeVar

import stamina
from pymilvus import AsyncMilvusClient, CollectionSchema
from pymilvus.client import entity_helper
from pymilvus.milvus_client.index import IndexParams

from freki.infra.milvus.filters import listed, literal
from freki.infra.milvus.layout import PLACEHOLDER, Layout, Row, size_of
from freki.infra.milvus.translate import NoTerms, NoVectors, Unwritten, translated
from freki.infra.settings import MilvusSettings
from freki.infra.telemetry.calls import Calls
from freki.schemas.errors import InfraError, Rejected, Unavailable

T = TypeVar("T")

MAX_LIMIT = 16_384
"""Maximum rows per response; without a limit Milvus silently truncates at the same number."""
BATCH_ROWS = 500
"""Maximum rows per upsert."""
BATCH_BYTES = 16_000_000
"""Maximum size of an upsert; the server refuses messages above 64 MiB."""
BATCH_KEYS = 5_000
"""Maximum keys per filter expression."""
SEARCH_ROWS = 50_000
"""Maximum rows per search call, over all its queries: 40 MB at their largest, and messages above 64 MiB are refused."""
DDL_TIMEOUT_S = 120.0
"""Timeout for creating, opening and loading a collection: Milvus Lite answers nothing else while it loads one, for 17 s
at 100,000 chunks."""

RECONNECT_MS = 1_000
"""Maximum pause between two attempts to connect."""
KEEPALIVE_MS = 330_000
"""Keepalive interval, just above the minimum that gRPC servers allow by default."""

_FIRST_WAIT_S = 0.05
"""Initial backoff between attempts."""
_LONGEST_WAIT_S = 1.0
"""Maximum backoff between attempts."""
_JITTER_S = 0.1
"""Maximum random addition to a backoff."""


class MilvusStore:
    """The collections of a generation, or of None: those that all share. `open` does not connect: the first call does.

    Every call raises Unavailable if it has not succeeded within the timeout, and Rejected without retrying. An attempt
    whose response was lost does no harm: calls are idempotent, and an insert is retried as an upsert.
    """

    def __init__(self, settings: MilvusSettings, generation: str | None, calls: Calls) -> None:
        self._settings = settings
        self._calls = calls
        self._prefix = settings.collection_prefix + (f"_{generation}" if generation else "")
        self.is_lite = False
        """Whether the server is Milvus Lite, once `identify` has asked."""

    def open(self) -> None:
        """Create the client. Raises Misconfigured for an invalid URI."""
        # Else pymilvus checks each character of each text as if it were a text; `size_of` checks the sizes.
        entity_helper.CHECK_STR_ARRAY = False
        # pymilvus logs each error with its traceback in addition to raising it.
        for name in ("pymilvus", "pymilvus.milvus_client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        token = self._settings.token
        with translated(f"FREKI_MILVUS__URI={self._settings.uri}"):
            self._client = AsyncMilvusClient(
                uri=self._settings.uri,
                token=token.get_secret_value() if token else "",
                db_name=self._settings.database,
                # A dedicated connection, so that closing it does not affect other clients.
                dedicated=True,
                grpc_options={
                    # pymilvus pings every 10 s, which Milvus Lite treats as abuse and answers by disconnecting.
                    "grpc.keepalive_time_ms": KEEPALIVE_MS,
                    "grpc.keepalive_permit_without_calls": False,
                    # Otherwise the pause grows to two minutes: a store that was down for long would seem to be down.
                    "grpc.max_reconnect_backoff_ms": RECONNECT_MS,
                },
            )

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()

    async def identify(self) -> None:
        """Learn whether the server is Milvus Lite, which alone does not tell its version."""
        try:
            with translated("ask for the version of the store"):
                await self._client.get_server_version(timeout=self._settings.timeout_s, retry_times=1)
        except Rejected:
            self.is_lite = True

    def name(self, layout: Layout) -> str:
        """Return the name of a collection."""
        return f"{self._prefix}_{layout.name}"

    async def has(self, layout: Layout, *, timeout_s: float | None = None) -> bool:
        """Return whether the collection exists; timeout_s: that of the settings by default."""
        return bool(await self._call("look for", layout, self._client.has_collection, timeout_s=timeout_s))

    async def names(self) -> list[str]:
        """Return the names of all collections of the database."""
        listed = self._client.list_collections
        return list(await self._persist("list collections", listed, timeout_s=DDL_TIMEOUT_S))

    async def drop(self, layout: Layout) -> None:
        """Delete the collection; an absent one is ignored."""
        await self._call("drop", layout, self._client.drop_collection, timeout_s=DDL_TIMEOUT_S)

    async def create(self, layout: Layout, schema: CollectionSchema) -> None:
        """Create the collection unless it exists with the same schema; raises Rejected if its schema differs."""
        create = self._client.create_collection
        await self._call("create", layout, create, schema=schema, consistency_level="Strong", timeout_s=DDL_TIMEOUT_S)

    async def description(self, layout: Layout) -> str:
        """Return the description that the collection was created with."""
        describe = self._client.describe_collection
        return str((await self._call("describe", layout, describe, timeout_s=DDL_TIMEOUT_S))["description"])

    async def index_and_load(self, layout: Layout, indexes: Sequence[IndexParams]) -> None:
        """Create missing indexes, and load the collection for queries."""
        there = await self._call("list indexes of", layout, self._client.list_indexes, timeout_s=DDL_TIMEOUT_S)
        missing = [index for index in indexes if index[0].index_name not in there]
        await together(
            self._call("index", layout, self._client.create_index, index_params=index, timeout_s=DDL_TIMEOUT_S)
            for index in missing
        )
        await self.load(layout)

    async def load(self, layout: Layout, *, timeout_s: float = DDL_TIMEOUT_S) -> None:
        """Load the collection for queries."""
        await self._call("load", layout, self._client.load_collection, timeout_s=timeout_s)

    async def lookup(
        self, layout: Layout, keys: Iterable[str], fields: Sequence[str], *, size: int = BATCH_KEYS, condition: str = ""
    ) -> list[Row]:
        """Return the rows with these keys that meet the condition, unordered; missing ones are absent."""
        rows: list[Row] = []
        for batch in batched(sorted(set(keys)), size):
            which = f"{layout.key} in {listed(batch)}" + (f" and {condition}" if condition else "")
            rows += await self._query(layout, which, fields, limit=len(batch))
        return rows

    async def lookup_searched(
        self, layout: Layout, keys: Iterable[str], fields: Sequence[str], *, dim: int, size: int
    ) -> list[Row]:
        """Return the same as `lookup`, for a collection of vectors of `dim` numbers.

        A query of Milvus Lite walks all keys of the collection in order: at 100,000 rows it takes ten times as long as
        a search among the wanted rows, of any vector.
        """
        if not self.is_lite:
            return await self.lookup(layout, keys, fields, size=size)
        probe = [1.0] + [0.0] * (dim - 1)
        wanted, rows = set(keys), list[Row]()
        for batch in batched(sorted(wanted), size):
            which = f"{layout.key} in {listed(batch)}"
            rows += await self._nearest(layout, "dense", probe, which, fields, limit=len(batch))
        # Whatever a search may leave out is looked up.
        missing = wanted - {row[layout.key] for row in rows}
        return [*rows, *await self.lookup(layout, missing, fields, size=size)]

    async def scan(
        self, layout: Layout, condition: str, fields: Sequence[str], *, by: str, size: int = MAX_LIMIT, after: str = ""
    ) -> AsyncIterator[list[Row]]:
        """Yield all rows that meet the condition, in pages; rows with the same value of `by` share a page.

        by: a text column among the fields; fewer than MAX_LIMIT rows share a value of it. Pages come in ascending order
        of its values, those above `after` only; within a page rows are unordered. A page has fewer than `size` rows,
        unless all of them share one value. Rows written meanwhile may be missing.
        """
        # Milvus guarantees no order, so an overfull range is split at the median of the returned values.
        ranges: list[tuple[str | None, str]] = [(after, "")]
        while ranges:
            low, upper = ranges.pop()
            if low is None:
                yield await self._query(layout, f"{condition}{upper}", fields, limit=MAX_LIMIT)
                continue
            within = f"{condition} and {by} > {literal(low)}{upper}"
            rows = await self._query(layout, within, fields, limit=size)
            if len(rows) < size:
                yield rows
                continue
            values = sorted({row[by] for row in rows})
            middle = values[(len(values) - 1) // 2]
            if len(values) > 1:
                ranges += [(middle, upper), (low, f" and {by} <= {literal(middle)}")]
            else:
                ranges += [
                    (middle, upper),
                    (None, f" and {by} == {literal(middle)}"),
                    (low, f" and {by} < {literal(middle)}"),
                ]

    async def count(self, layout: Layout, condition: str) -> int:
        """Return the number of rows that meet the condition; an empty condition matches all."""
        query = self._client.query
        counted = await self._call(
            "count", layout, query, filter=condition, output_fields=["count(*)"], consistency_level="Strong"
        )
        return int(counted[0]["count(*)"])

    async def search(
        self, layout: Layout, column: str, data: Sequence[Any], condition: str, *, limit: int, strong: bool
    ) -> list[list[Row]]:
        """Return the nearest chunks of each datum: key, `distance`, document and revision."""
        found: list[list[Row]] = []
        for batch in batched(data, max(1, SEARCH_ROWS // limit)):
            try:
                rankings = await self._call(
                    "search",
                    layout,
                    self._client.search,
                    data=batch,
                    anns_field=column,
                    filter=condition,
                    limit=min(limit, MAX_LIMIT),
                    # Keys come with every hit.
                    output_fields=["root_id", "version", "edition"],
                    consistency_level="Strong" if strong else "Bounded",
                )
                found += [[_hit(layout, *each) for each in zip(hits.ids, hits, strict=True)] for hits in rankings]
            except NoTerms:
                found += [[] for _ in batch]
        return found

    async def insert(self, layout: Layout, rows: Sequence[Row]) -> None:
        """Write rows with keys that no row has. Raises Rejected before writing any if one does not fit the store.

        An upsert first looks for rows to replace, and Milvus Lite compares every key of the collection: at 100,000 rows
        it takes nine times as much CPU.
        """
        for batch in list(_fitting(layout, rows)):
            # A second attempt replaces: the first one may have written before its response was lost.
            await self._write(layout, batch, _first_then(self._client.insert, self._client.upsert))

    async def upsert(self, layout: Layout, rows: Sequence[Row]) -> None:
        """Write or replace rows by key. Raises Rejected before writing any if one does not fit the store."""
        for batch in list(_fitting(layout, rows)):
            await self._write(layout, batch, self._client.upsert)

    async def _write(self, layout: Layout, batch: Sequence[Row], method: Callable[..., Awaitable[Any]]) -> None:
        try:
            await self._call("write to", layout, method, data=batch)
        except Unwritten:
            # Milvus Lite serves rows that its disk refused until it restarts: delete them.
            with suppress(InfraError):
                await self.delete(layout, [row[layout.key] for row in batch])
            raise

    async def delete(self, layout: Layout, keys: Iterable[str], condition: str = "") -> None:
        """Delete the rows with these keys that meet the condition; absent ones are ignored."""
        for batch in batched(sorted(set(keys)), BATCH_KEYS):
            which = f"{layout.key} in {listed(batch)}" + (f" and {condition}" if condition else "")
            await self._call("delete from", layout, self._client.delete, filter=which)

    async def _query(self, layout: Layout, condition: str, fields: Sequence[str], *, limit: int) -> list[Row]:
        try:
            if self.is_lite and not layout.is_searched:
                # For the same reason as in `lookup_searched`; the placeholder leaves out no row.
                return await self._nearest(layout, "placeholder", PLACEHOLDER, condition, fields, limit=limit)
            found = await self._call(
                "read",
                layout,
                self._client.query,
                filter=condition,
                output_fields=list(fields),
                limit=limit,
                consistency_level="Strong",
            )
            return list(found)
        except NoVectors:
            if await self.count(layout, ""):
                raise
            return []

    async def _nearest(
        self, layout: Layout, column: str, probe: Sequence[float], condition: str, fields: Sequence[str], *, limit: int
    ) -> list[Row]:
        """Return the rows nearest to a vector among those that meet the condition."""
        found = await self._call(
            "read",
            layout,
            self._client.search,
            data=[list(probe)],
            anns_field=column,
            filter=condition,
            limit=limit,
            output_fields=list(fields),
            consistency_level="Strong",
        )
        return [hit["entity"] for hits in found for hit in hits]

    async def _call(
        self,
        action: str,
        layout: Layout,
        method: Callable[..., Awaitable[T]],
        *,
        timeout_s: float | None = None,
        **options: Any,  # noqa: ANN401 - the vendor's
    ) -> T:
        """Call a method for a collection until it succeeds, is refused, or the timeout expires."""
        with self._timed(action, layout):
            call = partial(method, self.name(layout), **options)
            return await self._persist(f"{action} {self.name(layout)}", call, timeout_s=timeout_s)

    @contextmanager
    def _timed(self, action: str, layout: Layout) -> Iterator[None]:
        started, failure = time.perf_counter(), None
        try:
            yield
        except BaseException as error:
            failure = error
            raise
        finally:
            self._calls.called(action, layout.name, seconds=time.perf_counter() - started, error=failure)

    async def _persist(self, action: str, call: Callable[..., Awaitable[T]], *, timeout_s: float | None) -> T:
        limit_s = timeout_s or self._settings.timeout_s
        failure: Unavailable | None = None

        async def attempt() -> T:
            nonlocal failure
            try:
                with translated(action):
                    # Without any retry of its own, pymilvus drops how the server classified the error.
                    return await call(retry_times=1)
            except Unavailable as error:
                failure = error
                raise

        # One time limit: with another inside, a failure that arrives at the limit would be told without it.
        retrying = stamina.AsyncRetryingCaller(
            attempts=None, timeout=None, wait_initial=_FIRST_WAIT_S, wait_max=_LONGEST_WAIT_S, wait_jitter=_JITTER_S
        )
        try:
            async with asyncio.timeout(limit_s):
                return await retrying.on(_is_passing)(attempt)
        except TimeoutError as error:
            if failure is None:
                raise Unavailable(f"{action}: no answer from {self._settings.uri} within {limit_s:g} s") from error
            raise type(failure)(f"{failure} (for {limit_s:g} s)") from failure


def _is_passing(error: Exception) -> bool:
    """Return whether to retry. A full disk is not retried: readers would see the refused rows meanwhile."""
    return isinstance(error, Unavailable) and not isinstance(error, (NoVectors, Unwritten))


async def together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all calls concurrently; the first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures.exceptions[0].__cause__
    return [task.result() for task in tasks]


def batched(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield consecutive slices of at most this size."""
    return (values[start : start + size] for start in range(0, len(values), size))


def _first_then(first: Callable[..., Awaitable[T]], later: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Return a callable that calls `first` once, and `later` from then on."""
    methods = chain((first,), repeat(later))

    def call(*args: Any, **options: Any) -> Awaitable[T]:  # noqa: ANN401 - the vendor's
        return next(methods)(*args, **options)

    return call


def _hit(layout: Layout, key: str, found: Row) -> Row:
    return {**found["entity"], layout.key: key, "distance": found["distance"]}


def _fitting(layout: Layout, rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        more = size_of(layout, row)
        if batch and (len(batch) == BATCH_ROWS or size + more > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += more
    if batch:
        yield batch
