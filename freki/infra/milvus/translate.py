"""The vendor's exceptions as ours.

Unavailable is the default, since it loses nothing: the caller stops and reads again. Rejected, which ends in a dead
letter, and Misconfigured are for what is known to be our fault.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
from grpc import StatusCode
from pymilvus import exceptions as theirs
from pymilvus.exceptions import MilvusException

from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable


class Unwritten(Unavailable):
    """The local store failed inside a call, as it does where its disk is full; memory and disk may differ now."""


class NoTerms(Rejected):
    """Milvus Lite cannot weigh the terms of a query as long as no row of the collection has any."""


class NoVectors(Unavailable):
    """Milvus Lite cannot read vectors as long as the collection has had no row; or it has lost them."""


BY_CLASS: Final[dict[type[MilvusException], type[InfraError]]] = {
    theirs.ConnectError: Unavailable,
    theirs.MilvusUnavailableException: Unavailable,
    theirs.ConnectionNotExistException: Unavailable,
    theirs.SchemaMismatchRetryableException: Unavailable,
    # Somebody dropped what we opened: the worker restarts and creates it again.
    theirs.CollectionNotExistException: Unavailable,
    theirs.DescribeCollectionException: Unavailable,
    theirs.IndexNotExistException: Unavailable,
    theirs.ConnectionConfigException: Misconfigured,
    theirs.ServerVersionIncompatibleException: Misconfigured,
    theirs.ParamError: Rejected,
    theirs.PartitionAlreadyExistException: Rejected,
    theirs.AmbiguousIndexName: Rejected,
    theirs.CannotInferSchemaException: Rejected,
    theirs.SchemaNotReadyException: Rejected,
    theirs.DataTypeNotMatchException: Rejected,
    theirs.DataTypeNotSupportException: Rejected,
    theirs.DataNotMatchException: Rejected,
    theirs.PrimaryKeyException: Rejected,
    theirs.PartitionKeyException: Rejected,
    theirs.ClusteringKeyException: Rejected,
    theirs.FieldsTypeException: Rejected,
    theirs.FunctionsTypeException: Rejected,
    theirs.FieldTypeException: Rejected,
    theirs.AutoIDException: Rejected,
    theirs.InvalidConsistencyLevel: Rejected,
}
"""All subclasses; the class itself goes by its code."""

_BY_STATUS: Final[dict[StatusCode, type[InfraError]]] = {
    StatusCode.UNAUTHENTICATED: Misconfigured,
    StatusCode.PERMISSION_DENIED: Misconfigured,
    StatusCode.INVALID_ARGUMENT: Rejected,
    StatusCode.OUT_OF_RANGE: Rejected,
    StatusCode.UNIMPLEMENTED: Rejected,
    StatusCode.UNKNOWN: Unwritten,
}

# Source: pkg/util/merr/errors.go of Milvus 2.5.
_BY_CODE: Final[dict[int, type[InfraError]]] = {
    800: Misconfigured,  # database not found
    802: Misconfigured,  # invalid database name
    1100: Rejected,  # invalid parameter
    1101: Rejected,  # missing parameter
    1102: Rejected,  # parameter too large
    1400: Misconfigured,  # not authenticated
    1401: Misconfigured,  # privilege not permitted
    1700: Rejected,  # field not found
    1701: Rejected,  # field name invalid
}

_SEGCORE = 2000
_NAN = "Invalid sparse row: NaN"
_NO_RAW_DATA = "Growing segment loss raw data"

_ADVICE: Final[dict[Any, str]] = {
    7: "the disk of the store is full, or its limit reached",
    9: "the disk of the store is full, or a quota reached",
    800: "set FREKI_MILVUS__DATABASE to one that exists",
    802: "set FREKI_MILVUS__DATABASE to one that exists",
    1400: "set FREKI_MILVUS__TOKEN",
    1401: "set FREKI_MILVUS__TOKEN to one with the right to do this",
    StatusCode.UNAUTHENTICATED: "set FREKI_MILVUS__TOKEN",
    StatusCode.PERMISSION_DENIED: "set FREKI_MILVUS__TOKEN to one with the right to do this",
    StatusCode.UNKNOWN: "is the disk of the store full?",
}


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Raise ours for theirs, keeping theirs as the cause."""
    try:
        yield
    except MilvusException as error:
        raise _ours(action, error.message, error.code, _kind(error)) from error
    except grpc.RpcError as error:
        status = error.code()
        raise _ours(action, error.details() or status.name, status, _BY_STATUS.get(status, Unavailable)) from error


def _kind(error: MilvusException) -> type[InfraError]:
    if error.code == _SEGCORE and _NAN in error.message:
        return NoTerms
    if error.code == _SEGCORE and _NO_RAW_DATA in error.message:
        return NoVectors
    if ours := BY_CLASS.get(type(error)):
        return ours
    # Where pymilvus ran out of its own retries, the code is the status of the call.
    known = _BY_STATUS.get(error.code) or _BY_CODE.get(error.code)
    return known or (Rejected if error.is_input_error else Unavailable)


def _ours(action: str, message: str, code: Any, kind: type[InfraError]) -> InfraError:  # noqa: ANN401 - status or number
    advice = _ADVICE.get(code)
    return kind(f"{action}: {message}" + (f"; {advice}" if advice else ""))
