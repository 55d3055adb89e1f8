from collections.abc import Iterator, Sequence

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.kafka import batches

NAME = b"NAME"


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    """Leave aiokafka as it was."""
    before = fetcher.MemoryRecords
    batches.read_any_header_names()
    yield
    fetcher.MemoryRecords = before


def batch(first: int, names: list[bytes], *, transaction_of: int | None = None) -> bytes:
    """Write a batch with a record for each header name of four bytes."""
    builder = _DefaultRecordBatchBuilderPy(
        magic=2,
        compression_type=0,
        is_transactional=int(transaction_of is not None),
        producer_id=-1 if transaction_of is None else transaction_of,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number in range(len(names)):
        builder.append(number, 1_000, b"k", b"v%d" % number, [(NAME.decode(), b"h"), ("ok", None)])
    written = bytearray(builder.build())
    for name in names:
        at = written.index(NAME)
        written[at : at + 4] = name
    written[0:8] = first.to_bytes(8, "big")
    written[17:21] = calc_crc32c(written[21:]).to_bytes(4, "big")
    return bytes(written)


def read(
    fetched: bytes, aborted: Sequence[tuple[int, int]] = ()
) -> list[tuple[int, bytes, list[tuple[str, bytes | None]]]]:
    place = TopicPartition("t", 0)
    records = PartitionRecords(
        place, fetcher.MemoryRecords(fetched), list(aborted), 0, None, None, check_crcs=True, isolation_level=1
    )
    return [(record.offset, record.value, list(record.headers)) for record in records]


def test_a_header_name_of_any_bytes_stops_nobody() -> None:
    found = read(batch(0, [b"good", b"\xff\xfe\xfd!", b"fine"]) + batch(3, [b"next"]))

    assert [(offset, value, headers[0]) for offset, value, headers in found] == [
        (0, b"v0", ("good", b"h")),
        (1, b"v1", (r"\xff\xfe\xfd!", b"h")),
        (2, b"v2", ("fine", b"h")),
        (3, b"v0", ("next", b"h")),
    ]
    assert all(headers[1] == ("ok", None) for _, _, headers in found)


def test_what_an_aborted_transaction_wrote_is_left_out() -> None:
    fetched = b"".join(
        (batch(0, [b"good"]), batch(1, [b"\xff\xff\xff\xff", b"lost"], transaction_of=7), batch(3, [b"next"]))
    )

    assert [offset for offset, _, _ in read(fetched, aborted=[(7, 1)])] == [0, 3]


@given(names=st.lists(st.lists(st.binary(min_size=4, max_size=4), min_size=1, max_size=4), min_size=1, max_size=3))
def test_every_record_of_every_batch_is_read_once_and_in_order(names: list[list[bytes]]) -> None:
    firsts = [sum(map(len, names[:number])) for number in range(len(names))]

    found = read(b"".join(batch(first, each) for first, each in zip(firsts, names, strict=True)))

    expected = [name.decode(errors="backslashreplace") for each in names for name in each]
    assert [(offset, headers[0][0]) for offset, _, headers in found] == list(enumerate(expected))
