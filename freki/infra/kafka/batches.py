"""Reads records whose header names are no UTF-8.

Kafka's protocol says that names of headers are UTF-8, but no broker checks it, and librdkafka writes any bytes.
aiokafka 0.14 fails to decode the batch, at every start anew: one such record would stop all readers of its partition
for good.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, SupportsIndex

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

_LENGTH = slice(8, 12)
"""Of a batch: the bytes after this field, big endian."""


def read_any_header_names() -> None:
    """Let aiokafka's consumers of this process read every header name, invalid bytes escaped; again does nothing."""
    fetcher.MemoryRecords = _Records


class _Records:
    """aiokafka's reader of fetched bytes, as far as its fetcher uses it."""

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
    """A batch of records: read by the fast reader, and from where that fails by one that takes any name."""

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
    """aiokafka's reader in Python, on bytes that can always be decoded."""

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer: bytearray = _Decodable(self._buffer)


class _Decodable(bytearray):
    """Bytes whose slices decode without fail."""

    def __getitem__(self, key: SupportsIndex | slice) -> Any:  # noqa: ANN401 - as its base
        found = super().__getitem__(key)
        return _Decodable(found) if isinstance(found, bytearray) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)
