"""Row changes of Debezium's connectors in JSON."""

import re

from freki.operators.errors import InvalidEnvelope
from freki.operators.map_envelope.envelope import (
    Envelope,
    Event,
    Json,
    headers_of,
    key_of,
    ordered,
    parse_object,
    parse_time,
    payload_of,
)
from freki.schemas import Timestamp

_WRITES = ("c", "u", "r")
_BINLOG = re.compile(r".*?\.?(\d{1,9})")
_POSITION_BITS = 33
"""Bits of a position in a binary log, which exceeds 1 GiB only within a transaction."""


def read_change(envelope: Envelope) -> Event | None:
    """Return the event of a row change; None for the tombstone after a deletion.

    The view has `row` (after the change, or before a deletion), `before`, `op`, `source`, `key` and `headers`; rows of
    a snapshot count as written. An update with `before` has a former view. Versions are ordered by the log: LSN of
    PostgreSQL, file and position of MySQL and MariaDB, else the time of the change. Raises InvalidEnvelope for anything
    else, including truncation, which names no rows.
    """
    if envelope.value is None:
        return None
    value = payload_of(parse_object(envelope.value, "the change"))
    op = value.get("op") if isinstance(value, dict) else None
    if not isinstance(value, dict) or op not in (*_WRITES, "d"):
        raise InvalidEnvelope(f"no change of a row: op is {op!r}, not one of c, u, r, d")
    key = key_of(envelope)
    row = value.get("after") if op in _WRITES else value.get("before") or key
    if not isinstance(row, dict):
        raise InvalidEnvelope(f"op {op} without the row; a deletion needs `before` or a JSON key")
    source = value.get("source")
    if not isinstance(source, dict):
        raise InvalidEnvelope("no `source`: the position of the change is not known")
    time = _time(value, source, envelope)
    view: dict[str, Json | bytes] = {
        "row": {**key, **row} if isinstance(key, dict) else row,
        "before": value.get("before"),
        "op": op,
        "source": source,
        "key": key,
        "headers": headers_of(envelope),
    }
    before = value.get("before") if op == "u" else None
    return Event(
        deleted=op == "d",
        view=view,
        occurred_at=time,
        version=_version(source, time, envelope),
        former=view | {"row": before} if isinstance(before, dict) else None,
    )


def _time(value: dict[str, Json], source: dict[str, Json], envelope: Envelope) -> Timestamp:
    given = source.get("ts_ms") or value.get("ts_ms")
    return envelope.timestamp if given is None else parse_time(given, "ts_ms")


def _version(source: dict[str, Json], time: Timestamp, envelope: Envelope) -> int:
    match source.get("connector"):
        case "postgresql":
            return _number(source, "lsn")
        case "mysql" | "mariadb":
            file = _BINLOG.fullmatch(str(source.get("file")))
            if file is None:
                raise InvalidEnvelope("source.file is no binary log; name the place of a version in `version`")
            return (int(file[1]) << _POSITION_BITS | _number(source, "pos")) + 1
        case _:
            return ordered(time, envelope.offset)


def _number(source: dict[str, Json], name: str) -> int:
    value = source.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidEnvelope(f"source.{name} is {value!r}; name the place of a version in `version`")
    return value
