"""Whose content a record is: what an erasure removes, and what a rectification leaves."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from freki.client.kafka import Record
from freki.infra.claims import ClaimStore
from freki.infra.settings import ClaimSettings, RetrievalSettings, Settings
from freki.operators.identify import record_key
from freki.schemas import (
    ClaimCheck,
    Coverage,
    DocumentChange,
    DocumentId,
    ErasureReport,
    ErasureStatus,
    Operation,
    PlannedErasure,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.streams.deliver.dead_letters import to_record
from freki.streams.topics import Topic
from freki.streams.wire.erasing.topics import (
    ChangeReader,
    Content,
    NamedClaims,
    ReadChange,
    Unreadable,
    judged_document,
    searched_topics,
)
from freki.streams.wire.from_settings import topics_of
from tests.unit.deliveries import dead_letter

pytestmark = pytest.mark.usefixtures("folder")

TENANT, A, B = TenantId("hr"), DocumentId("a"), DocumentId("b")


def change(name: DocumentId = A, *, version: int = 1, operation: Operation = Operation.UPSERT) -> DocumentChange:
    content = "text" if operation is Operation.UPSERT else None
    return DocumentChange(
        tenant=TENANT,
        document_id=name,
        operation=operation,
        version=version,
        occurred_at=Timestamp(1),
        content=content,
    )


def stored(topic: Topic, value: bytes | None, *, key: bytes | None = None, at: int = 50) -> Record:
    return Record(
        topic=topic.name,
        partition=0,
        offset=0,
        timestamp_ms=at,
        key=record_key(TENANT, A) if key is None else key,
        value=value,
        headers=(),
    )


def content(*, until: int = 2, before_ms: Timestamp | None = None) -> Content:
    return Content(Settings(), TENANT, {A: until}, before_ms=before_ms)


def older() -> Content:
    return content(before_ms=Timestamp(100))


def test_a_change_is_content_and_a_deletion_a_null_value_and_another_document_are_not() -> None:
    documents = topics_of(Settings()).documents

    def found(one: DocumentChange | None, value: bytes | None = b"x", key: bytes | None = None) -> set[DocumentId]:
        return set(content().of(documents, stored(documents, value, key=key), one))

    assert found(change()) == {A}
    assert found(replace(change(), content=None, claim=ClaimCheck(uri="u", size=1, sha256="0" * 64))) == {A}
    assert found(change(operation=Operation.DELETE)) == set()
    assert found(None, None) == set()
    assert found(None) == {A}, "what cannot be decoded may hold anything"
    assert found(change(B), key=record_key(TENANT, B)) == set()
    assert found(replace(change(), tenant=TenantId("sales")), key=record_key(TenantId("sales"), A)) == set()
    assert found(change(version=2)) == {A}
    assert found(change(version=3)) == set(), "it was published meanwhile, and stays"


def test_a_change_is_content_of_the_document_that_it_names_whatever_its_key() -> None:
    topics = topics_of(Settings())
    for topic in (topics.documents, topics.dead_letters):
        for key in (record_key(TENANT, B), b"no key", None):
            record = replace(stored(topic, b"x"), key=key)
            assert content().of(topic, record, change()) == {A}
            assert content().of(topic, record, replace(change(), tenant=TenantId("sales"))) == set()
        assert content().of(topic, stored(topic, b"x"), change(B)) == set(), "it goes with its own document"


def test_of_older_versions_only_what_is_older_is_content() -> None:
    topics = topics_of(Settings())

    def found(topic: Topic, one: DocumentChange | None, *, at: int = 50, value: bytes = b"x") -> set[DocumentId]:
        return set(older().of(topic, stored(topic, value, at=at), one))

    for topic in (topics.documents, topics.dead_letters):
        assert found(topic, change(version=2)) == {A}
        assert found(topic, change(version=3)) == set()
        assert found(topic, change(version=4), at=1) == set()
        assert found(topic, None) == {A}
        assert found(topic, None, at=101) == set()
    work, answers = next(iter(topics.chunks.values())), topics.contexts
    for topic, value in ((work, b"x"), (answers, b'{"document": "a"}')):
        assert found(topic, None, value=value, at=100) == {A}
        assert found(topic, None, value=value, at=101) == set()


def test_an_answer_is_content_of_a_document_that_it_names() -> None:
    contexts = topics_of(Settings()).contexts

    for value, expected in ((b"\x02a", {A}), (b'["a"]', {A}), (b"\x04aa", set()), (b'["aa"]', set())):
        assert content().of(contexts, stored(contexts, value, key=b"q"), None) == expected


def test_a_report_on_an_erasure_on_a_reply_topic_is_no_content_of_the_documents_that_it_names() -> None:
    settings = Settings(retrieval=RetrievalSettings(reply_topics=("answers",)))
    answers = next(topic for topic in searched_topics(settings, (), TENANT) if topic.name == "answers")
    report = ErasureReport(
        request_id="r",
        tenant=TENANT,
        status=ErasureStatus.ERASED,
        message="",
        covers=Coverage(documents=(A,)),
        requested_by="",
        reason="",
        at=Timestamp(1),
        documents=(PlannedErasure(document_id=A, version=1),),
    )

    assert content().of(answers, stored(answers, Codec(ErasureReport).encode(report), key=b"r"), None) == set()
    assert content().of(answers, stored(answers, b"\x02a", key=b"q"), None) == {A}


def test_a_judgement_is_content_of_its_document_in_its_tenant_and_stays_if_an_older_version_goes() -> None:
    judgements = topics_of(Settings()).judgements
    key = b'["hr", "ada", "q", "a"]'

    assert content().of(judgements, stored(judgements, b"x", key=key), None) == {A}
    assert older().of(judgements, stored(judgements, b"x", key=key), None) == set()
    assert judged_document(key, TenantId("sales")) is None
    for other in (None, b"", b"\xff", b"[]", b'{"a": 1}', b"[" * 100_000):
        assert judged_document(other, TENANT) is None


async def test_the_change_in_a_dead_letter_is_read_and_what_is_no_change_is_none() -> None:
    settings, codec = Settings(), Codec(DocumentChange)
    topics, reader = topics_of(settings), ChangeReader(settings, None)
    letter = dead_letter(key=record_key(TENANT, A), value=codec.encode(change()), topic=topics.documents.name)
    sent = to_record(letter, topics.dead_letters.name)
    record = replace(stored(topics.dead_letters, sent.value), headers=sent.headers)

    assert await reader.change_of(record) == change()
    assert await reader.change_of(stored(topics.documents, codec.encode(change()))) == change()
    for value in (None, b"", b"no change"):
        assert await reader.change_of(stored(topics.documents, value)) is None
        assert await reader.change_of(stored(topics.dead_letters, value)) is None


async def test_a_change_that_others_may_be_able_to_decode_is_not_taken_for_none() -> None:
    settings = Settings()
    topics, reader = topics_of(settings), ChangeReader(settings, None)
    value = b"\x00\x00\x00\x00\x07" + Codec(DocumentChange).encode(change())[10:]

    def letter_from(topic: str, *, encrypted: bool = False) -> Record:
        letter = dead_letter(key=record_key(TENANT, A), value=value, topic=topic, encrypted=encrypted)
        sent = to_record(letter, topics.dead_letters.name)
        return replace(stored(topics.dead_letters, sent.value), headers=sent.headers)

    for record in (stored(topics.documents, value), letter_from(topics.documents.name)):
        read = await reader.change_of(record)
        assert isinstance(read, Unreadable)
        assert "FREKI_REGISTRY__URL" in read.reason
        assert content().of(topics.documents, stored(topics.documents, value), read) == {A}
    hidden = await reader.change_of(letter_from(topics.documents.name, encrypted=True))
    assert isinstance(hidden, Unreadable)
    assert "FREKI_ENCRYPTION__KEYS" in hidden.reason
    assert await reader.change_of(letter_from(next(iter(topics.chunks.values())).name)) is None


def test_topics_of_all_generations_are_searched_each_once() -> None:
    settings = Settings()
    names = [topic.name for topic in searched_topics(settings, ["g1", "g2"], TENANT)]

    assert len(names) == len(set(names))
    assert {"freki.chunks.v1", "freki.chunks.v1.g2", "freki.documents.v1", "freki.dead-letters.v1"} <= set(names)


class Changes(ChangeReader):
    """A topic of documents in memory, with the times at which reading began."""

    def __init__(self, *changes: ReadChange) -> None:
        self.held = list(changes)
        self.begun: list[Timestamp | None] = []

    async def changes(self, *, since_ms: Timestamp | None = None) -> AsyncGenerator[tuple[Record, ReadChange], None]:
        """Yield all of them."""
        self.begun.append(since_ms)
        for each in self.held:
            yield stored(topics_of(Settings()).documents, b"x"), each


async def test_a_change_that_names_a_claim_in_the_directory_is_found_and_remembered(tmp_path: Path) -> None:
    claims = ClaimStore(ClaimSettings(directory=str(tmp_path)))
    elsewhere, ours = (
        replace(change(), content=None, claim=ClaimCheck(uri=uri, size=1, sha256="0" * 64))
        for uri in ("https://example.org/a", f"{tmp_path}/a")
    )
    topic = Changes(change(), elsewhere)
    named = NamedClaims(topic, claims)

    assert not await named.any()
    topic.held.append(ours)
    assert await named.any()
    # Compaction removes it once its document is deleted.
    topic.held.clear()
    assert await named.any()

    # It may name one.
    assert await NamedClaims(Changes(Unreadable(reason="no registry")), claims).any()

    [first, second] = topic.begun
    assert first is None
    assert second is not None, "what was read is not read again"
