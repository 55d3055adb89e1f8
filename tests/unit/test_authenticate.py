"""Queries with tokens through the real stage: who is answered, who is refused, and where a token shows."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freki.infra.caches import BoundedCache
from freki.infra.models.fake import FakeEmbedder
from freki.infra.settings import AuthSettings
from freki.infra.tokens import JwtVerifier, KeySet
from freki.operators.analyse_text import ANALYSER
from freki.operators.check_claims import ClaimRules
from freki.schemas import (
    ContextQuery,
    ContextResult,
    DocumentChange,
    DocumentId,
    DocumentQuery,
    DocumentQueryKind,
    GroupMembership,
    Operation,
    QueryId,
    ResultStatus,
    TenantId,
    Timestamp,
)
from freki.schemas.avro import Codec
from freki.schemas.errors import Misconfigured
from freki.schemas.identity import Refusal, RefusalReason
from freki.schemas.index import Candidate, Generation, Scope
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.deliver.replies import Replies
from freki.streams.messages import TOKEN_HEADER, Outgoing
from freki.streams.observe.meters import Meters
from freki.streams.retrieve.authenticate import Authenticator, TokenJudge
from freki.streams.retrieve.cache.caching import Caches, CachingRetriever
from freki.streams.retrieve.cache.epochs import Epochs
from freki.streams.retrieve.handler import noted, without_content
from freki.streams.retrieve.memberships import Memberships, membership_key
from freki.streams.retrieve.retriever import Retriever
from tests.issuer import AUDIENCE, ISSUER, RULES, Issuer
from tests.memory_index import MemoryIndex
from tests.received import received_query
from tests.unit.deliveries import DEAD_LETTERS, Event, FakeProducer, Sent
from tests.unit.pipelines import Pipeline


class Watched(MemoryIndex):
    """Counts searches."""

    def __init__(self) -> None:
        embedder = FakeEmbedder()
        super().__init__(Generation(name="g1", embedder=embedder.fingerprint, dim=embedder.dim, analyser=ANALYSER))
        self.searches = 0

    async def lexical(
        self, texts: Sequence[str], scopes: Sequence[Scope], *, limit: int, strong: bool, bypass_cache: bool = False
    ) -> list[list[Candidate]]:
        self.searches += 1
        return await super().lexical(texts, scopes, limit=limit, strong=strong, bypass_cache=bypass_cache)


class Guarded:
    """A pipeline that answers those with tokens of an issuer, with two tenants and a document for each reader."""

    def __init__(self, authenticator: Authenticator) -> None:
        self.issuer = Issuer()
        self.index = Watched()
        self.pipeline = Pipeline(index=self.index)
        self.pipeline.retrieving._authenticator = authenticator
        self.authenticator = authenticator

    async def ask(self, token: str | None, **given: Any) -> ContextResult:
        headers = () if token is None else ((TOKEN_HEADER, token.encode()),)
        return await self.pipeline.ask(query(**given), headers=headers)


def query(**given: Any) -> ContextQuery:
    usual = {"query_id": QueryId("q"), "tenant": TenantId("t"), "text": "Wer entscheidet?", "asked_at": now()}
    return ContextQuery(**{**usual, **given})


def document(name: str, text: str, reader: str) -> DocumentChange:
    return DocumentChange(
        tenant=TenantId("t"),
        document_id=DocumentId(name),
        operation=Operation.UPSERT,
        version=1,
        occurred_at=Timestamp(1),
        principals=(reader,),
        media_type="text/plain",
        content=text,
    )


def now() -> Timestamp:
    return Timestamp(time.time_ns() // 1_000_000)


@asynccontextmanager
async def opened(folder: Path, **more: Any) -> AsyncIterator[Guarded]:
    issuer = Issuer()
    place = folder / "jwks.json"
    place.write_text(json.dumps(issuer.jwks()))
    settings = AuthSettings(jwks=str(place), issuer=ISSUER, audience=AUDIENCE)
    async with KeySet(settings) as keys:
        verifier = JwtVerifier(keys, algorithms=settings.algorithms)
        guarded = Guarded(Authenticator(TokenJudge(verifier, ClaimRules(**RULES), now=now), **more))
        guarded.issuer = issuer
        await guarded.pipeline.publish(
            document("of-ada", "Ada entscheidet über den Antrag selbst.", "ada"),
            document("of-hr", "Die Personalabteilung entscheidet über die Einstellung.", "hr"),
            document("of-all", "Der Rat entscheidet öffentlich und in einer Sitzung.", "everyone"),
        )
        yield guarded


def found(result: ContextResult) -> set[str]:
    return {hit.document_id for hit in result.hits}


async def test_who_asks_sees_what_the_token_names(tmp_path: Path) -> None:
    async with opened(tmp_path) as freki:
        of_ada = await freki.ask(freki.issuer.token())
        of_hr = await freki.ask(freki.issuer.token(groups=["hr"]))
        narrowed = await freki.ask(freki.issuer.token(groups=["hr"]), principals=("hr",))

    assert found(of_ada) == {"of-ada", "of-all"}
    assert found(of_hr) == {"of-ada", "of-all", "of-hr"}
    assert found(narrowed) == {"of-all", "of-hr"}


@pytest.mark.parametrize("named", [(), tuple(f"g{number}" for number in range(300))])
async def test_who_is_in_many_groups_may_ask(tmp_path: Path, named: tuple[str, ...]) -> None:
    # Of the token, and of the topic, where names may be longer.
    memberships = Memberships()
    groups = [f"g{number}" for number in range(300)]
    async with opened(tmp_path, groups=memberships) as freki:
        memberships.take(event_of("t", "ada", ("hr", "g" * 200)), Codec(GroupMembership).decode)
        result = await freki.ask(freki.issuer.token(groups=groups), principals=named and (*named, "hr"))

    assert result.status is not ResultStatus.REJECTED, result.notices
    assert "of-hr" in found(result)


@pytest.mark.parametrize(
    ("claims", "asked", "told"),
    [
        ({"exp": 1}, {}, "has expired"),
        ({"nbf": 9e9}, {}, "not accepted"),
        ({"aud": "another"}, {}, "not accepted"),
        ({"iss": "another"}, {}, "not accepted"),
        ({"tenant": None}, {}, "not accepted"),
        ({}, {"tenant": TenantId("u")}, "more than its token allows"),
        ({}, {"principals": ("ada", "hr")}, "more than its token allows"),
        ({"tenant": "u"}, {}, "more than its token allows"),
    ],
)
async def test_who_may_not_ask_is_told_no_more_than_that(
    tmp_path: Path, claims: dict[str, Any], asked: dict[str, Any], told: str
) -> None:
    async with opened(tmp_path) as freki:
        result = await freki.ask(freki.issuer.token(**claims), **asked)

    (notice,) = result.notices
    assert result.status is ResultStatus.REJECTED
    assert not result.hits
    assert not result.context
    assert notice.message.startswith("the query is refused: ")
    assert told in notice.message


async def test_nobody_asks_without_a_token_and_nothing_is_searched(tmp_path: Path) -> None:
    async with opened(tmp_path) as freki:
        result = await freki.ask(None)
        empty = await freki.pipeline.ask(query(), headers=((TOKEN_HEADER, b""),))

        assert not freki.index.searches
    assert {result.status, empty.status} == {ResultStatus.REJECTED}
    assert result.notices[0].message == "the query is refused: it has no token"
    assert not result.stages


async def test_the_last_of_two_tokens_counts(tmp_path: Path) -> None:
    async with opened(tmp_path) as freki:
        good, bad = (TOKEN_HEADER, freki.issuer.token().encode()), (TOKEN_HEADER, b"x")

        last_good = await freki.pipeline.ask(query(), headers=(bad, good))
        last_bad = await freki.pipeline.ask(query(), headers=(good, bad))

    assert last_good.status is ResultStatus.COMPLETE
    assert last_bad.status is ResultStatus.REJECTED


async def test_a_query_in_a_batch_has_its_own_identity_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as freki:
        tokens = {"a": freki.issuer.token(), "b": freki.issuer.token(sub="bob", groups=["hr"]), "c": "x"}
        events = [
            Event(
                topic="queries",
                key=key.encode(),
                value=Codec(ContextQuery).encode(query(query_id=QueryId(key))),
                headers=((TOKEN_HEADER, token.encode()),),
            )
            for key, token in tokens.items()
        ]

        await freki.pipeline.take("queries", *events)

        answers = {
            sent.key: Codec(ContextResult).decode(sent.value or b"") for sent in freki.pipeline.producer.to("contexts")
        }
    assert found(answers[b"a"]) == {"of-ada", "of-all"}
    assert found(answers[b"b"]) == {"of-hr", "of-all"}
    assert answers[b"c"].status is ResultStatus.REJECTED


def question(**given: Any) -> DocumentQuery:
    usual = {"query_id": QueryId("q"), "tenant": TenantId("t"), "kind": DocumentQueryKind.LIST, "asked_at": now()}
    return DocumentQuery(**{**usual, **given})


async def test_questions_about_documents_are_asked_in_the_name_of_the_token(tmp_path: Path) -> None:
    async with opened(tmp_path) as freki:

        async def asker(token: str | None, **given: Any) -> tuple[str, ...] | RefusalReason:
            headers = () if token is None else ((TOKEN_HEADER, token.encode()),)
            judged = await freki.authenticator.admit_document_query(received_query(question(**given), headers))
            return judged.reason if isinstance(judged, Refusal) else judged.value.principals

        token = freki.issuer.token(groups=["hr"])
        assert await asker(token) == ("ada", "hr")
        assert await asker(token, principals=("hr",)) == ("hr",)
        assert await asker(token, principals=("board",)) is RefusalReason.PRINCIPALS
        assert await asker(token, tenant=TenantId("u")) is RefusalReason.TENANT
        assert await asker(None) is RefusalReason.NO_TOKEN
        assert await asker(freki.issuer.token(exp=1)) is RefusalReason.EXPIRED


class Counting(Meters):
    """Keeps the reasons of refusals."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[RefusalReason] = []

    def count_refused_query(self, reason: RefusalReason) -> None:
        self.refused.append(reason)


async def test_a_refusal_is_counted_once_by_whichever_door_it_came(tmp_path: Path) -> None:
    meters = Counting()
    async with opened(tmp_path, meters=meters) as freki:
        await freki.ask(None)
        await freki.authenticator.admit_document_query(received_query(question(tenant=TenantId("u")), ()))
        headers = ((TOKEN_HEADER, freki.issuer.token().encode()),)
        await freki.authenticator.admit_document_query(received_query(question(tenant=TenantId("u")), headers))
        await freki.ask(freki.issuer.token())

    assert meters.refused == [RefusalReason.NO_TOKEN, RefusalReason.NO_TOKEN, RefusalReason.TENANT]


async def test_questions_about_documents_are_refused_where_their_reports_would_reach_other_tenants(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, reply_topic=topic_of) as freki:
        headers = ((TOKEN_HEADER, freki.issuer.token().encode()),)

        judged = await freki.authenticator.admit_document_query(received_query(question(), headers))

    assert isinstance(judged, Refusal)
    assert judged.reason is RefusalReason.UNSUPPORTED


def topic_of(tenant: str) -> str | None:
    return None if "/" in tenant else f"contexts-{tenant}"


async def test_answers_go_to_the_topic_of_their_tenant(tmp_path: Path) -> None:
    async with opened(tmp_path, reply_topic=topic_of) as freki:
        for token, given in (
            (freki.issuer.token(), {}),
            (freki.issuer.token(), {"text": " "}),
            (freki.issuer.token(), {"deadline_ms": 0, "asked_at": Timestamp(1)}),
            (freki.issuer.token(), {"reply_to": "contexts-u"}),
        ):
            event = Event(
                topic="queries",
                key=b"q",
                value=Codec(ContextQuery).encode(query(**given)),
                headers=((TOKEN_HEADER, token.encode()),),
            )
            await freki.pipeline.take("queries", event)

        (refusal,) = freki.pipeline.producer.to("contexts")
        assert Codec(ContextResult).decode(refusal.value or b"").notices[0].stage == "authenticate"
        assert len(freki.pipeline.producer.to("contexts-t")) == 3
        assert not freki.pipeline.producer.to("contexts-u")


class Closed(FakeProducer):
    """Takes nothing for the topic of the tenant."""

    async def check(self, record: Sent) -> None:
        if record.topic == "contexts-t":
            raise Misconfigured("it does not exist")


async def test_an_answer_that_its_topic_does_not_take_shows_nobody_what_it_says(tmp_path: Path) -> None:
    async with opened(tmp_path, reply_topic=topic_of) as freki:
        producer = Closed()
        outbox = Outbox(producer, freki.pipeline.spans.tracer)
        freki.pipeline.retrieving._replies = Replies(
            Sink(outbox, "contexts", Codec(ContextResult).encode), noted=noted, emptied=without_content
        )
        event = Event(
            topic="queries",
            key=b"q",
            value=Codec(ContextQuery).encode(query()),
            headers=((TOKEN_HEADER, freki.issuer.token().encode()),),
        )

        await freki.pipeline.take("queries", event)

    (sent,) = producer.to("contexts")
    result = Codec(ContextResult).decode(sent.value or b"")
    assert result.status is ResultStatus.REJECTED
    assert [notice.stage for notice in result.notices] == ["reply"]
    assert b"entscheidet" not in (sent.value or b"")
    assert b"of-ada" not in (sent.value or b"")


async def test_who_asks_the_same_gets_no_answer_of_another_from_the_cache(tmp_path: Path) -> None:
    memberships = Memberships()
    async with opened(tmp_path, groups=memberships) as freki:
        retriever = freki.pipeline.retrieving._retriever
        assert isinstance(retriever, Retriever)
        epochs = Epochs(strong=True)
        caches = Caches(
            embeddings=BoundedCache("e", most_bytes=1 << 20, seconds=60),
            rankings=BoundedCache("r", most_bytes=1 << 20, seconds=60),
            answers=BoundedCache("a", most_bytes=1 << 20, seconds=60),
            epochs=epochs,
        )
        freki.pipeline.retrieving._retriever = CachingRetriever(
            retriever,
            caches=caches,
            search=freki.index,
            roots=freki.index,
            encode=Codec(ContextResult).encode,
            decode=Codec(ContextResult).decode,
            now=now,
        )
        hr = freki.issuer.token(sub="bob", groups=["hr"])
        member = event_of("t", "eve", ("hr",))

        first = await freki.ask(hr, cached=True)
        again = await freki.ask(hr, cached=True)
        of_ada = await freki.ask(freki.issuer.token(), cached=True)
        narrowed = await freki.ask(hr, cached=True, principals=("bob",))
        memberships.take(member, Codec(GroupMembership).decode)
        granted = await freki.ask(freki.issuer.token(sub="eve"), cached=True)
        memberships.take(replace(member, value=None, offset=1), Codec(GroupMembership).decode)
        taken = await freki.ask(freki.issuer.token(sub="eve"), cached=True)
        refused = await freki.ask(None, cached=True, principals=("bob", "hr"))

    assert again.cached_ms is not None
    assert found(first) == found(again) == {"of-hr", "of-all"}
    assert found(of_ada) == {"of-ada", "of-all"}
    assert found(narrowed) == {"of-all"}
    assert found(granted) == {"of-hr", "of-all"}
    assert found(taken) == {"of-all"}
    assert not found(refused)


def event_of(tenant: str, user: str, groups: tuple[str, ...]) -> Event:
    membership = GroupMembership(tenant=TenantId(tenant), principal=user, groups=groups)
    return Event(topic="groups", key=membership_key(tenant, user), value=Codec(GroupMembership).encode(membership))


async def test_a_token_shows_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(tmp_path) as freki:
        token = freki.issuer.token(sub="ada")
        undecodable = Event(topic="queries", key=b"q", value=b"\xff", headers=((TOKEN_HEADER, token.encode()),))
        await freki.ask(token)
        await freki.ask(token, tenant=TenantId("u"))
        await freki.pipeline.take("queries", undecodable)
        producer, spans = freki.pipeline.producer, freki.pipeline.spans.finished

    (letter,) = producer.to(DEAD_LETTERS)
    assert token.encode() not in b"".join(value for _, value in letter.headers)
    signature = token.rpartition(".")[2]
    for sent in [*producer.to("contexts"), letter]:
        assert signature not in repr(sent)
    assert spans
    assert all(signature not in span.to_json() for span in spans)
    assert signature not in caplog.text
    assert signature not in repr(
        Outgoing(topic="queries", key=b"q", value=b"", headers=((TOKEN_HEADER, token.encode()),))
    )


async def test_a_refusal_tells_what_an_audit_needs_and_no_token(tmp_path: Path) -> None:
    async with opened(tmp_path) as freki:
        token = freki.issuer.token()
        asked = received_query(
            query(tenant=TenantId("u"), principals=("x",)), headers=((TOKEN_HEADER, token.encode()),)
        )

        refusal = await freki.authenticator.admit(asked)

    assert isinstance(refusal, Refusal)
    assert refusal.reason is RefusalReason.TENANT
    assert refusal.identity is not None
    assert token not in repr(refusal)
    assert token not in repr(asked)
