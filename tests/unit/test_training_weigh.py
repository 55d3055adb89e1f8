from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.models.bert import write_tokens
from freki.infra.models.build import make
from freki.infra.models.descriptions import Architecture, ModelDescription, ModelKind
from freki.infra.models.e5s1 import read_e5s1, unigram_tokenizer
from freki.infra.models.manifest import TOKENIZER, seal
from freki.infra.models.progress import unseen
from freki.infra.models.session import Model, open_model
from freki.infra.models.tokenizer import open_tokenizer
from freki.schemas.index import RerankPair
from freki.training.dataset import Collection, Document, TrainingQuery
from freki.training.examples import Example, drawn, hold_out
from freki.training.features import Sum, matching, second_opinion
from freki.training.rarity import rarity_of
from freki.training.train import learn
from freki.training.weigh import Listed, weigh
from tests.unit.tiny_models import PIECES, TinyE5S1

seeds = st.integers(0, 999)


def lists_of(weights: tuple[float, ...], *, count: int, seed: int, noise: float = 0.3) -> list[Listed]:
    """Make candidates of which the one with the largest sum, give or take, is right."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        features = rng.random((10, len(weights))).astype(np.float32)
        sums = features @ np.array(weights) + rng.normal(0, noise, 10)
        found.append(Listed(features, np.arange(10) == sums.argmax()))
    return found


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sum, Sum]:
    """Give both routes over tiny models."""
    second = build(tmp_path_factory.mktemp("second"), ModelKind.EMBEDDER)
    first = build(tmp_path_factory.mktemp("first"), ModelKind.RERANKER)
    weights = np.random.default_rng(0).uniform(0.1, 5, len(PIECES)).astype(np.float32)
    return second_opinion(second), matching(first, weights)


def build(directory: Path, kind: ModelKind) -> Model:
    weights = read_e5s1(TinyE5S1(positions=128).write(directory / "weights.bin"))
    tokenizer = unigram_tokenizer(weights.pieces)
    if kind is ModelKind.EMBEDDER:
        make(weights, tokenizer, directory, unseen)
    else:
        make(weights, tokenizer, directory, unseen, write=write_tokens)
    description = ModelDescription(
        name="tiny", kind=kind, dim=64, max_tokens=128, architecture=Architecture.MATCHING, query_prefix="q: "
    )
    seal(directory, description, fingerprint=f"tiny-{kind}@1")
    return open_model(directory, threads=1)


@pytest.mark.parametrize("number", [0, 1])
def test_the_parts_of_a_sum_make_the_logit_that_is_served(routes: tuple[Sum, Sum], number: int) -> None:
    # given pairs with and without a heading
    route = routes[number]
    pairs = [
        RerankPair(
            query="haus am see",
            query_language="en",
            heading=heading,
            text=text,
            language="en",
            fused=fused,
            lexical=fused / 2,
            cosine=0.8 - fused / 10,
        )
        for heading, text, fused in [("see", "ein haus", 0.9), ("", "der hund", 0.1), ("haus", "am see", 0.0)]
    ]

    features = route.features(pairs)

    slope, shift = route.calibration
    logits = slope * (features @ np.array(route.weights)) + shift
    assert logits == pytest.approx(route.route(pairs).score(range(3)), abs=1e-3)
    assert features[:, 0] == pytest.approx([0.9, 0.1, 0.0])


def test_weights_that_made_the_answers_are_found_again() -> None:
    assert weigh(lists_of((1, 0.5, 3), count=1000, seed=0)) == pytest.approx((1, 0.5, 3), rel=0.2)


def test_what_speaks_against_an_answer_is_left_out_of_the_sum() -> None:
    first, second, third = weigh(lists_of((1, -2, 2), count=300, seed=0))

    assert first == 1
    assert second == pytest.approx(0, abs=1e-6)
    assert third > 1


@given(seed=seeds)
def test_the_scale_of_a_feature_only_scales_its_weight(seed: int) -> None:
    lists = lists_of((1, 2), count=60, seed=seed)
    scaled = [Listed(each.features * np.array([1, 10], np.float32), each.right) for each in lists]

    (_, plain), (_, tenth) = weigh(lists), weigh(scaled)

    assert tenth == pytest.approx(plain / 10, rel=0.05, abs=1e-3)


def test_questions_without_an_answer_count_for_nothing() -> None:
    lists = lists_of((1, 2), count=100, seed=0)
    hopeless = [Listed(each.features, np.zeros(10, np.bool_)) for each in lists_of((1, 9), count=100, seed=1)]

    assert weigh([*lists, *hopeless]) == pytest.approx(weigh(lists), rel=0.01)
    with pytest.raises(ValueError, match="no question has its answer"):
        weigh(hopeless)


def test_learned_weights_are_judged_beside_those_that_are_served(routes: tuple[Sum, Sum]) -> None:
    route = routes[0]

    run = learn(route, lists_of((1, 0, 9), count=300, seed=0), lists_of((1, 0, 9), count=200, seed=1), languages=["en"])

    assert run.mrr_found < run.learned.mrr
    assert tuple(run.served.weights.values()) == route.weights
    assert list(run.learned.weights) == ["hybrid search", "BM25", "second opinion"]
    assert run.learned.error < 0.05
    assert (run.learned_from, run.held_out) == (300, 200)


def test_a_rare_piece_weighs_more_than_a_common_one(tmp_path: Path) -> None:
    unigram_tokenizer(read_e5s1(TinyE5S1().write(tmp_path / "weights.bin")).pieces).save(str(tmp_path / TOKENIZER))
    tokenizer = open_tokenizer(tmp_path / TOKENIZER)

    weights = rarity_of(tokenizer, ["a b", "a c", "a d", "a a"])

    pieces = [PIECES.index(piece) for piece in ("a", "b", "z")]
    assert len(weights) == tokenizer.get_vocab_size()
    # As Lucene has it: ln(1 + (texts - with + 0.5) / (with + 0.5)).
    assert weights[pieces] == pytest.approx(
        [np.log(1 + 0.5 / 4.5), np.log(1 + 3.5 / 1.5), np.log(1 + 4.5 / 0.5)], rel=1e-5
    )


def collection(size: int, share: Callable[[int], float] = lambda _: 1.0) -> Collection:
    rng = np.random.default_rng(size)
    return Collection(
        language="de",
        documents=tuple(Document("", str(number)) for number in range(size)),
        questions=tuple(TrainingQuery("tiny", str(n), share(n), int(rng.integers(size))) for n in range(2 * size)),
    )


@given(seed=seeds, size=st.integers(1, 60), count=st.integers(0, 50))
def test_no_answer_is_both_learned_and_held_out(seed: int, size: int, count: int) -> None:
    asked = collection(size)

    learned, held = hold_out([asked], count, np.random.default_rng(seed))

    assert len(held) == min(count, 2 * size // 3)
    answers = [{asked.questions[each.question].answer for each in part} for part in (learned, held)]
    assert not answers[0] & answers[1]


@given(seed=seeds, count=st.integers(0, 150))
def test_examples_are_drawn_once_each(seed: int, count: int) -> None:
    examples = [Example(0, number) for number in range(100)]

    found = drawn([collection(50)], examples, count, np.random.default_rng(seed))

    assert len(found) == min(count, 100)
    assert found == sorted(set(found))


def test_sources_with_a_larger_share_are_drawn_more_often() -> None:
    asked = collection(2000, lambda number: 4.0 if number < 2000 else 1.0)
    examples = [Example(0, number) for number in range(4000)]

    found = drawn([asked], examples, 500, np.random.default_rng(0))

    assert sum(each.question < 2000 for each in found) == pytest.approx(400, abs=40)
