"""Tolerance for header names that are not UTF-8.

Kafka's protocol defines header names as UTF-8, but brokers do not validate them, and librdkafka writes any bytes.
aiokafka 0.14 fails to decode the batch: one such record would block all readers of its partition forever.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, SupportsIndex

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

_LENGTH = slice(8, 12)
"""Length field of a batch: the number of bytes after it, big endian."""


def read_any_header_names() -> None:
    """Make aiokafka in this process decode all header names, with invalid bytes escaped. Idempotent."""
    fetcher.MemoryRecords = _Records


class _Records:
    """The interface of aiokafka's reader of fetched bytes that its fetcher uses."""

    def __init__(self, fetched: bytes) -> None:
        self._fetched = fetched
        self._at = 0
        self._records = MemoryRecords(fetched)

    def has_next(self) -> bool:
        return bool(self._records.has_next())

    def size_in_bytes(self) -> int:
        return int(self._records.size_in_bytes())

    def next_batch(self) -> "_Batch":
        start, header = self._at, self._fetched[self._at : self._at + _LENGTH.stop]
        self._at += len(header) + int.from_bytes(header[_LENGTH], "big")
        return _Batch(self._records.next_batch(), self._fetched, slice(start, self._at))


class _Batch:
    """A batch of records, read by the fast reader up to its first failure, then by the tolerant one."""

    def __init__(self, batch: Any, fetched: bytes, place: slice) -> None:  # noqa: ANN401 - aiokafka is untyped
        self._batch = batch
        self._fetched = fetched
        self._place = place

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the batch has
        return getattr(self._batch, name)

    def __next__(self) -> Any:  # noqa: ANN401 - a record
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        count = 0
        try:
            for record in self._batch:
                yield record
                count += 1
        except UnicodeDecodeError:
            yield from islice(_AnyNames(self._fetched[self._place]), count, None)


class _AnyNames(_DefaultRecordBatchPy):  # type: ignore[misc] # aiokafka is untyped
    """aiokafka's reader in Python, on bytes that always decode."""

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer: bytearray = _Decodable(self._buffer)


class _Decodable(bytearray):
    """Bytes whose slices always decode."""

    def __getitem__(self, key: SupportsIndex | slice) -> Any:  # noqa: ANN401 - as its base
        found = super().__getitem__(key)
        return _Decodable(found) if isinstance(found, bytearray) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)
