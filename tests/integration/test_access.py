"""What is read out of topics, claims and audit log about one person, and nothing about others."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from freki.infra.claims import ClaimStore
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import AuditSettings, ClaimSettings, MilvusSettings, Settings
from freki.infra.signing import make_key
from freki.operators.audit_chain import Event
from freki.operators.identify import record_key, root_id
from freki.schemas import (
    AuditedDocument,
    AuditKind,
    Coverage,
    DocumentChange,
    DocumentId,
    Hold,
    Objection,
    Operation,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.index import Generation
from freki.streams.messages import Outgoing
from freki.streams.privacy.current_cases import case_key
from freki.streams.wire.audit import open_audit
from freki.streams.wire.erasing.access import Access, Item
from freki.streams.wire.erasing.places import Places
from tests.erasing import hold
from tests.integration.stages import World
from tests.memory_index import MemoryIndex

TENANT, LAW, OTHER = TenantId("hr"), DocumentId("law"), DocumentId("theirs.md")
MINE, THEIRS = {"subject": "mine"}, {"subject": "theirs"}


@pytest.fixture
def settings(world: World, store: MilvusSettings, tmp_path: Path) -> Settings:
    """Settings with claims and topics of the test's own."""
    return Settings(
        kafka=world.kafka,
        milvus=store,
        tenant=TENANT,
        claims=ClaimSettings(directory=str(tmp_path / "claims"), inline_bytes=50_000),
    )


async def read(world: World, settings: Settings, covers: Coverage) -> list[Item]:
    """Read out what is held."""
    index = cast("MilvusIndex", MemoryIndex(Generation(name="g1", embedder="e", dim=4, analyser="a")))
    places = Places(settings, index=index, registry=None, outbox=world.outbox, patience_s=1.0)
    access = Access(settings, index=index, registry=None, places=places)
    return [item async for item in access.read(TENANT, covers)]


async def publish(world: World, *versions: int, attributes: dict[str, str], **fields: Any) -> None:
    """Put changes of a document on their topic."""
    for version in versions:
        change = DocumentChange(
            tenant=TENANT,
            document_id=LAW,
            operation=Operation.UPSERT,
            version=version,
            occurred_at=Timestamp(1),
            attributes=attributes,
            **fields,
        )
        await world.publish((record_key(TENANT, LAW), Codec(DocumentChange).encode(change)))


def told(items: list[Item], what: str) -> list[Item]:
    return [item for item in items if item["what"] == what]


async def test_holds_objections_and_entries_of_the_audit_log_name_no_documents_of_others(
    world: World, settings: Settings, tmp_path: Path
) -> None:
    make_key(tmp_path / "audit.key")
    log = AuditSettings(enabled=True, key_file=tmp_path / "audit.key", directory=tmp_path / "log")
    settings = settings.model_copy(update={"audit": log})
    await publish(world, 2, attributes=MINE, content="text")
    await publish(world, 3, attributes=THEIRS, content="text")
    both = Coverage(documents=(OTHER, LAW))
    holds = [hold("court", both), hold("theirs", Coverage(attributes=THEIRS)), hold("mine", Coverage(attributes=MINE))]
    objection = Objection(
        tenant=TENANT, name="art-21", covers=both, reason="", recorded_by="test", recorded_at=Timestamp(1)
    )
    for topic, record in [
        *((world.topics.holds, (each.name, Codec(Hold).encode(each))) for each in holds),
        (world.topics.objections, (objection.name, Codec(Objection).encode(objection))),
    ]:
        await world.outbox.send(Outgoing(topic=topic.name, key=case_key(TENANT, record[0]), value=record[1]))
    documents = tuple(AuditedDocument(document_id=each, version=2) for each in (LAW, OTHER))
    async with open_audit(settings, world.outbox) as audit:
        assert audit is not None
        await audit.record(Event(kind=AuditKind.ASKED, tenant=TENANT, documents=documents))

    items = await read(world, settings, Coverage(attributes=MINE))

    assert {each["name"]: each["covers"]["documents"] for each in told(items, "hold")} == {"court": [LAW], "mine": []}
    assert [each["covers"]["documents"] for each in told(items, "objection")] == [[LAW]]
    assert [[one["document_id"] for one in each["documents"]] for each in told(items, "audit_entry")] == [[LAW]]
    assert Counter(each["what"] for each in items if each.get("other_documents")) == dict.fromkeys(
        ("hold", "objection", "audit_entry"), 1
    )
    assert OTHER not in str(items)
    whole = await read(world, settings, Coverage(documents=(LAW,)))
    assert {each["name"] for each in told(whole, "hold")} == {"court", "mine", "theirs"}


async def test_a_claim_of_a_version_of_which_nobody_knows_whom_it_is_about_is_told_by_id_alone(
    world: World, settings: Settings
) -> None:
    claims = ClaimStore(settings.claims)
    written = [await claims.put(b"text", document=root_id(TENANT, LAW), version=version) for version in (1, 2)]
    # Compaction has removed the change of version 1.
    await publish(world, 2, attributes=MINE, claim=written[1])

    by_attribute, by_id = [
        await read(world, settings, covers) for covers in (Coverage(attributes=MINE), Coverage(documents=(LAW,)))
    ]

    assert [each["version"] for each in told(by_attribute, "claim")] == [2]
    assert by_attribute[-1]["withheld"] == {LAW: 1}
    assert [each["version"] for each in told(by_id, "claim")] == [1, 2]
    assert by_id[-1]["withheld"] == {}


async def test_records_of_one_kind_are_decoded_by_one_codec(
    world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Counter[type[Any]]()

    class Counted(Codec[Any]):
        def __init__(self, record: type[Any], **options: Any) -> None:
            made[record] += 1
            super().__init__(record, **options)

    monkeypatch.setattr("freki.streams.wire.erasing.access.Codec", Counted)
    await publish(world, 1, 2, 3, attributes=MINE, content="text")

    items = await read(world, settings, Coverage(attributes=MINE))

    assert [each["version"] for each in told(items, "version")] == [1, 2, 3]
    assert made == {DocumentChange: 1}
