"""Attributes as the store has them: what conditions compare, and how many bytes that takes."""

import json
from collections.abc import Mapping
from typing import Any

from freki.schemas.attribute_values import number_of, time_of
from freki.schemas.escaping import escaped, escaped_key, unescaped

MAX_ATTRIBUTES_BYTES = 65_536
"""Milvus' limit of a JSON field."""
TYPE, NUMBER, TIME = "?", "#", "@"
"""Before the key of an attribute: its type, and its value as a number or as milliseconds since 1970."""
IS_TEXT, IS_NUMBER, IS_TIME = "text", "number", "time"


def attributes_column(attributes: Mapping[str, str]) -> Mapping[str, str | float | int]:
    """Return attributes with what conditions compare: besides the text of each its type, and its number or time.

    No key of an attribute begins with these signs once it is escaped.
    """
    column: dict[str, str | float | int] = {}
    for key, value in attributes.items():
        name, number, time = escaped_key(key), number_of(value), time_of(value)
        column[name] = escaped(value)
        column[f"{TYPE}{name}"] = IS_NUMBER if number is not None else IS_TIME if time is not None else IS_TEXT
        if number is not None:
            column[f"{NUMBER}{name}"] = number
        elif time is not None:
            column[f"{TIME}{name}"] = time.start
    return column


def attributes_of(column: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes of an `attributes_column`."""
    return {
        unescaped(key): unescaped(value) for key, value in column.items() if not key.startswith((TYPE, NUMBER, TIME))
    }


def attributes_bytes(attributes: Mapping[str, str]) -> int:
    """Return the bytes that the store takes for attributes, at most MAX_ATTRIBUTES_BYTES: those of its larger column.

    Chunk rows have the `attributes_column`, roots the attributes as they are. Those of all attributes are at most the
    sum of those of each.
    """
    columns = attributes_column(attributes), dict(attributes)
    return max(len(json.dumps(column, ensure_ascii=False).encode()) for column in columns)
