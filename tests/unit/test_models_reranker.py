import json
import math
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.models import OnnxReranker
from freki.infra.settings import ModelSettings
from freki.schemas.errors import Misconfigured
from tests.unit.rerank_pairs import paired
from tests.unit.tiny_models import write_cross_encoder

words = st.integers(0, 99).map("w{}".format)
sentences = st.lists(words, max_size=6).map(" ".join)
pairs_of_texts = st.lists(st.tuples(sentences, sentences), max_size=12)


def settings_for(directory: Path) -> ModelSettings:
    return ModelSettings(cache_dir=directory / "cache", reranker=str(directory), batch_tokens=512, threads=1)


@pytest_asyncio.fixture(scope="module")
async def reranker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OnnxReranker]:
    """Give a reranker that counts the words which query and text share."""
    directory = write_cross_encoder(tmp_path_factory.mktemp("model"))
    async with OnnxReranker(settings_for(directory)) as opened:
        yield opened


def score_of(shared: int) -> float:
    return 1 / (1 + math.exp(2 - shared))


async def test_a_score_is_the_sigmoid_of_the_models_logit(reranker: OnnxReranker) -> None:
    pairs = [("w1 w2", "w3"), ("w1 w2", "w2 w5"), ("w1 w2 w3", "w3 w2 w1")]

    scores = await reranker.score(paired(pairs), budget_s=None)

    assert scores == pytest.approx([score_of(0), score_of(1), score_of(3)], abs=1e-6)


@given(pairs=pairs_of_texts)
async def test_every_pair_gets_the_score_that_it_has_alone(
    reranker: OnnxReranker, pairs: list[tuple[str, str]]
) -> None:
    scores = await reranker.score(paired(pairs), budget_s=None)

    expected = [sum(a == b for a in query.split() for b in text.split()) for query, text in pairs]
    assert scores == pytest.approx([score_of(shared) for shared in expected], abs=1e-6)


async def test_what_is_too_long_is_cut_from_the_text_not_from_the_query(reranker: OnnxReranker) -> None:
    # 16 tokens less [CLS] and two [SEP] leave 13: 5 for the query, 8 for the text.
    query = "w1 w2 w3 w4 w5"
    within = "w50 " * 7 + "w5"
    beyond = "w50 " * 8 + "w5"

    scores = await reranker.score(paired([(query, within), (query, beyond)]), budget_s=None)

    assert scores == pytest.approx([score_of(1), score_of(0)], abs=1e-6)


async def test_a_query_that_leaves_no_room_still_lets_half_of_it_to_the_text(reranker: OnnxReranker) -> None:
    query = "w1 " * 1000
    text = "w1 " * 1000

    (score,) = await reranker.score(paired([(query, text)]), budget_s=None)

    assert score == pytest.approx(score_of(6 * 7), abs=1e-6)


async def test_without_time_nothing_is_scored(reranker: OnnxReranker) -> None:
    assert await reranker.score(paired([("w1", "w1")] * 3), budget_s=0) == [None] * 3


async def test_no_pairs_give_no_scores(reranker: OnnxReranker) -> None:
    assert await reranker.score([], budget_s=None) == []
    assert await reranker.score([], budget_s=1) == []


async def test_enough_time_scores_all(reranker: OnnxReranker) -> None:
    scores = await reranker.score(paired([("w1", "w1 w2")] * 200), budget_s=3600)

    assert scores == pytest.approx([score_of(1)] * 200, abs=1e-6)


async def test_a_budget_goes_to_the_first_pairs(tmp_path: Path) -> None:
    # given a clock that moves by a second whenever it is looked at: any batch takes one second
    directory = write_cross_encoder(tmp_path)
    clock = map(float, count())
    pairs = [("w1 w2 w3", f"w{i} w1 w2") for i in range(100)]
    async with OnnxReranker(settings_for(directory), clock=lambda: next(clock)) as reranker:
        # when there is time for some
        scores = await reranker.score(paired(pairs), budget_s=3)

    # then these are the first ones
    done = [score is not None for score in scores]
    assert 0 < sum(done) < 100
    assert done == sorted(done, reverse=True)


async def test_at_most_half_of_what_fits_is_begun_before_looking_how_late_it_is(tmp_path: Path) -> None:
    directory = write_cross_encoder(tmp_path)
    pairs = paired([("w1", f"w1 w{place}") for place in range(40)])
    # given a clock that moves by a second whenever it is looked at
    now_s, looks, late = 0.0, 0, 0.0

    def clock() -> float:
        nonlocal now_s, looks
        looks += 1
        # the fourth look of a call is at the end of its first batch
        now_s += late if looks == 4 else 1
        return now_s

    async with OnnxReranker(settings_for(directory), clock=clock) as reranker:
        needed_s = sum(len(f"{pair.query} {pair.text}".split()) + 3 for pair in pairs) / reranker.tokens_per_s
        # when all would fit, but the first batch is late
        looks, late = 0, 3600.0
        scores = await reranker.score(pairs, budget_s=1 + 1.5 * needed_s)

    # then what is left out is not late too
    done = sum(score is not None for score in scores)
    assert len(pairs) / 2 < done < len(pairs) * 0.8


async def test_a_pair_that_is_longer_than_a_batch_is_scored_alone(tmp_path: Path) -> None:
    directory = write_cross_encoder(tmp_path, max_tokens=1024)
    async with OnnxReranker(settings_for(directory)) as reranker:
        scores = await reranker.score(paired([("w1", "w1 " * 600), ("w1", "w1 w1")]), budget_s=3600)

    assert scores == pytest.approx([score_of(600), score_of(2)], abs=1e-6)


async def test_opening_it_measures_its_pace(reranker: OnnxReranker) -> None:
    assert reranker.tokens_per_s > 0


def test_a_reranker_must_be_chosen() -> None:
    with pytest.raises(Misconfigured, match="FREKI_MODELS__RERANKER"):
        OnnxReranker(ModelSettings(reranker=None))


async def test_a_model_that_gives_several_numbers_a_pair_is_refused(tmp_path: Path) -> None:
    directory = write_cross_encoder(tmp_path, outputs=2)

    with pytest.raises(Misconfigured, match=r"\(2,\) numbers a pair, not one"):
        async with OnnxReranker(settings_for(directory)):
            pass


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.onnx", None, "model.onnx is missing"),
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("manifest.json", None, "neither manifest.json nor config.json"),
        ("model.onnx", "no graph", "not a model that onnxruntime runs"),
        ("tokenizer.json", "{}", "not a tokenizer"),
        ("manifest.json", "{", "not a model's manifest"),
        ("manifest.json", json.dumps({"name": "x", "kind": "reranker"}), "max_tokens"),
    ],
)
async def test_a_directory_that_is_no_model_is_refused_with_what_is_wrong(
    tmp_path: Path, file: str, content: str | None, message: str
) -> None:
    directory = write_cross_encoder(tmp_path)
    if content is None:
        (directory / file).unlink()
    else:
        (directory / file).write_text(content)

    with pytest.raises(Misconfigured, match=message):
        async with OnnxReranker(settings_for(directory)):
            pass
