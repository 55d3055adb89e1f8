from freki.cli.compare_generations import _recorded
from freki.infra.kafka import KafkaProducer
from freki.infra.kafka.admin import Admin
from freki.infra.settings import ClaimSettings, KafkaSettings, RegistrySettings, Settings
from freki.schemas import ContextQuery, QueryId, TenantId, Timestamp
from freki.schemas.avro import Codec, packaged_contracts
from freki.streams.topics import Topics
from tests.contract.registry_server import running_registry

FINGERPRINT_BYTES = 10


async def test_queries_of_services_that_registered_a_schema_of_their_own_are_compared_too(
    kafka: KafkaSettings, topics: Topics
) -> None:
    query = ContextQuery(
        query_id=QueryId("1"), tenant=TenantId("t"), text="Urlaub", principals=("everyone",), asked_at=Timestamp(1)
    )
    with running_registry() as server:
        # The same contract in other words: as no subject of ours has it, starting up does not read it.
        text = packaged_contracts().current(ContextQuery.__name__).text
        theirs = server.add("theirs-value", f"{text} ").to_bytes(4, "big")
        async with Admin(kafka) as admin, KafkaProducer(kafka) as producer:
            await admin.ensure_topics([topics.queries])
            value = b"\0" + theirs + Codec(ContextQuery).encode(query)[FINGERPRINT_BYTES:]
            await (await producer.send(topics.queries.name, key=b"1", value=value))

        settings = Settings(
            kafka=kafka, registry=RegistrySettings(url=server.url), claims=ClaimSettings(inline_bytes=10_000)
        )
        found = await _recorded(settings, None, None)

    assert [each.query for each in found] == [query]
