import pytest
from opentelemetry.context import Context

from freki.operators.errors import InvalidChange, InvalidEnvelope
from freki.operators.map_envelope import Envelope
from freki.schemas import DocumentChange, DocumentId, Operation, TenantId, Timestamp
from freki.streams.messages import Received
from freki.streams.relaying import relaying


def received(text: str) -> Received[bytes | None]:
    return Received(
        value=text.encode(),
        key=b"k",
        headers=(),
        topic="shop",
        partition=0,
        offset=3,
        timestamp=Timestamp(5),
        trace=Context(),
    )


def mapped(envelope: Envelope) -> DocumentChange | None:
    text = (envelope.value or b"").decode()
    if text == "bad":
        raise InvalidEnvelope("bad")
    if text == "nothing":
        return None
    return DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId(text),
        operation=Operation.DELETE,
        version=envelope.offset,
        occurred_at=envelope.timestamp,
    )


class Published(list[str]):
    async def take(self, *changes: DocumentChange) -> None:
        self.extend(change.document_id for change in changes)


async def test_what_records_tell_of_is_published_in_order() -> None:
    published = Published()

    await relaying(mapped, published.take)([received("b"), received("nothing"), received("a")])

    assert published == ["b", "a"]


@pytest.mark.parametrize(("text", "error"), [("bad", InvalidEnvelope), ("x" * 600, InvalidChange)])
async def test_a_bad_record_among_others_publishes_none_of_them_twice(text: str, error: type[Exception]) -> None:
    published = Published()

    with pytest.raises(error):
        await relaying(mapped, published.take)([received("a"), received(text)])

    assert published == []
