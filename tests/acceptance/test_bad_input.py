"""What users can get wrong: each gets a message that names the fix, nothing is lost, and the worker goes on."""

import os

import pytest

from freki.infra.kafka import KafkaProducer, Reader
from freki.schemas import ContextResult, DocumentChange, Filter, FilterOperator, OutcomeStatus, ResultStatus
from freki.schemas.avro import Codec
from freki.streams.deliver.dead_letters import DeadLetter
from freki.streams.wire.from_settings import topics_of
from freki.streams.wire.replaying import read_letters
from tests.acceptance.conftest import Freki
from tests.acceptance.helpers import PATIENCE_S, ask, messages, publish, upsert

TENANT = "bad"


async def letters(freki: Freki, key: bytes | None) -> list[DeadLetter]:
    return [letter for letter in (await read_letters(freki.settings)).by_place.values() if letter.key == key]


async def send_raw(freki: Freki, topic: str, key: bytes | None, value: bytes | None) -> None:
    async with KafkaProducer(freki.settings.kafka) as producer:
        await (await producer.send(topic, key=key, value=value))


async def still_works(freki: Freki) -> bool:
    """Does the worker go on?"""
    (outcome,) = await publish(freki, upsert(TENANT, "next", "Der nächste Vorgang.", version=os.getpid()))
    return outcome.status in {OutcomeStatus.INDEXED, OutcomeStatus.UNCHANGED}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("junk.md", bytes(range(256)) * 40, "not UTF-8 at byte 128"),
        ("broken.txt", "Prüfung der Übergangsfrist ".encode() * 20 + b"\xc3(", "UTF-8"),
        ("scan.pdf", b"%PDF-1.7 ...", "damaged"),
    ],
)
async def test_content_that_is_not_what_it_claims_to_be_is_rejected_with_the_fix(
    freki: Freki, name: str, content: bytes, reason: str
) -> None:
    (outcome,) = await publish(freki, upsert(TENANT, name, content))

    (letter,) = await letters(freki, f"{TENANT}/{name}".encode())
    assert outcome.status is OutcomeStatus.REJECTED
    assert reason in outcome.reason
    assert name in outcome.reason
    assert letter.value is not None
    assert await still_works(freki)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.md", b""),
        ("latin.txt", "Übergangsfrist für Gebühren".encode("cp1252")),
        (
            "deep.md",
            "\n\n".join(f"{'#' * min(level, 6)} Ebene {level}\n\nText {level}" for level in range(1, 51)).encode(),
        ),
        ("deep.html", ("<section><h2>Ebene</h2>" * 50 + "Text" + "</section>" * 50).encode()),
        ("word.txt", b"x" * 100_000),
        ("nul.txt", "Zeichen \u200b und \ufeff".encode()),
    ],
)
async def test_odd_content_is_indexed(freki: Freki, name: str, content: bytes) -> None:
    (outcome,) = await publish(freki, upsert(TENANT, name, content))

    assert outcome.status is OutcomeStatus.INDEXED, outcome.reason
    assert bool(outcome.chunks) is bool(content)
    assert ("holds no text" in outcome.reason) is not bool(content)


async def test_text_over_the_limit_is_rejected_and_names_the_setting(freki: Freki) -> None:
    # A hundred megabytes would be refused by the same rule; this is one character over it.
    limit = freki.settings.chunking.max_characters
    (outcome,) = await publish(freki, upsert(TENANT, "long.txt", "wort " * (limit // 5 + 1)))

    assert outcome.status is OutcomeStatus.REJECTED
    assert "FREKI_CHUNKING__MAX_CHARACTERS" in outcome.reason
    assert await still_works(freki)


async def test_a_wrong_fingerprint_reaches_the_dead_letters_and_a_receipt_says_so(freki: Freki) -> None:
    key = f"{TENANT}/foreign".encode()
    await send_raw(freki, topics_of(freki.settings).documents.name, key, b"\xc3\x01" + b"\x07" * 8 + b"payload")

    assert await still_works(freki)
    # Neither lane leaves to the other what it cannot decode: the other might not be able to either.
    found = await letters(freki, key)
    assert {letter.stage for letter in found} == {"chunk", "chunk-express"}
    assert all("0707070707070707" in letter.message and letter.attempts == 0 for letter in found)


async def test_a_null_key_reaches_the_dead_letters(freki: Freki) -> None:
    if freki.settings.kafka.profile == "kafka":
        pytest.skip("Apache Kafka takes no record without a key on a compacted topic")
    before = len(await letters(freki, None))
    await send_raw(freki, topics_of(freki.settings).documents.name, None, b"whatever")

    assert await still_works(freki)
    found = await letters(freki, None)
    assert len(found) == before + 1
    assert "key" in found[-1].message


async def test_a_key_that_is_not_the_documents_is_rejected(freki: Freki) -> None:
    value = Codec(DocumentChange).encode(upsert(TENANT, "mine", "Text"))
    await send_raw(freki, topics_of(freki.settings).documents.name, f"{TENANT}/yours".encode(), value)

    assert await still_works(freki)
    (letter,) = await letters(freki, f"{TENANT}/yours".encode())
    assert f"{TENANT}/mine" in letter.message


async def test_a_question_of_a_million_characters_is_answered_and_one_more_is_refused(freki: Freki) -> None:
    await publish(freki, upsert(TENANT, "fee", "Die Gebühr für den Ausweis beträgt 37 Euro."))
    question = "Wie hoch ist die Gebühr für den Ausweis? "
    longest = (question * 40_000)[:1_000_000]

    answered = await ask(freki, TENANT, longest)
    refused = await ask(freki, TENANT, longest + "x")

    assert answered.hits
    assert refused.status is ResultStatus.REJECTED
    assert "1000001" in messages(refused)


@pytest.mark.parametrize("value", ['"', "'", '\\"', '" or tenant != "', "%", "x\ny"])
async def test_a_filter_with_a_quote_in_it_filters_by_that_quote(freki: Freki, value: str) -> None:
    await publish(freki, upsert(TENANT, "plain", "Ein Antrag.", attributes={"owner": "amt"}))

    result = await ask(
        freki,
        TENANT,
        "Antrag",
        filters=(Filter(field="attributes.owner", operator=FilterOperator.EQ, values=(value,)),),
    )

    assert result.hits == ()
    assert result.status in {ResultStatus.EMPTY, ResultStatus.REJECTED}


async def test_an_unknown_tenant_finds_nothing_and_is_told_what_to_try(freki: Freki) -> None:
    result = await ask(freki, "nobody-knows-me", "Wo finde ich den Antrag?")

    assert result.status is ResultStatus.EMPTY
    assert result.advice


async def test_a_reply_topic_that_is_not_allowed_is_refused_on_the_contexts_topic(freki: Freki) -> None:
    result = await ask(freki, TENANT, "Antrag", reply_to="evil.topic")

    assert result.status is ResultStatus.REJECTED
    assert "evil.topic" in messages(result)


async def test_an_undecodable_query_does_not_stop_the_others_and_is_told_to_who_its_key_names(freki: Freki) -> None:
    await send_raw(freki, topics_of(freki.settings).queries.name, b"q1", b"\x00\x01junk")

    result = await ask(freki, TENANT, "Antrag", deadline_ms=int(PATIENCE_S * 1000))

    assert result.status is not ResultStatus.REJECTED
    assert await letters(freki, b"q1")
    async with Reader(freki.settings.kafka, topics_of(freki.settings).contexts.name, start="earliest") as reader:
        told = [stored.value async for stored in reader.until_end() if stored.key == b"q1"]
    assert [Codec(ContextResult).decode(value or b"").status for value in told] == [ResultStatus.REJECTED]
