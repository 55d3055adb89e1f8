import asyncio
from asyncio import CancelledError
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from rich.progress import Progress

from freki.cli.changes import Make
from freki.cli.receipts import BATCH_CHANGES, Sent, line, send, show_receipts
from freki.infra.claims import ClaimStore
from freki.infra.settings import Settings
from freki.schemas import DocumentChange, DocumentId, Operation, OutcomeStatus, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.errors import Rejected
from freki.schemas.names import LARGEST_INTEGER
from freki.streams.client import Publisher
from freki.streams.deliver.outbox import Outbox
from freki.streams.messages import Headers
from freki.streams.observe.tracing import UNTRACED
from tests.unit.receipts import a_receipt


@dataclass
class Broker:
    """A broker that refuses records with some texts, and what came in which order."""

    refused: frozenset[bytes] = frozenset()
    course: list[str] = field(default_factory=list)

    async def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Awaitable[object]:
        assert value is not None
        assert (topic, key, headers, partition) == ("documents", b"t/" + value, (), None)
        if value in self.refused:
            raise Rejected("too large")
        self.course.append(value.decode())
        return _stored()


async def _stored() -> None:
    return None


def change(text: str) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId(text),
        operation=Operation.UPSERT,
        version=1,
        occurred_at=Timestamp(0),
        content=text,
    )


def encoded(each: DocumentChange) -> bytes:
    if each.priority > LARGEST_INTEGER:
        Codec(DocumentChange).encode(each)
    return str(each.content).encode()


async def sent(broker: Broker, makes: Iterable[Make], *, record: bool = False) -> Sent:
    publisher = Publisher(
        outbox=Outbox(broker, UNTRACED),
        encode=encoded,
        topic="documents",
        claims=ClaimStore(Settings().claims),
        inline_bytes=1000,
    )

    async def write(changes: Sequence[DocumentChange]) -> None:
        broker.course.append(f"recorded {len(changes)}")

    with Progress(disable=True) as progress:
        return await send(publisher, None, makes, total=0, progress=progress, record=write if record else None)


def unusable() -> DocumentChange:
    raise Rejected("a.md: Permission denied")


async def test_changes_are_sent_in_order_and_what_makes_none_is_counted() -> None:
    broker = Broker()
    texts = [str(number) for number in range(BATCH_CHANGES + 3)]

    found = await sent(broker, [partial(lambda: None), *(partial(change, text) for text in texts)])

    assert found == Sent(changes=len(texts), unchanged=1)
    assert broker.course == texts


async def test_what_is_sent_is_recorded_before(capsys: pytest.CaptureFixture[str]) -> None:
    broker = Broker()
    texts = [str(number) for number in range(BATCH_CHANGES + 1)]

    await sent(broker, [unusable, *(partial(change, text) for text in texts)], record=True)

    assert broker.course == [f"recorded {BATCH_CHANGES}", *texts[:-1], "recorded 1", texts[-1]]
    assert "not published: a.md: Permission denied" in capsys.readouterr().err


async def test_a_change_that_the_broker_refuses_holds_up_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    broker = Broker(refused=frozenset({b"b"}))

    found = await sent(broker, [partial(change, text) for text in "abc"])

    assert found == Sent(changes=2, unchanged=0)
    assert set(broker.course) == {"a", "c"}
    assert "not published: b: too large" in capsys.readouterr().err


async def test_who_interrupts_is_told_what_was_sent(capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(Broker):
        async def send(
            self,
            topic: str,
            *,
            key: bytes | None,
            value: bytes | None,
            headers: Headers = (),
            partition: int | None = None,
        ) -> Awaitable[object]:
            if len(self.course) == BATCH_CHANGES:
                raise CancelledError
            return await super().send(topic, key=key, value=value, headers=headers, partition=partition)

    makes = [partial(change, f"a{number}") for number in range(2 * BATCH_CHANGES)]
    with pytest.raises(CancelledError):
        await sent(Interrupted(), makes)

    told = " ".join(capsys.readouterr().err.split())
    assert told.startswith(f"{BATCH_CHANGES} changes of ")
    assert "the same command publishes the rest" in told


async def test_who_interrupts_while_all_is_unchanged_waits_for_no_more_files() -> None:
    read: list[int] = []

    def make(number: int) -> None:
        read.append(number)
        # As Ctrl-C does.
        sending.cancel()

    sending = asyncio.ensure_future(sent(Broker(), [partial(make, number) for number in range(3)]))
    with pytest.raises(CancelledError):
        await sending

    assert read == [0]


async def test_a_change_that_no_record_can_hold_is_named_and_does_not_hinder_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = Broker()
    makes = [partial(change, "a"), partial(replace, change("b"), priority=LARGEST_INTEGER + 1), partial(change, "c")]

    found = await sent(broker, makes)

    assert (found, broker.course) == (Sent(changes=2, unchanged=0), ["a", "c"])
    assert "not published: b: DocumentChange: freki.DocumentChange.priority must be long" in capsys.readouterr().err


def test_what_was_searchable_before_it_was_read_has_no_delay(capsys: pytest.CaptureFixture[str]) -> None:
    repeated = a_receipt(OutcomeStatus.UNCHANGED, received_at=Timestamp(20_000), searchable_at=Timestamp(1_000))

    assert show_receipts([repeated], missing=0)

    assert "searchable" not in capsys.readouterr().out
    assert " ms" not in line(repeated).plain
