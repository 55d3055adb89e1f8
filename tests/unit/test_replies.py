import asyncio
import time

import pytest

from freki.schemas import ContextQuery, ContextResult, QueryId, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.errors import InfraError, Misconfigured, Rejected, Unavailable
from freki.streams.deliver.outbox import Outbox, Sink
from freki.streams.deliver.replies import Replies
from freki.streams.retrieve.handler import noted
from freki.streams.retrieve.retriever import Retriever
from tests.simulated_time import in_simulated_time
from tests.unit.deliveries import Event, FakeProducer, Sent
from tests.unit.pipelines import Pipeline


class Closed(FakeProducer):
    """Takes nothing for some topics, and waits for those that do not exist."""

    def __init__(self, **errors: InfraError) -> None:
        super().__init__()
        self.errors = errors
        self.missing: set[str] = set()
        self.tried: list[str] = []

    async def check(self, record: Sent) -> None:
        self.tried.append(record.topic)
        if record.topic in self.missing:
            await asyncio.Event().wait()
        if record.topic in self.errors:
            raise self.errors[record.topic]


def query(reply_to: str | None) -> ContextQuery:
    return ContextQuery(
        query_id=QueryId("q"),
        tenant=TenantId("t"),
        text="Why?",
        asked_at=Timestamp(time.time_ns() // 1_000_000),
        principals=("all",),
        reply_to=reply_to,
    )


class Asking:
    """A pipeline that answers on topics of which some are closed."""

    def __init__(self, **errors: InfraError) -> None:
        self.pipeline = Pipeline(reply_topics=["mine", "theirs"])
        self.producer = Closed(**errors)
        self.pipeline.retrieving._replies = Replies(
            Sink(Outbox(self.producer, self.pipeline.spans.tracer), "contexts", Codec(ContextResult).encode),
            noted=noted,
        )

    async def ask(self, reply_to: str | None) -> None:
        await self.pipeline.take("queries", Event(key=b"q", value=Codec(ContextQuery).encode(query(reply_to))))

    def notices(self, topic: str) -> list[list[str]]:
        results = [Codec(ContextResult).decode(sent.value or b"") for sent in self.producer.to(topic)]
        return [[notice.stage for notice in result.notices if notice.stage == "reply"] for result in results]


@in_simulated_time
async def test_an_answer_goes_where_its_question_wants_it() -> None:
    asking = Asking()

    for topic in ("mine", None, "contexts"):
        await asking.ask(topic)

    assert asking.notices("mine") == [[]]
    assert asking.notices("contexts") == [[], []]


@pytest.mark.parametrize("error", [Misconfigured("gone"), Rejected("too large"), Unavailable("no leader")])
@in_simulated_time
async def test_an_answer_that_its_topic_does_not_take_goes_to_the_topic_of_all_answers(error: InfraError) -> None:
    asking = Asking(mine=error)

    await asking.ask("mine")
    await asking.ask("theirs")

    assert asking.notices("contexts") == [["reply"]]
    assert asking.notices("theirs") == [[]]
    assert asking.pipeline.producer.to("dead-letters") == []


@in_simulated_time
async def test_a_topic_that_takes_its_time_holds_up_no_others_and_is_left_alone_for_a_while() -> None:
    asking = Asking()
    asking.producer.missing.add("mine")

    await asking.ask("mine")
    await asking.ask("mine")
    await asyncio.sleep(61.0)
    await asking.ask("mine")

    assert asking.producer.tried == ["mine", "contexts", "contexts", "mine", "contexts"]
    assert asking.notices("contexts") == [["reply"]] * 3


@in_simulated_time
async def test_how_long_a_missing_topic_was_waited_for_is_no_measure_of_sending() -> None:
    asking = Asking()
    asking.producer.missing.add("mine")
    retriever = asking.pipeline.retrieving._retriever
    assert isinstance(retriever, Retriever)
    estimates = retriever._estimates

    await asking.ask("mine")
    after_missing = estimates.typical_s("send")
    await asking.ask("theirs")

    assert after_missing == 0
    assert estimates.typical_s("send") > 0


@in_simulated_time
async def test_an_answer_that_is_too_large_closes_its_topic_to_no_other() -> None:
    asking = Asking(mine=Rejected("too large"))
    await asking.ask("mine")
    asking.producer.errors.clear()

    await asking.ask("mine")

    assert asking.notices("mine") == [[]]


@in_simulated_time
async def test_where_the_topic_of_all_answers_takes_none_the_stage_is_told() -> None:
    asking = Asking(mine=Misconfigured("gone"), contexts=Misconfigured("gone too"))

    with pytest.raises(Misconfigured, match="gone too"):
        await asking.ask("mine")

    assert asking.pipeline.producer.to("dead-letters") == []
