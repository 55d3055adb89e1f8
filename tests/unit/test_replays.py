"""A token serves one query, whichever worker has the partition and whatever is delivered again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.token_id import token_id
from freki.schemas import ContextQuery, QueryId, TenantId, Timestamp
from freki.schemas.avro import Codec
from freki.schemas.identity import Identity, RefusalReason
from freki.streams.messages import TOKEN_HEADER, Received
from freki.streams.retrieve.replays import ReplayWindow
from tests.issuer import Issuer
from tests.received import received_query
from tests.unit.deliveries import Event

WINDOW_MS = 1_000
CODEC = Codec(ContextQuery)


@dataclass(frozen=True)
class Sent:
    """A query with a token, on the only partition."""

    token: str
    """Its id is the token id; `forged` before it: the signature is not valid."""
    text: str
    wait_ms: int

    @property
    def is_forged(self) -> bool:
        return self.token.startswith("forged")

    @property
    def token_id(self) -> str:
        return self.token.removeprefix("forged ")


class Topic:
    """The topic of queries, with times of the broker."""

    def __init__(self, sent: Sequence[Sent]) -> None:
        self.sent = sent
        self.times: list[int] = []
        for each in sent:
            self.times.append((self.times[-1] if self.times else 10_000) + each.wait_ms)
        self.read = 0
        self.changes = 0

    async def partition_of(self, key: bytes) -> int:
        assert key
        return 0

    async def before(self, partition: int, offset: int, *, first: int | None, since: Timestamp) -> Sequence[Event]:
        assert partition == 0
        self.read += 1
        begin = (
            first if first is not None else next((at for at, time in enumerate(self.times) if time >= since), offset)
        )
        return [
            Event(
                topic="queries",
                key=self.sent[at].token_id.encode(),
                value=CODEC.encode(query(self.sent[at])),
                headers=((TOKEN_HEADER, self.sent[at].token.encode()),),
                offset=at,
                timestamp_ms=self.times[at],
            )
            for at in range(begin, offset)
        ]

    def received(self, offset: int) -> Received[ContextQuery]:
        return received_query(query(self.sent[offset]), (), offset=offset, timestamp=self.times[offset])


class Verifier:
    """Takes the token for its id."""

    async def claims(self, token: bytes) -> Mapping[str, Any] | RefusalReason:
        text = token.decode()
        return RefusalReason.SIGNATURE if text.startswith("forged") else {"jti": text}


def query(sent: Sent) -> ContextQuery:
    return ContextQuery(query_id=QueryId(sent.token_id), tenant=TenantId("t"), text=sent.text, asked_at=Timestamp(0))


def worker(topic: Topic) -> ReplayWindow:
    return ReplayWindow(topic, Verifier(), window_ms=WINDOW_MS, decode=CODEC.decode, encode=CODEC.encode)


def identity(token: str | None) -> Identity:
    return Identity(tenant=TenantId("t"), principals=("ada",), subject="ada", token_id=token)


async def judged(window: ReplayWindow, topic: Topic, offset: int) -> RefusalReason | None:
    return await window.check(topic.received(offset), identity(topic.sent[offset].token_id))


def is_replayed(topic: Topic, offset: int) -> bool:
    """State the law."""
    now = topic.sent[offset]
    return any(
        each.token_id == now.token_id
        and not each.is_forged
        and each.text != now.text
        and time >= topic.times[offset] - WINDOW_MS
        for each, time in zip(topic.sent[:offset], topic.times, strict=False)
    )


SENT = st.lists(
    st.builds(
        Sent,
        st.sampled_from(["a", "b", "forged a"]),
        st.sampled_from(["Why?", "Who?"]),
        st.sampled_from([0, 1, 400, 999, 1_000, 1_001, 3_000]),
    ),
    min_size=1,
    max_size=12,
)


@given(sent=SENT, data=st.data())
async def test_a_query_is_answered_unless_its_token_came_before_with_another(
    sent: list[Sent], data: st.DataObject
) -> None:
    topic = Topic(sent)
    workers = [worker(topic), worker(topic)]
    # Partitions move between workers, some queries come to neither, and some are delivered again.
    steps = data.draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, len(sent) - 1)), max_size=25))
    for each, offset in [*steps, *((0, offset) for offset in range(len(sent)))]:
        if sent[offset].is_forged:
            continue
        refused = await judged(workers[each], topic, offset)

        assert refused is (RefusalReason.REPLAYED if is_replayed(topic, offset) else None)


async def test_a_query_that_is_delivered_again_after_a_long_time_is_judged_by_what_came_before_it() -> None:
    topic = Topic([Sent("a", "Why?", 0), Sent("a", "Who?", 0), Sent("a", "Why?", 3 * WINDOW_MS)])
    window = worker(topic)

    assert [await judged(window, topic, offset) for offset in (0, 2, 1)] == [None, None, RefusalReason.REPLAYED]


async def test_uses_are_looked_through_once_a_window_so_that_a_query_delivered_again_needs_no_reading_back() -> None:
    topic = Topic([Sent("a", "Why?", 0), Sent("b", "Why?", WINDOW_MS), Sent("c", "Why?", WINDOW_MS - 100)])
    window = worker(topic)

    assert [await judged(window, topic, offset) for offset in (0, 1, 2, 0)] == [None] * 4
    assert topic.read == 1


async def test_a_worker_reads_back_what_it_was_not_given_of_a_topic_that_was_created_anew() -> None:
    topic = Topic([Sent(str(number), "Why?", 1) for number in range(5)])
    window = worker(topic)
    assert [await judged(window, topic, offset) for offset in range(5)] == [None] * 5

    # Another worker had the partition for its first queries.
    anew = Topic(
        [Sent("a", "Why?", 1), *(Sent(str(number), "Why?", 1) for number in range(5, 9)), Sent("a", "Who?", 1)]
    )
    topic.sent, topic.times, topic.changes = anew.sent, anew.times, 1

    assert await judged(window, topic, 5) is RefusalReason.REPLAYED


async def test_a_worker_reads_back_only_what_it_was_not_given() -> None:
    topic = Topic([Sent(str(number), "Why?", 1) for number in range(5)])
    window = worker(topic)

    for offset in range(5):
        assert await judged(window, topic, offset) is None

    assert topic.read == 1


async def test_a_query_without_the_id_of_its_token_is_refused() -> None:
    topic = Topic([Sent("a", "Why?", 0)])
    window, received = worker(topic), topic.received(0)

    for other in (
        replace(received, key=b"b"),
        replace(received, partition=1),
        replace(received, value=replace(received.value, query_id=QueryId("b"))),
    ):
        assert await window.check(other, identity("a")) is RefusalReason.QUERY_ID
    for token in (None, "", "b"):
        assert await window.check(received, identity(token)) is RefusalReason.QUERY_ID
    assert await window.check(received, identity("a")) is None


def test_who_asks_reads_the_id_of_its_token() -> None:
    issuer = Issuer()

    assert token_id(issuer.token(jti="7")) == "7"
    for nothing in (issuer.token(), issuer.token(jti=7), "", "x", "a.b", "a.e30.c", "a.W10.c"):
        assert token_id(nothing) is None
