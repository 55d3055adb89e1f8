"""Which recorded queries two generations are asked."""

from hypothesis import given
from hypothesis import strategies as st

from freki.cli.compare_generations import RECORDED, chosen_queries
from freki.cli.generations import PROBE
from freki.schemas import ContextQuery, QueryId, TenantId, Timestamp


def queries(*texts: str, ids: str = "q") -> list[ContextQuery]:
    return [
        ContextQuery(query_id=QueryId(f"{ids}{place}"), tenant=TenantId("t"), text=text, asked_at=Timestamp(place))
        for place, text in enumerate(texts)
    ]


def test_the_last_distinct_texts_are_asked_without_those_of_commands() -> None:
    recorded = [*queries("a", "b", "a", "c"), *queries("d", ids=PROBE)]

    assert [query.text for query in chosen_queries(recorded, share=None, limit=2)] == ["a", "c"]
    assert [query.text for query in chosen_queries(recorded, share=None, limit=None)] == ["b", "a", "c"]
    assert len(chosen_queries(queries(*map(str, range(300))), share=None, limit=None)) == RECORDED


@given(share=st.floats(0.0, 1.0), size=st.integers(0, 300), later=st.integers(0, 50))
def test_a_share_takes_the_same_queries_in_each_run_whatever_was_asked_since(
    share: float, size: int, later: int
) -> None:
    recorded = queries(*map(str, range(size + later)))

    first = chosen_queries(recorded[:size], share=share, limit=None)
    second = chosen_queries(recorded, share=share, limit=None)

    assert second[: len(first)] == first
    assert chosen_queries(recorded, share=1.0, limit=None) == recorded
    assert chosen_queries(recorded, share=share, limit=3) == second[-3:]
