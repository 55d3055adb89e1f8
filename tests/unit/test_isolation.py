"""An asker gets the same whether documents that the asker may not read exist or not.

The law is that of two worlds: one has only what the asker may read. Results are compared as a whole, with notices,
advice, counts and traces; left out is only how fresh the stream is, which is one for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from freki.schemas import ContextQuery, DocumentId, VersionFloor
from tests.unit.isolation import NAMES, History, answers, cut_short, hidden, queries, world, write, written


async def both(documents: Mapping[str, History], query: ContextQuery) -> None:
    """Ask in a world with everything, and in one without what the asker may not read."""
    full, without = world(), world()
    await write(full, documents)
    unseen = await hidden(full, documents, query.principals)
    await write(without, {name: history for name, history in documents.items() if name not in unseen})

    assert await answers(full, [query]) == await answers(without, [query])


@settings(max_examples=60)
@given(documents=st.dictionaries(NAMES, written, max_size=6), query=queries())
async def test_what_may_not_be_read_changes_nothing(documents: Mapping[str, History], query: ContextQuery) -> None:
    await both(documents, query)


@settings(max_examples=60)
@given(documents=st.dictionaries(NAMES, cut_short, max_size=6), query=queries())
async def test_nor_does_it_where_its_access_was_just_being_changed(
    documents: Mapping[str, History], query: ContextQuery
) -> None:
    # Deep enough that all candidates are looked at: those further down keep their part in the scale of scores.
    await both(documents, replace(query, candidates=None, top_k=12))


@settings(max_examples=30)
@given(
    documents=st.dictionaries(NAMES, written, max_size=6),
    query=queries(),
    company=st.lists(queries(), min_size=1, max_size=3),
)
async def test_who_else_asks_at_the_same_time_changes_nothing(
    documents: Mapping[str, History], query: ContextQuery, company: Sequence[ContextQuery]
) -> None:
    somewhere = world()
    await write(somewhere, documents)

    [alone] = await answers(somewhere, [query])
    first, *_ = await answers(somewhere, [query, *company])

    assert first == alone


@settings(max_examples=20)
@given(documents=st.dictionaries(NAMES, written, max_size=3), query=queries(), wanted=st.sampled_from("abcdefgh"))
async def test_waiting_for_a_version_does_not_tell_whether_it_exists(
    documents: Mapping[str, History], query: ContextQuery, wanted: str
) -> None:
    # With time for one look.
    floor = VersionFloor(document_id=DocumentId(wanted), version=1)

    await both(documents, replace(query, at_least=(floor,), deadline_ms=45))
