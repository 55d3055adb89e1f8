"""The law of tests/unit/test_isolation.py on a real store, for some askers of one collection of documents."""

import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from freki.infra.milvus.index import MilvusIndex
from freki.infra.settings import MilvusSettings
from freki.schemas import ContextQuery, Filter, FilterOperator, Fusion, QueryId, RerankerChoice, Widening, WidenWhen
from tests.unit.isolation import NOW, PRINCIPALS, WORDS, History, Version, answers, generation, hidden, world, write
from tests.unit.revisions import TENANT

ASKERS: Sequence[tuple[str, ...]] = ((), ("anna", "board"))
DOCUMENTS = 40
QUESTIONS = 8


def made(chance: random.Random) -> dict[str, History]:
    def version() -> Version:
        texts = {" ".join(chance.choices(WORDS, k=3)) for _ in range(3)}
        readers = tuple(sorted(chance.sample(PRINCIPALS, chance.randint(0, 2))))
        return Version(texts=tuple(sorted(texts)), principals=readers, attributes={"team": chance.choice("ab")})

    return {
        f"d{number}": History(tuple(version() for _ in range(chance.randint(1, 2))), dies_at=None, after=False)
        for number in range(DOCUMENTS)
    }


def questions(chance: random.Random, asker: tuple[str, ...]) -> list[ContextQuery]:
    # BM25 weighs words by all rows of the collection: it ranks here too, and deep enough for its order not to matter.
    return [
        ContextQuery(
            query_id=QueryId(str(number)),
            tenant=TENANT,
            text=" ".join(chance.choices(WORDS, k=2)),
            asked_at=NOW,
            principals=asker,
            fusion=Fusion.WEIGHTED,
            alpha=1.0,
            reranker=RerankerChoice.COSINE,
            top_k=chance.randint(1, 9),
            widen=(Widening.VECTOR,),
            widen_when=WidenWhen.ALWAYS,
            per_document=chance.randint(0, 2),
            expand_documents=chance.randint(0, 2),
            filters=chance.choice([(), (Filter(field="attributes.team", operator=FilterOperator.EQ, values=("a",)),)]),
        )
        for number in range(QUESTIONS)
    ]


def without_bm25(answer: Mapping[str, Any]) -> dict[str, Any]:
    hits = [{**hit, "lexical_score": None} for hit in answer["hits"]]
    # Steps that run at the same time end in either order.
    stages = sorted(answer["stages"], key=lambda stage: (stage["stage"], stage["items"]))
    return {**answer, "hits": hits, "stages": stages, "told": None}


async def test_what_may_not_be_read_changes_nothing(store: MilvusSettings) -> None:
    chance = random.Random(7)  # noqa: S311 - the same every time
    documents = made(chance)
    async with AsyncExitStack() as opened:
        full = world(await opened.enter_async_context(MilvusIndex(store, generation("isolation_all"))))
        await write(full, documents)
        for number, asker in enumerate(ASKERS):
            some = await opened.enter_async_context(MilvusIndex(store, generation(f"isolation_{number}")))
            unseen = await hidden(full, documents, asker)
            without = world(some)
            await write(without, {name: history for name, history in documents.items() if name not in unseen})
            asked = questions(chance, asker)

            expected = [without_bm25(answer) for answer in await answers(without, asked)]
            assert [without_bm25(answer) for answer in await answers(full, asked)] == expected
            assert 0 < len(unseen) < DOCUMENTS
            assert any(answer["hits"] for answer in expected)
