from collections.abc import Iterator

import grpc
import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata
from pymilvus import exceptions as theirs
from pymilvus.client.types import Status
from pymilvus.exceptions import MilvusException

from freki.infra.milvus.translate import BY_CLASS, NoVectors, Unwritten, translated
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable


def subclasses(cls: type[MilvusException]) -> Iterator[type[MilvusException]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def translation(error: Exception) -> InfraError:
    with pytest.raises(InfraError) as caught, translated("read chunks"):
        raise error
    assert caught.value.__cause__ is error
    return caught.value


def test_every_exception_class_of_the_vendor_is_in_the_table() -> None:
    assert set(subclasses(MilvusException)) == set(BY_CLASS)


@pytest.mark.parametrize("cls", [MilvusException, *subclasses(MilvusException)], ids=lambda cls: cls.__name__)
def test_every_exception_of_the_vendor_becomes_one_of_ours(cls: type[MilvusException]) -> None:
    error = translation(cls(message="because"))

    assert type(error) is BY_CLASS.get(cls, Unavailable)
    assert str(error) == "read chunks: because"


@pytest.mark.parametrize("status", StatusCode, ids=lambda status: status.name)
def test_every_status_of_a_call_becomes_one_of_ours(status: StatusCode) -> None:
    bare = translation(AioRpcError(status, Metadata(), Metadata(), details="because"))
    # What pymilvus makes of it once its own retries are used up.
    wrapped = translation(MilvusException(status, "because"))

    assert type(bare) is type(wrapped)
    assert str(bare) == str(wrapped)
    assert str(bare).startswith("read chunks: because")


@pytest.mark.parametrize(
    ("error", "kind", "advice"),
    [
        (MilvusException(1100, "invalid parameter"), Rejected, ""),
        (MilvusException(65535, "whatever"), Unavailable, ""),
        (MilvusException(65535, "whatever", is_input_error=True), Rejected, ""),
        (MilvusException(100, "collection not found"), Unavailable, ""),
        (MilvusException(2000, "HasRawData(): Growing segment loss raw data"), NoVectors, ""),
        (MilvusException(7, "disk limit exceeded"), Unavailable, "disk"),
        (MilvusException(9, "quota exceeded"), Unavailable, "disk"),
        (MilvusException(800, "database not found"), Misconfigured, "FREKI_MILVUS__DATABASE"),
        (MilvusException(1401, "privilege not permitted"), Misconfigured, "FREKI_MILVUS__TOKEN"),
        (MilvusException(StatusCode.UNAUTHENTICATED, "no"), Misconfigured, "FREKI_MILVUS__TOKEN"),
        (MilvusException(StatusCode.UNKNOWN, "no"), Unwritten, "disk"),
        (theirs.ConnectError(message="refused"), Unavailable, ""),
        (MilvusException(Status.CONNECT_FAILED, "Fail connecting to server"), Unavailable, "FREKI_MILVUS__URI"),
    ],
)
def test_the_world_and_the_request_and_the_settings_are_told_apart(
    error: MilvusException, kind: type[InfraError], advice: str
) -> None:
    ours = translation(error)

    assert type(ours) is kind
    assert advice in str(ours)


def test_other_exceptions_pass() -> None:
    with pytest.raises(ZeroDivisionError), translated("read chunks"):
        raise ZeroDivisionError


def test_an_error_of_a_call_without_details_names_its_status() -> None:
    error = translation(AioRpcError(grpc.StatusCode.UNAVAILABLE, Metadata(), Metadata()))

    assert str(error) == "read chunks: UNAVAILABLE"
