from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from freki.schemas import GroupMembership, TenantId
from freki.schemas.avro import Codec
from freki.schemas.identity import Identity
from freki.streams.retrieve.memberships import Memberships, membership_key
from tests.unit.deliveries import Event

CODEC = Codec(GroupMembership)


@dataclass(frozen=True)
class Change:
    tenant: str
    principal: str
    groups: tuple[str, ...] | None
    """None: taken away."""


def event(change: Change, offset: int, partition: int = 0) -> Event:
    value = None
    if change.groups is not None:
        value = CODEC.encode(
            GroupMembership(tenant=TenantId(change.tenant), principal=change.principal, groups=change.groups)
        )
    key = membership_key(change.tenant, change.principal)
    return Event(topic="groups", key=key, value=value, offset=offset, partition=partition)


def identity(*principals: str, tenant: str = "t") -> Identity:
    return Identity(tenant=TenantId(tenant), principals=principals, subject=principals[0], token_id=None)


def taken(events: Sequence[Event]) -> Memberships:
    memberships = Memberships()
    for each in events:
        memberships.take(each, CODEC.decode)
    return memberships


def test_the_last_record_of_a_user_counts() -> None:
    changes = [Change("t", "ada", ("hr", "board")), Change("t", "ada", ("board",)), Change("t", "bob", ("hr",))]

    memberships = taken([event(change, offset) for offset, change in enumerate(changes)])

    assert memberships.of(identity("ada")) == {"board"}
    assert memberships.of(identity("ada", "bob")) == {"board", "hr"}
    assert not memberships.of(identity("ada", tenant="u"))


def test_a_record_that_cannot_be_decoded_takes_the_groups_away() -> None:
    good = event(Change("t", "ada", ("hr",)), 0)
    key = good.key

    for value in (b"\xff", None, event(Change("t", "eve", ("hr",)), 0).value):
        memberships = taken([good, Event(topic="groups", key=key, value=value, offset=1)])
        assert not memberships.of(identity("ada"))
        assert not memberships.of(identity("eve"))


def test_a_key_of_another_form_has_no_effect() -> None:
    good = event(Change("t", "ada", ("hr",)), 0)
    others = [None, b"", b"[]", b'["t"]', b'["t", 1]', b'{"t": "ada"}', b"t/ada", b"\xff", b"[" * 100_000]

    memberships = taken(
        [
            good,
            *(Event(topic="groups", key=key, value=good.value, offset=offset + 1) for offset, key in enumerate(others)),
        ]
    )

    assert memberships.of(identity("ada")) == {"hr"}


def test_a_topic_that_was_made_anew_is_read_anew() -> None:
    memberships = taken([event(Change("t", "ada", ("hr",)), offset) for offset in range(3)])

    memberships.opened({0: 3})
    assert memberships.of(identity("ada")) == {"hr"}
    memberships.opened({0: 1})
    assert not memberships.of(identity("ada"))
    memberships.take(event(Change("t", "ada", ("board",)), 0), CODEC.decode)
    assert memberships.of(identity("ada")) == {"board"}


CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from("tu"),
        st.sampled_from(["ada", "bob"]),
        st.none() | st.sets(st.sampled_from(["hr", "board"])).map(lambda groups: tuple(sorted(groups))),
    ),
    max_size=20,
)


@given(changes=CHANGES, again=st.lists(st.integers(0, 20)))
def test_what_is_read_again_has_no_effect(changes: list[Change], again: list[int]) -> None:
    events = [event(change, offset) for offset, change in enumerate(changes)]
    memberships = Memberships()
    for place, each in enumerate(events):
        memberships.take(each, CODEC.decode)
        for back in again:
            for earlier in events[max(0, place - back) : place + 1]:
                memberships.take(earlier, CODEC.decode)

        standing = {(change.tenant, change.principal): change.groups for change in changes[: place + 1]}
        for (tenant, principal), groups in standing.items():
            assert set(memberships.of(identity(principal, tenant=tenant))) == set(groups or ())


def test_groups_that_were_taken_away_stay_away_in_whatever_order_added_partitions_are_read() -> None:
    before = replace(event(Change("t", "ada", ("hr", "board")), 5), timestamp_ms=1_000)
    after = replace(event(Change("t", "ada", ("board",)), 0, partition=4), timestamp_ms=2_000)

    for order in ([before, after], [after, before]):
        assert taken(order).of(identity("ada")) == {"board"}
