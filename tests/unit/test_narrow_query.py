from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from freki.operators.narrow_query import narrow_query
from freki.schemas import EVERYONE, ContextQuery, QueryId, TenantId, Timestamp
from freki.schemas.identity import Identity, RefusalReason

QUERY = ContextQuery(query_id=QueryId("q"), tenant=TenantId("t"), text="Why?", asked_at=Timestamp(1))
ADA = Identity(tenant=TenantId("t"), principals=("ada", "hr"), subject="ada", token_id=None)
NAMES = st.sets(st.sampled_from(["ada", "hr", "board", "bob", EVERYONE]))


def test_without_principals_a_query_has_all_of_its_token() -> None:
    narrowed = narrow_query(QUERY, ADA, groups=["board"])

    assert narrowed == replace(QUERY, principals=("ada", "board", "hr"))


def test_a_query_for_another_tenant_is_refused() -> None:
    assert narrow_query(replace(QUERY, tenant=TenantId("u")), ADA) is RefusalReason.TENANT


def test_an_answer_goes_to_the_topic_of_the_tenant_only() -> None:
    asked = narrow_query(QUERY, ADA, reply_topic="contexts-t")
    same = narrow_query(replace(QUERY, reply_to="contexts-t"), ADA, reply_topic="contexts-t")
    other = narrow_query(replace(QUERY, reply_to="contexts-u"), ADA, reply_topic="contexts-t")

    assert isinstance(asked, ContextQuery)
    assert asked.reply_to == "contexts-t"
    assert asked == same
    assert other is RefusalReason.REPLY_TOPIC


@given(claimed=NAMES, held=NAMES, groups=NAMES)
def test_a_query_sees_no_more_than_its_token_allows(claimed: set[str], held: set[str], groups: set[str]) -> None:
    identity = replace(ADA, principals=tuple(sorted(held)))

    narrowed = narrow_query(replace(QUERY, principals=tuple(claimed)), identity, groups=groups)

    if isinstance(narrowed, ContextQuery):
        assert set(narrowed.principals) <= held | groups | {EVERYONE}
        assert not claimed or set(narrowed.principals) == claimed
    else:
        assert claimed - held - groups - {EVERYONE}
