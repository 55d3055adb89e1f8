from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import httpx
import pytest
from pydantic import SecretStr

from freki.infra.registry import RegistryClient, _translated
from freki.infra.settings import RegistrySettings
from freki.schemas import ContextQuery, DocumentChange, DocumentId, IndexOutcome, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec, UnknownSchemaIdError, packaged_contracts
from freki.schemas.errors import InfraError, Misconfigured, Unavailable
from freki.streams.deliver.retry import Backoff
from tests.contract.registry_server import Answer, RegistryServer, running_registry

TOPIC = "freki.documents.v1"
CONTRACT = packaged_contracts().current("DocumentChange").text
CHANGE = DocumentChange(
    tenant=TenantId("t"),
    document_id=DocumentId("a.md"),
    operation=Operation.UPSERT,
    version=1,
    occurred_at=Timestamp(0),
    content=b"\xff",
    priority=7,
)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    """Run a registry."""
    with running_registry() as server:
        yield server


@pytest.fixture
async def client(server: RegistryServer) -> AsyncIterator[RegistryClient]:
    """Connect to it."""
    async with RegistryClient(RegistrySettings(url=server.url)) as client:
        yield client


def settings(server: RegistryServer, name: str, password: str) -> RegistrySettings:
    return RegistrySettings(url=server.url, username=name, password=SecretStr(password))


async def test_a_contract_is_registered_under_the_name_of_its_topic(
    server: RegistryServer, client: RegistryClient
) -> None:
    await client.announce({TOPIC: DocumentChange})

    assert server.subjects == {f"{TOPIC}-value": [client.id_of("DocumentChange")]}
    assert server.schemas == [CONTRACT]


async def test_a_contract_that_is_there_needs_no_right_to_register(
    server: RegistryServer, client: RegistryClient
) -> None:
    schema_id = server.add(f"{TOPIC}-value", CONTRACT)
    server.read_only = True

    await client.announce({TOPIC: DocumentChange})

    assert client.id_of("DocumentChange") == schema_id


async def test_several_topics_may_hold_the_same_record(server: RegistryServer, client: RegistryClient) -> None:
    await client.announce({"answers.v1": DocumentChange, TOPIC: DocumentChange, "outcomes.v1": IndexOutcome})

    assert len(server.schemas) == 2
    assert client.id_of("DocumentChange") != client.id_of("IndexOutcome")


async def test_what_one_process_encodes_another_decodes(server: RegistryServer, client: RegistryClient) -> None:
    await client.announce({TOPIC: DocumentChange})
    data = Codec(DocumentChange, registry=client).encode(CHANGE)

    async with RegistryClient(RegistrySettings(url=server.url)) as other:
        await other.prepare([data, None])

        assert Codec(DocumentChange, registry=other).decode(data) == CHANGE


async def test_earlier_versions_of_a_topic_are_read_at_the_start(
    server: RegistryServer, client: RegistryClient
) -> None:
    earlier = server.add(f"{TOPIC}-value", CONTRACT.replace('"priority"', '"urgency"'))

    await client.announce({TOPIC: DocumentChange})
    asked = len(server.asked)
    data = Codec(DocumentChange, registry=client).encode(CHANGE)
    old = b"\x00" + earlier.to_bytes(4, "big") + data[5:]
    await client.prepare([data, old])

    assert Codec(DocumentChange, registry=client).decode(old).priority == 0
    assert len(server.asked) == asked


async def test_a_schema_is_asked_for_once(server: RegistryServer, client: RegistryClient) -> None:
    schema_id = server.add("anything", CONTRACT)
    record = b"\x00" + schema_id.to_bytes(4, "big")

    await client.prepare([record, record + b"abc"])
    await client.prepare([record])

    assert server.asked == [f"GET /schemas/ids/{schema_id}"]


async def test_records_without_an_id_ask_nothing(server: RegistryServer, client: RegistryClient) -> None:
    await client.prepare([None, b"", b"\x00", b"{}", Codec(DocumentChange).encode(CHANGE)])

    assert server.asked == []


async def test_an_id_that_the_registry_does_not_know_spoils_its_record_and_no_other(client: RegistryClient) -> None:
    await client.announce({TOPIC: DocumentChange})
    codec = Codec(DocumentChange, registry=client)
    good, bad = codec.encode(CHANGE), b"\x00\x00\x00\xff\xffabc"

    await client.prepare([bad, good])

    assert codec.decode(good) == CHANGE
    with pytest.raises(UnknownSchemaIdError, match="schema id 65535 is not in the schema registry"):
        codec.decode(bad)


@pytest.mark.parametrize(
    "answer",
    [
        (404, b"<html>"),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
        (400, {"error_code": 400, "message": "not an id"}),
        (422, b""),
        (403, {"error_code": 40301, "message": "not for you"}),
        (200, b"<html>"),
        (200, {"schemaType": "JSON"}),
        (200, {"schema": 7}),
        (200, b"[" * 100_000),
    ],
)
async def test_however_a_registry_refuses_an_id_it_spoils_its_record_and_no_other(
    server: RegistryServer, client: RegistryClient, answer: Answer
) -> None:
    await client.announce({TOPIC: DocumentChange})
    codec = Codec(DocumentChange, registry=client)
    other = server.add("other", CONTRACT.replace('"priority"', '"urgency"'))
    server.broken_paths["/schemas/ids/65535"] = answer

    await client.prepare([b"\x00\x00\x00\xff\xffabc", b"\x00" + other.to_bytes(4, "big")])

    with pytest.raises(UnknownSchemaIdError):
        codec.decode(b"\x00\x00\x00\xff\xffabc")
    assert client.schema_of(other) is not None


async def test_an_id_that_no_registry_can_give_is_not_asked_for(server: RegistryServer, client: RegistryClient) -> None:
    await client.prepare([b"\x00\xff\xff\xff\xffjunk", b"\x00\x80\x00\x00\x00"])

    assert server.asked == []


async def test_an_id_that_alone_fails_again_and_again_spoils_its_record(
    server: RegistryServer, client: RegistryClient
) -> None:
    await client.announce({TOPIC: DocumentChange})
    server.broken_paths["/schemas/ids/65535"] = (500, {"error_code": 50001, "message": "overflow"})
    attempts = 1
    with pytest.raises(Unavailable):
        await client.prepare([b"\x00\x00\x00\xff\xff"])
    while attempts < Backoff().attempts:
        attempts += 1
        with suppress(Unavailable):
            await client.prepare([b"\x00\x00\x00\xff\xff"])
            break

    assert attempts == Backoff().attempts - 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [((404, b"<html>"), Misconfigured), ((503, b""), Unavailable), ((200, b"<html>"), Misconfigured)],
)
async def test_what_answers_in_place_of_the_registry_is_not_the_record_s_fault(
    server: RegistryServer, client: RegistryClient, answer: Answer, kind: type[InfraError]
) -> None:
    await client.announce({TOPIC: DocumentChange})
    server.broken = answer

    for _ in range(20):
        with pytest.raises(InfraError) as failure:
            await client.prepare([b"\x00\x00\x00\xff\xff"])
        assert type(failure.value) is kind


async def test_a_registry_without_our_contracts_is_told_from_another_server(server: RegistryServer) -> None:
    server.broken_paths["/schemas/ids/7"] = (404, b"<html>")
    async with RegistryClient(RegistrySettings(url=server.url)) as client:
        await client.prepare([b"\x00\x00\x00\x00\x07"])
    async with RegistryClient(RegistrySettings(url=f"{server.url}/elsewhere")) as client:
        with pytest.raises(Misconfigured, match="base URL"):
            await client.prepare([b"\x00\x00\x00\x00\x07"])


async def test_a_name_and_a_password_are_sent(server: RegistryServer) -> None:
    server.account = "freki:swordfish"

    async with RegistryClient(settings(server, "freki", "swordfish")) as client:
        await client.announce({TOPIC: DocumentChange})

    assert server.schemas == [CONTRACT]


async def test_a_wrong_password_is_named_as_such_and_not_shown(server: RegistryServer) -> None:
    server.account = "freki:swordfish"

    async with RegistryClient(settings(server, "freki", "sardine")) as client:
        with pytest.raises(Misconfigured, match="FREKI_REGISTRY__USERNAME and __PASSWORD") as failure:
            await client.announce({TOPIC: DocumentChange})

    assert "sardine" not in str(failure.value)


async def test_an_account_that_may_not_register_is_told_what_it_lacks(
    server: RegistryServer, client: RegistryClient
) -> None:
    server.read_only = True

    with pytest.raises(Misconfigured, match=r"User may not write: .*what that account may do"):
        await client.announce({TOPIC: DocumentChange})


async def test_a_contract_that_the_subject_refuses_is_named(server: RegistryServer, client: RegistryClient) -> None:
    server.add(f"{TOPIC}-value", '"string"')
    server.frozen = True

    with pytest.raises(Misconfigured, match=r"freki\.documents\.v1-value.*incompatible"):
        await client.announce({TOPIC: DocumentChange})


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((500, {"error_code": 50001, "message": "Error in the backend datastore"}), Unavailable),
        ((503, b"<html>"), Unavailable),
        ((429, {}), Unavailable),
        ((404, b"<html>"), Misconfigured),
        ((301, b""), Misconfigured),
        ((200, b"<html>"), Misconfigured),
        ((200, {"name": "another service"}), Misconfigured),
    ],
)
async def test_a_server_in_trouble_is_waited_for_and_another_kind_of_server_is_not(
    server: RegistryServer, client: RegistryClient, answer: Answer, kind: type[InfraError]
) -> None:
    server.broken = answer

    with pytest.raises(InfraError) as failure:
        await client.announce({TOPIC: DocumentChange})

    assert type(failure.value) is kind


async def test_a_url_that_leads_nowhere_is_named() -> None:
    with pytest.raises(Unavailable, match="registry"):
        async with RegistryClient(RegistrySettings(url="http://127.0.0.1:1")) as client:
            await client.announce({TOPIC: ContextQuery})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (RegistrySettings(), "FREKI_REGISTRY__URL is not set"),
        (RegistrySettings(url="http://me:swordfish@127.0.0.1"), "FREKI_REGISTRY__USERNAME"),
        (RegistrySettings(url="http://127.0.0.1", username="me"), "FREKI_REGISTRY__PASSWORD"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(wrong: RegistrySettings, message: str) -> None:
    with pytest.raises(Misconfigured, match=message) as failure:
        RegistryClient(wrong)

    assert "swordfish" not in str(failure.value)


def all_below(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*map(all_below, kind.__subclasses__()))


@pytest.mark.parametrize(
    "kind", sorted(all_below(httpx.HTTPError) | all_below(httpx.StreamError) | {httpx.InvalidURL}, key=str)
)
def test_every_exception_of_the_http_client_becomes_ours(kind: type[BaseException]) -> None:
    error = kind.__new__(kind)

    with pytest.raises(InfraError), _translated("http://127.0.0.1"):
        raise error
