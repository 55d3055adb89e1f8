"""Erasures wait for workers that still hold what they would copy, on the real broker."""

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import pytest

from freki.infra.claims import ClaimStore
from freki.infra.kafka.app import make_app
from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import ClaimSettings, MilvusSettings, Settings
from freki.operators.identify import record_key, root_id
from freki.schemas import ClaimCheck, Coverage, DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.findings import UnreadRecords
from freki.schemas.index import Generation
from freki.schemas.names import LARGEST_INTEGER, key_of_texts
from freki.streams.deliver.lanes import Lane
from freki.streams.deliver.stage import Stage
from freki.streams.messages import VERSION_HEADER, Outgoing, version_in
from freki.streams.wire.erasing.consumers import Consumers
from freki.streams.wire.erasing.places import Places
from freki.streams.wire.from_settings import group_of, ingest_sources, wall_clock
from tests.integration.stages import Batch, World, running
from tests.memory_index import MemoryIndex

IN_USE, OTHER = "g2", "g1"


def settings_of(world: World, generation: str = IN_USE) -> Settings:
    claims = ClaimSettings(inline_bytes=world.kafka.max_message_bytes // 2)
    return Settings(kafka=world.kafka, milvus=MilvusSettings(generation=generation), claims=claims)


def groups_of(settings: Settings, topic: str) -> list[str]:
    return sorted(group_of(settings, source.group) for source in ingest_sources(settings) if source.topic == topic)


def places_of(world: World, settings: Settings) -> Places:
    index = cast("MilvusIndex", MemoryIndex(Generation(name=IN_USE, embedder="e", dim=4, analyser="a")))
    return Places(settings, index=index, registry=None, outbox=world.outbox, patience_s=1.0)


def consumers(world: World, *generations: str, patience_s: float = 30.0) -> Consumers:
    async def stored() -> tuple[str, Collection[str]]:
        return IN_USE, generations

    # The settings are those of before a switch.
    return Consumers(settings_of(world, OTHER), stored, patience_s=patience_s)


async def at(world: World) -> dict[int, int]:
    """Return the offset of the last record of each partition of `documents` that has one."""
    return {record.partition: record.offset for record in await world.read_all(world.topics.documents)}


async def test_an_erasure_waits_until_all_workers_have_sent_what_they_make_of_a_record(world: World) -> None:
    topic, free = world.topics.documents, asyncio.Event()

    async def holds_it(batch: Batch) -> None:
        await free.wait()
        await world.forward(batch)

    groups = groups_of(settings_of(world), topic.name)
    stages: list[Stage] = [
        world.of_group(make_app(world.kafka, group, state_dir=world.state / group), holds_it) for group in groups
    ]
    await world.publish((b"hr/law", b"text"))
    lasts = await at(world)
    async with running(*stages):
        waiting = asyncio.create_task(consumers(world, IN_USE).behind(topic.name, lasts))
        await asyncio.wait({waiting}, timeout=1.0)
        waited = not waiting.done()
        free.set()
        behind = await waiting
        copies = await world.read_all(world.topics.chunks[Lane.REGULAR])

    assert len(groups) == 2, "urgent changes have a group of their own"
    assert (waited, behind) == (True, [])
    assert [copy.value for copy in copies] == [b"text"] * len(groups)


async def test_where_nobody_reads_an_erasure_says_so_and_waits_for_other_generations_only_while_they_advance(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freki.streams.wire.erasing.consumers._STANDS_STILL_S", 0.1)
    topic = world.topics.documents.name
    await world.publish((b"hr/law", b"text"))
    lasts = await at(world)

    behind = await consumers(world, OTHER, IN_USE, patience_s=1.0).behind(topic, lasts)

    assert sorted(behind, key=lambda each: (each.is_in_use, each.group)) == [
        UnreadRecords(topic=topic, partition=partition, group=group, is_in_use=name == IN_USE)
        for name in (OTHER, IN_USE)
        for group in groups_of(settings_of(world, name), topic)
        for partition in lasts
    ]
    # Nobody reads the answers between stages.
    assert await consumers(world, IN_USE, patience_s=0.1).behind(world.topics.contexts.name, {0: 9}) == []


def encoded(tenant: TenantId, name: DocumentId, *, version: int = 3, **fields: Any) -> bytes:
    """Encode a change that publishes a version of a document, unless the fields say otherwise."""
    change = DocumentChange(
        tenant=tenant,
        document_id=name,
        version=version,
        occurred_at=Timestamp(1),
        **{"operation": Operation.UPSERT, "content": None if "claim" in fields else "text"} | fields,
    )
    return Codec(DocumentChange).encode(change)


async def test_documents_whose_changes_cannot_be_decoded_are_found_by_their_key_and_named_where_attributes_decide(
    world: World,
) -> None:
    tenant, settings = TenantId("hr"), settings_of(world)

    def change(name: str) -> tuple[bytes, bytes]:
        document = DocumentId(name)
        return record_key(tenant, document), encoded(tenant, document, attributes={"subject": "4711"})

    def registered(key: bytes, frame: bytes) -> tuple[bytes, bytes]:
        return key, b"\x00\x00\x00\x00\x07" + frame[10:]

    await world.publish(change("plain"), registered(*change("registered")), (b"hr/damaged", b"no change"))
    places = places_of(world, settings)

    by_id = await places.covered(tenant, Coverage(documents=(DocumentId("damaged"), DocumentId("registered"))))
    whole = await places.covered(tenant, Coverage(whole_tenant=True))
    by_attribute = await places.covered(tenant, Coverage(attributes={"subject": "4711"}))

    assert [(each.document_id, each.version) for each in by_id.documents] == [("damaged", 1), ("registered", 1)]
    assert [each.document_id for each in whole.documents] == ["damaged", "plain", "registered"]
    assert (by_id.undecided, whole.undecided) == ({}, {})
    assert [each.document_id for each in by_attribute.documents] == ["plain"]
    assert list(by_attribute.undecided) == ["registered"]
    assert "FREKI_REGISTRY__URL" in by_attribute.undecided[DocumentId("registered")]


@pytest.mark.parametrize("corrected", [None, 3], ids=["erased", "rectified"])
async def test_what_compaction_would_keep_goes_from_every_partition_of_its_key_and_what_is_newer_stays(
    world: World, store: MilvusSettings, corrected: int | None
) -> None:
    tenant, name, settings = TenantId("hr"), DocumentId("law"), settings_of(world)
    settings = settings.model_copy(update={"milvus": store, "tenant": tenant})
    document, judgement = record_key(tenant, name), key_of_texts(tenant, "ada", "q", name)

    def change(version: int) -> bytes:
        return encoded(tenant, name, version=version, content=f"text {version}")

    documents, judgements = world.topics.documents.name, world.topics.judgements.name
    # As they lie after partitions were added: of one key in both.
    for partition, version in ((0, 1), (0, 2), (1, 3)):
        await world.outbox.send(Outgoing(topic=documents, key=document, value=change(version), partition=partition))
        await world.outbox.send(Outgoing(topic=judgements, key=judgement, value=b"good", partition=partition))
    places = places_of(world, settings)

    async def free() -> Collection[DocumentId]:
        return {name}

    async def removed() -> list[str]:
        versions, before_ms = ({name: 3}, None) if corrected is None else ({name: corrected - 1}, wall_clock())
        found = await places.find(tenant, versions, before_ms=before_ms)
        removal = await places.remove(found, still_free=free, superseded=corrected is not None)
        return [each["until"] for each in removal.remains if each.get("topic") == documents]

    if corrected is not None:
        found = await places.find(tenant, {name: corrected - 1}, before_ms=Timestamp(LARGEST_INTEGER))
        times = {record.offset: record.timestamp_ms for record in await world.read_all(world.topics.documents)}
        assert found.latest_ms == times[1], "of version 2, not of the corrected one"
    ends = [await removed(), await removed()]
    kept = await world.read_all(world.topics.documents)
    last = {record.partition: (record.value, version_in(record.headers)) for record in kept}
    marks = {record.partition: record.value for record in await world.read_all(world.topics.judgements)}

    assert last == ({0: (None, 3), 1: (None, 3)} if corrected is None else {0: (None, 2), 1: (change(3), 0)})
    assert marks == dict.fromkeys((0, 1), None if corrected is None else b"good")
    assert len(kept) == (5 if corrected is None else 4), "each is sent once"
    assert ends[0] == ends[1]


async def test_a_change_under_the_key_of_another_document_stays_as_a_null_value_would_delete_that_one(
    world: World, store: MilvusSettings
) -> None:
    tenant, name, documents = TenantId("hr"), DocumentId("law"), world.topics.documents.name
    key, value = record_key(tenant, DocumentId("other")), encoded(tenant, name)
    await world.outbox.send(Outgoing(topic=documents, key=key, value=value, partition=0))
    places = places_of(world, settings_of(world).model_copy(update={"milvus": store}))

    async def free() -> Collection[DocumentId]:
        return {name}

    found = await places.find(tenant, {name: 3})
    removal = await places.remove(found, still_free=free)

    assert [record.value for record in await world.read_all(world.topics.documents)] == [value]
    assert [(each["records"], each["until_ms"]) for each in removal.remains if "topic" in each] == [(1, None)]
    assert [last.version for last in found.lasts] == [None], "an erasure that finds one is incomplete"


async def test_a_rectification_sends_no_null_value_behind_a_change_that_may_be_newer(
    world: World, store: MilvusSettings
) -> None:
    tenant, name, documents = TenantId("hr"), DocumentId("law"), world.topics.documents.name
    settings, key = settings_of(world).model_copy(update={"milvus": store}), record_key(TenantId("hr"), name)
    of_another_registry = b"\x00\x00\x00\x00\x07" + b"a change"
    await world.outbox.send(Outgoing(topic=documents, key=key, value=of_another_registry, partition=0))
    # Of version 1 nothing is older, and a null value without a version would delete it.
    await world.outbox.send(Outgoing(topic=documents, key=key, value=b"no change", partition=1))
    places = places_of(world, settings)

    async def free() -> Collection[DocumentId]:
        return {name}

    found = await places.find(tenant, {name: 0}, before_ms=wall_clock())
    removal = await places.remove(found, still_free=free, superseded=True)

    assert [record.value is None for record in await world.read_all(world.topics.documents)] == [False, False]
    assert [(each["partition"], each["until_ms"]) for each in removal.remains if "topic" in each] == [
        (0, None),
        (1, None),
    ]


async def test_a_claim_that_another_document_named_goes_once_that_one_is_deleted_at_the_version_that_named_it(
    world: World, store: MilvusSettings, tmp_path: Path
) -> None:
    tenant, law = TenantId("hr"), DocumentId("law")
    claims = tmp_path / "claims"
    claims.mkdir()
    (claims / ".freki").touch()
    settings = settings_of(world).model_copy(
        update={"milvus": store, "claims": ClaimSettings(directory=str(claims), inline_bytes=50_000)}
    )

    def names_claim(of: str, name: str, *, version: int = 3) -> tuple[bytes, bytes]:
        (claims / of).write_text("text")
        claim = ClaimCheck(uri=f"{claims}/{of}", size=4, sha256="0" * 64)
        return record_key(tenant, DocumentId(name)), encoded(tenant, DocumentId(name), version=version, claim=claim)

    def deletion(name: str, *, version: int = 3, key: str = "") -> tuple[bytes, bytes]:
        change = encoded(tenant, DocumentId(name), version=version, operation=Operation.DELETE, content=None)
        return record_key(tenant, DocumentId(key or name)), change

    others = ["deleted", "emptied", "again", "before", "elsewhere", "unversioned"]
    await world.publish(*(names_claim(of, name) for of in others for name in (law, of)))
    await world.publish(
        deletion("deleted"),
        deletion("again"),
        names_claim("again", "again", version=4),
        deletion("before", version=2),
        deletion("elsewhere", key="deleted"),
        (record_key(tenant, DocumentId("unversioned")), None),
    )
    null = Outgoing(
        topic=world.topics.documents.name,
        key=record_key(tenant, DocumentId("emptied")),
        value=None,
        headers=((VERSION_HEADER, b"3"),),
    )
    await world.outbox.send(null)
    places = places_of(world, settings)

    async def free() -> Collection[DocumentId]:
        return {law}

    found = await places.find(tenant, {law: 3})
    await places.remove(found, still_free=free)

    assert {Path(uri).name for uri in found.shared} == {"again", "before", "elsewhere", "unversioned"}
    assert {each.name for each in claims.iterdir()} & {*others} == {"again", "before", "elsewhere", "unversioned"}


async def test_claims_of_later_versions_are_told_if_no_change_names_them(
    world: World, store: MilvusSettings, tmp_path: Path
) -> None:
    tenant, law = TenantId("hr"), DocumentId("law")
    settings = settings_of(world).model_copy(
        update={"milvus": store, "claims": ClaimSettings(directory=str(tmp_path / "claims"), inline_bytes=50_000)}
    )
    claims, document = ClaimStore(settings.claims), root_id(tenant, law)
    for version in (1, 2):
        claim = await claims.put(b"text", document=document, version=version)
        await world.publish((record_key(tenant, law), encoded(tenant, law, version=version, claim=claim)))
    unpublished = await claims.put(b"text", document=document, version=3)
    places = places_of(world, settings)

    found = [await places.find(tenant, {law: version}) for version in (1, 3)]

    assert [each.unpublished for each in found] == [{unpublished.uri: (law, 3)}, {}]
    assert unpublished.uri in found[1].claims
