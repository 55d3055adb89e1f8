from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
import structlog

from freki.infra.models.fake import FakeEmbedder
from freki.schemas import DocumentId, IndexOutcome, Judgement, OutcomeStatus
from freki.schemas.avro import Codec
from freki.schemas.embeddings import Embeddings
from freki.streams.deliver.outbox import Outbox
from freki.streams.observe.tracing import UNTRACED
from freki.streams.retrieve.cache.epochs import Epochs
from freki.streams.retrieve.follow_judgements import erase_deleted, erase_what_is_left, follow_judgements
from freki.streams.retrieve.steps.judged import Judgements, judgement_key, key_parts
from freki.streams.topics import DAY_MS
from tests.unit.allocated import allocated_by
from tests.unit.deliveries import Event, FakeProducer
from tests.unit.questions import now
from tests.unit.revisions import TENANT, World, revision
from tests.unit.test_caching import outcome
from tests.unit.test_judged import BOUNDS, QUESTION, boosts, filled, judgement

ENCODE = Codec(Judgement).encode


class Counting(FakeEmbedder):
    embedded = 0

    async def embed_queries(self, texts: Sequence[str]) -> Embeddings:
        self.embedded += len(texts)
        return await super().embed_queries(texts)


async def follow(judgements: Judgements, *events: Event, epochs: Epochs | None = None) -> None:
    async def records() -> AsyncIterator[Event]:
        for event in events:
            yield event

    await follow_judgements(records(), judgements, decode=Codec(Judgement).decode, now=now, epochs=epochs)


def event(judged: Judgement) -> Event:
    return Event(key=judgement_key(judged), value=ENCODE(judged))


async def test_the_topic_is_the_state_and_answers_of_before_it_are_not_given_again() -> None:
    judgements, epochs = Judgements(FakeEmbedder(dim=16), BOUNDS), Epochs(strong=False)
    epochs.followed(follows=True)
    first, second = judgement(), judgement(judge="ben")
    before = epochs.now(TENANT)

    await follow(judgements, event(first), event(second), Event(key=judgement_key(first), value=None), epochs=epochs)

    assert judgements.of_document(TENANT, first.document_id) == [judgement_key(second)]
    assert epochs.now(TENANT) != before


@pytest.mark.parametrize("at", [253_402_214_400_000, 1_732_385_959_000_000_000])
async def test_a_judgement_of_the_future_wears_out_from_when_it_was_recorded(at: int) -> None:
    judgements = Judgements(FakeEmbedder(dim=16), BOUNDS)
    half_life_ms = round(BOUNDS.half_life_days * DAY_MS)

    await follow(
        judgements,
        replace(event(judgement(at=at)), timestamp_ms=now()),
        replace(event(judgement(judge="ben", at=at)), timestamp_ms=now() - half_life_ms),
        replace(event(judgement(judge="worn", at=at)), timestamp_ms=now() - 100 * half_life_ms),
    )

    assert judgements.of_document(TENANT, DocumentId("b")) == [
        judgement_key(judgement(judge=judge)) for judge in ("anna", "ben")
    ]
    await judgements.embed_some()
    (fresh,) = (await boosts(await filled(judgement(), judgement(judge="ben")))).values()
    (worn,) = (await boosts(judgements)).values()
    assert worn < fresh


async def test_what_was_erased_while_nobody_read_is_gone_and_nothing_else_is_embedded_again() -> None:
    # given two judgements, one of which is erased during an outage, and its tombstone compacted away
    embedder, epochs = Counting(dim=16), Epochs(strong=False)
    judgements = Judgements(embedder, BOUNDS)
    epochs.followed(follows=True)
    erased, kept = judgement(), judgement(judge="ben")
    await follow(judgements, event(erased), event(kept), epochs=epochs)
    await judgements.embed_some()
    before = epochs.now(TENANT)

    await follow(judgements, event(kept), epochs=epochs)
    is_waiting = await judgements.embed_some()

    assert judgements.of_document(TENANT, kept.document_id) == [judgement_key(kept)]
    assert len(await boosts(judgements)) == 1
    assert epochs.now(TENANT) != before
    assert (embedder.embedded, is_waiting) == (2, False)


async def test_a_judgement_takes_no_more_memory_than_what_counts_of_it() -> None:
    # Anybody who may query may judge, and each worker that answers keeps all judgements.
    embedder = Counting(dim=16)
    judgements = Judgements(embedder, BOUNDS)
    long = event(judgement(question=QUESTION + " " * 1_000_000))

    with allocated_by(__file__) as memory:
        await follow(judgements, long)
        await judgements.embed_some()
        await follow(judgements, long)
        await judgements.embed_some()
        held_bytes = memory.held_bytes()

    assert held_bytes < 100_000
    assert embedder.embedded == 1, "known from before"
    assert len(await boosts(judgements)) == 1


@pytest.mark.parametrize("field", ["query_id", "document_id", "judge", "chunk_id"])
async def test_a_judgement_whose_ids_are_too_long_is_left_out(field: str) -> None:
    judgements = Judgements(FakeEmbedder(dim=16), BOUNDS)

    with structlog.testing.capture_logs() as logs:
        await follow(judgements, event(judgement(**{field: "x" * 100_000})), event(judgement(judge="ben")))

    assert len(judgements) == 1
    (log,) = logs
    assert log["error"].startswith(f"{field}: 100000 characters are more than")


async def test_an_outage_that_leaves_no_judgement_ends_what_is_remembered_of_answers() -> None:
    judgements, epochs = Judgements(FakeEmbedder(dim=16), BOUNDS), Epochs(strong=False)
    epochs.followed(follows=True)
    await follow(judgements, event(judgement()), epochs=epochs)
    before = epochs.now(TENANT)

    await follow(judgements, epochs=epochs)

    assert len(judgements) == 0
    assert epochs.now(TENANT) != before


async def test_records_that_cannot_be_read_move_nothing_and_are_named() -> None:
    judgements = Judgements(FakeEmbedder(dim=16), BOUNDS)
    other = judgement_key(judgement(document_id=DocumentId("another")))

    with structlog.testing.capture_logs() as lines:
        await follow(
            judgements,
            Event(key=b"no key", value=ENCODE(judgement())),
            Event(key=b"[" * 100_000, value=ENCODE(judgement())),
            Event(key=other, value=ENCODE(judgement())),
            Event(key=other, value=b"no judgement"),
            event(judgement()),
        )

    assert len(judgements) == 1
    assert [line["event"] for line in lines] == ["a judgement is left out"] * 4


async def test_a_deletion_erases_what_was_said_of_the_document_from_the_topic() -> None:
    judgements = Judgements(FakeEmbedder(dim=16), BOUNDS)
    await follow(judgements, event(judgement(document_id=DocumentId("d"))), event(judgement()))
    erased: list[bytes] = []

    async def erase(keys: Sequence[bytes]) -> None:
        erased.extend(keys)

    async def receipts() -> AsyncIterator[Event]:
        yield Event(value=outcome(TENANT, OutcomeStatus.INDEXED))
        yield Event(value=outcome(TENANT, OutcomeStatus.DELETED))

    await erase_deleted(receipts(), judgements, decode=Codec(IndexOutcome).decode, erase=erase)

    assert [key_parts(key) for key in erased] == [[TENANT, "anna", "q", "d"]]


async def left(world: World, *events: Event) -> list[list[str]]:
    """Give the keys that are erased when these records are on the topic and nobody saw a receipt."""
    return [key for key, _ in await places_left(world, *events)]


async def places_left(world: World, *events: Event) -> list[tuple[list[str], int]]:
    """Give them with the partitions in which they are erased."""
    producer = FakeProducer()

    async def records() -> AsyncIterator[Event]:
        for each in events:
            yield each

    await erase_what_is_left(records(), world.index, Outbox(producer, UNTRACED))
    return [(list(key_parts(each.key or b"")), each.partition) for each in producer.sent]


async def test_what_was_said_of_a_document_that_was_deleted_while_nobody_read_receipts_is_erased(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given more judgements than are looked up together, one of which was erased before
    monkeypatch.setattr("freki.streams.retrieve.follow_judgements.LOOKUP_BATCH", 2)
    world = World()
    await world.feed([*revision("gone", 1, ["a"]), *revision("lives", 1, ["b"]), *revision("gone", 2, None)])
    said = [judgement(document_id=DocumentId(document)) for document in ("gone", "lives", "unknown")]
    others = [judgement(document_id=DocumentId("gone"), judge=judge) for judge in ("ben", "carl")]

    erased = await left(
        world,
        Event(key=b"no key", value=b"no judgement"),
        *map(event, (*said, *others)),
        Event(key=judgement_key(others[1]), value=None),
    )

    assert sorted(erased) == [[TENANT, "anna", "q", "gone"], [TENANT, "ben", "q", "gone"]]


async def test_what_is_said_of_a_document_that_came_back_stays() -> None:
    world = World()
    await world.feed([*revision("d", 1, ["a"]), *revision("d", 2, None), *revision("d", 3, ["a"])])

    assert await left(world, event(judgement(document_id=DocumentId("d")))) == []


async def test_an_erased_judgement_stays_erased_in_whatever_order_added_partitions_are_read() -> None:
    given = replace(event(judgement()), timestamp_ms=1_000)
    erased = Event(key=given.key, value=None, partition=4, timestamp_ms=2_000)

    for order in ([given, erased], [erased, given]):
        judgements = Judgements(FakeEmbedder(dim=16), BOUNDS)
        await follow(judgements, *order)
        assert not judgements.of_document(TENANT, judgement().document_id)


async def test_what_was_said_of_a_deleted_document_is_erased_in_each_partition_that_has_it() -> None:
    """Compaction would keep it where its key was before partitions were added."""
    world = World()
    await world.feed([*revision("gone", 1, ["a"]), *revision("gone", 2, None)])
    given = event(judgement(document_id=DocumentId("gone")))
    elsewhere = replace(given, partition=4, timestamp_ms=2_000)
    erased = replace(elsewhere, value=None, timestamp_ms=3_000)

    for order in ([given, elsewhere, erased], [elsewhere, erased, given]):
        assert [place for _, place in await places_left(world, *order)] == [0]
    assert sorted([place for _, place in await places_left(world, given, elsewhere)]) == [0, 4]
