"""The thin client beside a running stack, as services use it."""

import asyncio
import secrets
import sys
from pathlib import Path

from freki.client import (
    BlockingClient,
    Broker,
    Client,
    ContextResult,
    IndexOutcome,
    OutcomeStatus,
    ResultStatus,
)
from tests.acceptance.conftest import Freki


def broker_of(freki: Freki) -> Broker:
    kafka = freki.settings.kafka
    return Broker(
        bootstrap=kafka.bootstrap,
        prefix=kafka.topic_prefix,
        idempotent=kafka.profile == "kafka",
        fetch_wait_ms=20,
        generation=freki.settings.milvus.generation,
    )


async def test_a_service_publishes_waits_asks_follows_and_deletes(freki: Freki) -> None:
    tenant = f"thin-{secrets.token_hex(4)}"
    async with Client(broker_of(freki), tenant=tenant) as client:
        published = [
            await client.publish(f"{number}.md", f"Die Gebühr {number} beträgt zehn Euro.", principals=["everyone"])
            for number in range(3)
        ]
        receipts = await asyncio.gather(*(client.wait(each) for each in published))
        answers = await asyncio.gather(*(client.ask("Wie hoch ist die Gebühr?", top_k=n) for n in (1, 2, 3)))
        deleted = await client.wait(await client.delete("0.md"))
        after = await client.ask("Wie hoch ist die Gebühr?", top_k=3)

        # A deletion has two records, and a receipt for each.
        followed: dict[tuple[str, OutcomeStatus], IndexOutcome] = {}
        async for outcome in client.subscribe(IndexOutcome, start="earliest"):
            followed.setdefault((outcome.document_id, outcome.status), outcome)
            if len(followed) == len(receipts) + 1:
                break
        async for result in client.subscribe(ContextResult, start="earliest"):
            assert result.tenant == tenant
            break

    assert {each.status for each in receipts} == {OutcomeStatus.INDEXED}
    assert [len(each.hits) for each in answers] == [1, 2, 3]
    assert deleted.status is OutcomeStatus.DELETED
    assert {hit.document_id for hit in after.hits} == {"1.md", "2.md"}
    indexed = [(f"{number}.md", OutcomeStatus.INDEXED) for number in range(3)]
    assert followed.keys() == {*indexed, ("0.md", OutcomeStatus.DELETED)}
    of_first = [status for name, status in followed if name == "0.md"]
    assert of_first == [OutcomeStatus.INDEXED, OutcomeStatus.DELETED]


async def test_of_changes_at_once_the_last_one_stays(freki: Freki) -> None:
    async with Client(broker_of(freki), tenant=f"thin-{secrets.token_hex(4)}") as client:
        texts = [f"Die Gebühr beträgt {number} Euro." for number in range(5)]
        published = await asyncio.gather(*(client.publish("a.md", text, principals=["everyone"]) for text in texts))
        for each in published:
            await client.wait(each)
        result = await client.ask("Wie hoch ist die Gebühr?")

    assert len({each.change.version for each in published}) == len(texts)
    assert [hit.text for hit in result.hits] == texts[-1:]


async def test_a_program_without_asyncio_does_the_same(freki: Freki) -> None:
    def use() -> tuple[IndexOutcome, ContextResult, IndexOutcome]:
        with BlockingClient(broker_of(freki), tenant=f"thin-{secrets.token_hex(4)}") as client:
            receipt = client.wait(client.publish("a.md", "Der Antrag ist schriftlich.", principals=["everyone"]))
            result = client.ask("Wie ist der Antrag zu stellen?")
            followed = client.subscribe(IndexOutcome, start="earliest")
            first = next(followed)
            followed.close()
            return receipt, result, first

    receipt, result, first = await asyncio.to_thread(use)

    assert receipt == first
    assert result.status is ResultStatus.COMPLETE
    assert result.hits[0].document_id == "a.md"


async def test_the_example_runs(freki: Freki) -> None:
    example = Path(__file__).parents[2] / "examples" / "python" / "publish_and_ask.py"

    process = await asyncio.create_subprocess_exec(
        sys.executable, str(example), freki.settings.kafka.bootstrap, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()

    assert process.returncode == 0
    assert b"schriftlich zu stellen" in printed
