"""A real schema registry: Apicurio, by Confluent's interface."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from freki.infra.local.stack import LocalStack
from freki.infra.local.state import settings_for
from freki.infra.registry import RegistryClient
from freki.infra.settings import RegistrySettings, Settings
from freki.schemas import DocumentChange, IndexOutcome
from freki.schemas.avro import Codec, UnknownSchemaIdError
from freki.schemas.avro.codec import schema_id_of
from freki.schemas.errors import Misconfigured
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.provision import apply_topics
from tests.acceptance.conftest import Children, Freki
from tests.acceptance.helpers import all_values, ask, documents, publish, upsert
from tests.neighbours.apicurio import CONFLUENT, running_apicurio

TOPIC = "freki.documents.v1"
CHANGE = upsert("t", "d", "Die Frist endet im Mai.")


@pytest.fixture(scope="module")
async def registry() -> AsyncIterator[str]:
    opened = running_apicurio()
    url = await asyncio.to_thread(opened.__enter__)
    yield url
    await asyncio.to_thread(opened.__exit__, None, None, None)


async def test_records_carry_its_ids(registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREKI_REGISTRY__URL", registry)
    settings = Settings(local=Settings().local.elsewhere(tmp_path))
    children = Children()
    async with LocalStack(settings, report=children.report, prepare=apply_topics) as stack:
        freki = Freki(settings_for(settings, stack.state), children)
        await publish(freki, CHANGE)
        result = await ask(freki, "t", "Wann endet die Frist?", deadline_ms=60_000)
        values = await all_values(freki)

    assert documents(result) == ["d"]
    # A document, its chunks twice, its outcome, a question and its answer.
    assert len(values) == 6
    ids = {schema_id_of(value) for value in values}
    assert None not in ids
    async with httpx.AsyncClient(base_url=registry) as client:
        for schema_id in ids:
            assert (await client.get(f"/schemas/ids/{schema_id}")).is_success
        subjects = (await client.get("/subjects")).json()
    assert {f"{topic.name}-value" for topic in topics_of(settings) if topic.holds is not None} <= set(subjects)


async def test_what_one_process_encodes_another_decodes(registry: str) -> None:
    async with RegistryClient(RegistrySettings(url=registry)) as one:
        await one.announce({TOPIC: DocumentChange, "freki.outcomes.v1": IndexOutcome})
        data = Codec(DocumentChange, registry=one).encode(CHANGE)
        assert one.id_of("DocumentChange") != one.id_of("IndexOutcome")

    async with RegistryClient(RegistrySettings(url=registry)) as other:
        unknown = b"\x00\x00\x00\xff\xffabc"
        await other.prepare([data, unknown])
        codec = Codec(DocumentChange, registry=other)
        assert codec.decode(data) == CHANGE
        with pytest.raises(UnknownSchemaIdError, match="schema id 65535 is not in the schema registry"):
            codec.decode(unknown)


async def test_a_contract_that_the_subject_refuses_is_named(registry: str) -> None:
    async with httpx.AsyncClient(base_url=registry) as client:
        path = "/subjects/taken.v1-value/versions"
        assert (await client.post(path, json={"schema": '"string"'})).is_success
        assert (await client.put("/config/taken.v1-value", json={"compatibility": "FULL_TRANSITIVE"})).is_success

    async with RegistryClient(RegistrySettings(url=registry)) as freki:
        with pytest.raises(Misconfigured, match=r"taken\.v1-value.*use another topic version"):
            await freki.announce({"taken.v1": DocumentChange})


async def test_the_registry_without_the_path_of_confluents_interface_is_named(registry: str) -> None:
    async with RegistryClient(RegistrySettings(url=registry.removesuffix(CONFLUENT))) as freki:
        with pytest.raises(Misconfigured, match=r"is FREKI_REGISTRY__URL the base URL of a schema registry\?"):
            await freki.announce({TOPIC: DocumentChange})
