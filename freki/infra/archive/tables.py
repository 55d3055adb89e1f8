"""Rows of the store as Parquet tables and back, by the columns of their layout."""

import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from freki.infra.milvus.layout import Column, Kind, Layout, Row
from freki.schemas.errors import Rejected

if TYPE_CHECKING:
    import polars as pl

GROUP_ROWS = 1_000
"""Rows per row group."""


def columns_of(layout: Layout) -> tuple[Column, ...]:
    """Return the columns that an archive holds: all but the vector that Milvus requires of every collection."""
    return tuple(column for column in layout.columns if column.name != "placeholder")


class Table:
    """Rows of one collection that are not written yet, in columns."""

    def __init__(self, layout: Layout, dim: int) -> None:
        self._layout = layout
        self._dim = dim
        self._frames: list[pl.DataFrame] = []
        self.rows = 0
        self.bytes = 0
        """Size in memory."""

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        if not rows:
            return
        frame = _frame(self._layout, self._dim, rows)
        self._frames.append(frame)
        self.rows += frame.height
        self.bytes += int(frame.estimated_size())

    def write(self, path: Path) -> None:
        """Write the rows to a file and forget them. Raises OSError, as where the disk is full."""
        import polars as pl  # noqa: PLC0415 - an extra

        frame = pl.concat(self._frames) if self._frames else _frame(self._layout, self._dim, [])
        # Statistics tell which row groups a query can skip; of vectors and texts they only cost.
        # By way of memory: polars tells a full disk from damage only in the words of a message.
        content = BytesIO()
        frame.write_parquet(content, compression="zstd", row_group_size=GROUP_ROWS, statistics=False)
        path.write_bytes(content.getvalue())
        self._frames, self.rows, self.bytes = [], 0, 0


def read_rows(path: Path, layout: Layout, dim: int) -> Iterator[list[Row]]:
    """Yield the rows of a file in groups; vectors are float32 arrays, shape (dim,).

    Raises Rejected if the file is damaged or has other columns.
    """
    import polars as pl  # noqa: PLC0415 - an extra

    try:
        frame = pl.read_parquet(path, memory_map=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise Rejected(f"{path} cannot be read as Parquet: {error}") from error
    expected, found = _schema(layout, dim), dict(frame.schema)
    if different := [name for name in expected | found if expected.get(name) != found.get(name)]:
        raise Rejected(
            f"{path} has the column {different[0]} as {found.get(different[0])}, not {expected.get(different[0])}"
        )
    return (_rows(layout, frame[at : at + GROUP_ROWS]) for at in range(0, frame.height, GROUP_ROWS))


def _schema(layout: Layout, dim: int) -> "dict[str, pl.DataType]":
    import polars as pl  # noqa: PLC0415 - an extra

    types: dict[Kind, pl.DataType] = {
        Kind.TEXT: pl.String(),
        Kind.TEXTS: pl.List(pl.String()),
        Kind.INTEGER: pl.Int64(),
        Kind.INTEGERS: pl.List(pl.Int64()),
        Kind.FLAG: pl.Boolean(),
        Kind.JSON: pl.String(),
        Kind.VECTOR: pl.Array(pl.Float32(), dim),
    }
    return {column.name: types[column.kind] for column in columns_of(layout)}


def _frame(layout: Layout, dim: int, rows: Sequence[Row]) -> "pl.DataFrame":
    import polars as pl  # noqa: PLC0415 - an extra

    schema = _schema(layout, dim)
    return pl.DataFrame(
        [
            pl.Series(column.name, _packed(column, dim, [row[column.name] for row in rows]), dtype=schema[column.name])
            for column in columns_of(layout)
        ]
    )


def _packed(column: Column, dim: int, values: Sequence[Any]) -> Any:  # noqa: ANN401 - as the kind says
    match column.kind:
        case Kind.JSON:
            return [json.dumps(value) for value in values]
        case Kind.VECTOR:
            return np.asarray(values, np.float32).reshape(len(values), dim)
        case _:
            return values


def _rows(layout: Layout, frame: "pl.DataFrame") -> list[Row]:
    columns = columns_of(layout)
    values = [_unpacked(column, frame[column.name]) for column in columns]
    names = [column.name for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def _unpacked(column: Column, series: "pl.Series") -> Sequence[Any]:
    match column.kind:
        case Kind.JSON:
            return [json.loads(value) for value in series.to_list()]
        case Kind.VECTOR:
            return list(series.to_numpy())
        case _:
            return series.to_list()
