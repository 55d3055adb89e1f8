"""Whether values of JSON are of the kind that a field has, for all who read requests in it."""

import json
import math
import re
from functools import cache
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from freki.schemas.avro.hints import bare, branches_of, is_record

_FIRST_INEXACT = 2.0**53
"""From here on a number with a point or an exponent is read as one of its neighbours."""
_NUMBERS = frozenset({int, float})
_DIGITS = re.compile(r"-?(0|[1-9][0-9]*)")


def check_kind(given: object, hint: Any) -> None:  # noqa: ANN401 - a type
    """Raise ValueError for a value that pydantic would read as another one, also within lists and records.

    A number is no truth value, and a truth value no number. A text is a whole number where it is one in digits: JSON of
    protocol buffers has numbers of 64 bits as texts, since JavaScript cannot write them otherwise. `"1_0"` is none.
    """
    kinds = {_plain(kind) for kind in branches_of(_plain(hint))}
    if isinstance(given, list):
        for item in (get_args(kind)[0] for kind in kinds if get_origin(kind) in (list, tuple)):
            for each in given:
                check_kind(each, item)
    elif isinstance(given, dict):
        for record in filter(is_record, kinds):
            for name, inner in _hints_of(record).items():
                check_kind(given.get(name), inner)
    else:
        _check_scalar(given, kinds)


def _check_scalar(given: object, kinds: set[Any]) -> None:
    numbers = kinds & _NUMBERS
    if isinstance(given, bool) and numbers and bool not in kinds:
        # Pydantic reads them as 1 and 0: such a version is older than all that follow.
        raise ValueError(f"{json.dumps(given)} is no number")
    if isinstance(given, str) and numbers and kinds <= _NUMBERS | {NoneType} and not _DIGITS.fullmatch(given):
        raise ValueError("a text is no number: write it without quotes")
    if isinstance(given, str | int | float) and not isinstance(given, bool) and bool in kinds <= {bool, NoneType}:
        raise ValueError("it is no truth value: write true or false")
    if isinstance(given, float) and int in kinds and _FIRST_INEXACT <= abs(given) < math.inf:
        # Two versions would be one, of which the index takes the first alone.
        raise ValueError(f"{given} stands for several whole numbers; write all digits, without point or exponent")


def _plain(hint: Any) -> Any:  # noqa: ANN401 - a type
    return bare(get_args(hint)[0] if get_origin(hint) is Annotated else hint)


_hints_of = cache(get_type_hints)
