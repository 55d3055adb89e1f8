"""Hits of an answer for frameworks: what failed is no empty list."""

import re
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from freki.cli.show import show_result
from freki.client import Rejected, ResultStatus, Unavailable
from freki.client.hits import hits_of
from freki.schemas import (
    ContextQuery,
    Filter,
    FilterOperator,
    Notice,
    NoticeKind,
    QueryId,
    RequestKind,
    TenantId,
    Timestamp,
)
from freki.streams.tools.reply import reply_of
from tests.unit import evaluations
from tests.unit.questions import TEXTS, Broken, ask, retriever
from tests.unit.revisions import World, revision
from tests.unit.test_request_kinds import named


def test_what_was_not_answered_is_no_empty_list() -> None:
    notice = Notice(stage="validate", kind=NoticeKind.REJECTED, message="top_k is 0")
    query = ContextQuery(query_id=QueryId("q"), tenant=TenantId("hr"), text="?", asked_at=Timestamp(1))
    rejected = replace(evaluations.result(query, ()), status=ResultStatus.REJECTED, notices=(notice,))

    with pytest.raises(Rejected, match="top_k is 0"):
        hits_of(rejected)
    with pytest.raises(Unavailable):
        hits_of(replace(rejected, status=ResultStatus.EXPIRED))
    assert hits_of(replace(rejected, status=ResultStatus.EMPTY)) == ()


SEARCH: Mapping[str, Any] = {"text": TEXTS[0]}
READ: Mapping[str, Any] = {"text": "", "kind": RequestKind.CHUNK_READ, "chunk_ids": (named("a", TEXTS[0]),)}


@pytest.mark.parametrize(
    ("asked", "broken"),
    [
        (SEARCH, ("dense", "lexical")),
        *((SEARCH, (call,)) for call in ("roots", "contents", "pages")),
        *((READ, (call,)) for call in ("visible", "roots", "contents", "pages")),
    ],
)
async def test_a_store_that_is_down_is_no_empty_list(asked: Mapping[str, Any], broken: tuple[str, ...]) -> None:
    world = await filled()

    result = await ask(retriever(world, Broken(world.index, *broken)), **asked)

    assert (result.status, result.hits) == (ResultStatus.DEGRADED, ())
    with pytest.raises(Unavailable, match="failed: it does not answer"):
        hits_of(result)
    file = StringIO()
    show_result(Console(file=file, width=200), result, question=TEXTS[0])
    reply = reply_of(result, kind=asked.get("kind", RequestKind.KEYWORD_SEARCH), mark="m").text
    for told in (" ".join(result.advice), file.getvalue(), reply):
        assert not re.search("nothing was found|nichts gefunden", told, re.IGNORECASE)
        assert re.search("Searching failed|Suche ist fehlgeschlagen", told)


async def test_nothing_found_stays_an_empty_list_where_a_step_failed_that_searches_nothing() -> None:
    world = await filled()
    nowhere = (Filter(field="document_id", operator=FilterOperator.EQ, values=("nowhere",)),)

    result = await ask(retriever(world, Broken(world.index, "watermarks")), filters=nowhere)

    assert (result.status, result.hits) == (ResultStatus.DEGRADED, ())
    assert hits_of(result) == ()


async def filled() -> World:
    world = World()
    await world.feed(revision("a", 1, TEXTS))
    return world
