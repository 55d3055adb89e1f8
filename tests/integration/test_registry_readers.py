"""Clients read what workers of a later version write, where a registry has its contract."""

import json

from freki.infra.settings import RegistrySettings, Settings
from freki.schemas import DocumentChange, DocumentId, IndexOutcome, Operation, OutcomeStatus, TenantId, Timestamp
from freki.schemas.avro import Codec, packaged_contracts
from freki.streams.messages import Outgoing
from freki.streams.wire.connect import open_receipts
from tests.contract.registry_server import running_registry
from tests.integration.stages import PATIENCE_S, World
from tests.unit.receipts import a_receipt

CHANGE = DocumentChange(
    tenant=TenantId("t"),
    document_id=DocumentId("d"),
    operation=Operation.UPSERT,
    version=1,
    occurred_at=Timestamp(0),
    content="x",
)


async def test_a_receipt_of_a_later_version_is_read(world: World) -> None:
    later = json.loads(packaged_contracts().current("IndexOutcome").text)
    later["doc"] = "Of a later version."
    frame = Codec(IndexOutcome).encode(a_receipt(OutcomeStatus.INDEXED))
    with running_registry() as registry:
        read = RegistrySettings(url=registry.url)
        settings = Settings().model_copy(update={"kafka": world.kafka, "registry": read})
        async with open_receipts(settings) as receipts:
            receipts.expect(CHANGE)
            schema_id = registry.add("later", json.dumps(later))
            value = b"\x00" + schema_id.to_bytes(4, "big") + frame[10:]
            await world.outbox.send(Outgoing(topic=world.topics.outcomes.name, key=b"t/d", value=value))

            receipt = await receipts.next(patience_s=PATIENCE_S)

    assert receipt == a_receipt(OutcomeStatus.INDEXED)
