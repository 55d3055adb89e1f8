"""Which recorded queries two generations are asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from freki.cli.compare_generations import RECORDED, chosen_queries, is_comparable
from freki.cli.generations import PROBE
from freki.cli.main import app
from freki.infra.settings import EncryptionSettings, RetrievalSettings, Settings
from freki.schemas import ContextQuery, Filter, FilterOperator, QueryId, RequestKind, TenantId, Timestamp


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


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"text": ""}, Settings()),
        ({"alpha": 7.0}, Settings()),
        ({"where": "((("}, Settings()),
        ({"kind": RequestKind.CHUNK_READ, "chunk_ids": ("0" * 32,)}, Settings()),
        ({"text": "long"}, Settings(retrieval=RetrievalSettings(max_query_chars=3))),
        (
            {"filters": (Filter(field="name", operator=FilterOperator.PREFIX, values=("a",)),)},
            Settings(encryption=EncryptionSettings(keys="local", key_file=Path("freki.keys"))),
        ),
    ],
)
def test_what_workers_refused_and_what_only_one_generation_has_is_not_asked(
    changes: dict[str, Any], settings: Settings
) -> None:
    [query] = queries("a")

    assert is_comparable(replace(query, reply_to="answers"), settings)
    assert not is_comparable(replace(query, **changes), settings)


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


@pytest.mark.parametrize("option", ["--share", "--recorded"])
def test_questions_come_from_sets_or_from_what_was_asked(option: str) -> None:
    refused = CliRunner().invoke(app, ["generations", "compare", "g1", "g2", "--set", "set", option, "1"])

    assert refused.exit_code == 2
    assert "leave out --recorded and --share" in " ".join(refused.output.split())
