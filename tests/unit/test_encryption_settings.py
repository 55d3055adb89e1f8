"""What changes with the settings of encryption."""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import NoOpTracer

from freki.infra.settings import EncryptionSettings, Settings
from freki.infra.telemetry.calls import Calls
from freki.schemas import ContextQuery, QueryId, ResultStatus
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.direct import Batches, Mailboxes
from freki.streams.wire.from_settings import generation_of, rows_version
from freki.streams.wire.parts import Parts
from freki.streams.wire.query_parts import QueryParts
from freki.streams.wire.rules import fingerprints_of
from tests.received import received_query
from tests.unit.questions import now, retriever
from tests.unit.revisions import TENANT, World

ENCRYPTED = EncryptionSettings(keys="local", key_file=Path("freki.keys"))


def test_documents_that_were_made_plain_are_those_made_with_other_settings() -> None:
    plain = Settings()
    encrypted = Settings(encryption=ENCRYPTED)
    assert rows_version(plain) != rows_version(encrypted)
    assert not fingerprints_of(plain) & fingerprints_of(encrypted)
    # The generation stays: its plain rows are read on.
    assert generation_of(plain, embedder="e", dim=1) == generation_of(encrypted, embedder="e", dim=1)


@pytest.mark.parametrize(
    ("encryption", "status"),
    [(EncryptionSettings(), ResultStatus.EMPTY), (ENCRYPTED, ResultStatus.REJECTED)],
    ids=["plain", "encrypted"],
)
async def test_the_beginning_of_a_name_is_refused_only_where_names_are_encrypted(
    encryption: EncryptionSettings, status: ResultStatus
) -> None:
    world, mailboxes = World(), Mailboxes()
    parts = Parts(Settings(encryption=encryption), NoOpTracer(), Meters(), Calls(), mailboxes=mailboxes)
    no_broker: Any = None
    parts.outbox, parts._embedder = no_broker, world.embedder
    handler = await QueryParts(parts)._query_handler(retriever(world))
    batches = Batches(handler.handle, mailboxes.results, most=1, in_flight=1)
    begins = "name STARTS WITH Hand"
    query = ContextQuery(query_id=QueryId("q"), tenant=TENANT, text="Was?", asked_at=now(), where=begins)

    assert (await batches.ask(received_query(query, ()), patience_s=60)).status is status
