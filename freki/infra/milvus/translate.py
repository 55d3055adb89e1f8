"""Exceptions of pymilvus translated to those of `schemas.errors`.

Unavailable is the default, since it loses no record: the caller stops and reads again. Rejected, which leads to a dead
letter, and Misconfigured are for errors known to be caused by the request or the settings.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
from grpc import StatusCode
from pymilvus import exceptions as theirs
from pymilvus.client.types import Status
from pymilvus.exceptions import MilvusException

from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable


class Unwritten(Unavailable):
    """The local store failed within a call, such as for a full disk; memory and disk may differ now."""


class NoTerms(Rejected):
    """Milvus Lite cannot score the terms of a query while no row of the collection has any."""


class NoVectors(Unavailable):
    """Milvus Lite cannot read vectors before the first row of a collection, or has lost them."""


BY_CLASS: Final[dict[type[MilvusException], type[InfraError]]] = {
    theirs.ConnectError: Unavailable,
    theirs.MilvusUnavailableException: Unavailable,
    theirs.ConnectionNotExistException: Unavailable,
    theirs.SchemaMismatchRetryableException: Unavailable,
    # The collection was dropped after it was opened: the worker restarts and creates it again.
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
"""Subclasses by type; the class itself is translated by its code."""

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
    Status.CONNECT_FAILED: "is Milvus up at FREKI_MILVUS__URI?",
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
    """Translate exceptions of pymilvus, keeping the original as the cause."""
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
    # After its own retries, pymilvus raises with the gRPC status as the code.
    known = _BY_STATUS.get(error.code) or _BY_CODE.get(error.code)
    return known or (Rejected if error.is_input_error else Unavailable)


def _ours(action: str, message: str, code: Any, kind: type[InfraError]) -> InfraError:  # noqa: ANN401 - status or number
    advice = _ADVICE.get(code)
    return kind(f"{action}: {message}" + (f"; {advice}" if advice else ""))
