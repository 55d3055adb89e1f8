from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freki.infra.models.bert import write_tokens
from freki.infra.models.build import make
from freki.infra.models.descriptions import Architecture, ModelDescription, ModelKind
from freki.infra.models.e5s1 import read_e5s1, unigram_tokenizer
from freki.infra.models.interaction import Matching, Owned, Remembered, SecondOpinion, is_english, read_piece_weights
from freki.infra.models.manifest import seal
from freki.infra.models.progress import unseen
from freki.infra.models.session import Model, open_model
from freki.schemas.arrays import Floats
from freki.schemas.index import RerankPair
from tests.unit.rerank_pairs import pair
from tests.unit.tiny_models import PIECES, TinyE5S1

PIECE_WEIGHTS = np.linspace(0.5, 3, len(PIECES)).astype(np.float32)

words = st.text("abcdehuns ", min_size=1, max_size=30).filter(str.strip)
owned = st.builds(Owned, st.lists(st.sampled_from("ab"), max_size=2).map(tuple), st.sampled_from("abc"))
pairs = st.lists(
    st.builds(pair, st.sampled_from(["haus", "a b c"]), words, heading=words | st.just("")), min_size=1, max_size=8
)


def built(directory: Path, kind: ModelKind) -> Model:
    weights = read_e5s1(TinyE5S1().write(directory / "weights.bin"))
    tokenizer = unigram_tokenizer(weights.pieces)
    made = directory / "model"
    made.mkdir()
    if kind is ModelKind.RERANKER:
        make(weights, tokenizer, made, unseen, write=write_tokens)
    else:
        make(weights, tokenizer, made, unseen)
    description = ModelDescription(
        name="tiny",
        kind=kind,
        dim=64,
        max_tokens=64,
        architecture=Architecture.MATCHING,
        query_prefix="q: " if kind is ModelKind.RERANKER else "",
        passage_prefix="p: " if kind is ModelKind.RERANKER else "",
    )
    seal(made, description, fingerprint="tiny@1")
    return open_model(made, threads=1)


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Give a model of token states."""
    return built(tmp_path_factory.mktemp("matcher"), ModelKind.RERANKER)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Give a sentence encoder."""
    return built(tmp_path_factory.mktemp("encoder"), ModelKind.EMBEDDER)


def matched(model: Model, asked: RerankPair) -> float:
    """Compute the match of one pair as its definition says, token by token."""
    query, text = model.encode([f"q: {asked.query}", f"p: {asked.text}"])
    lead = 1 + sum(model.count(["q:"]))
    questions, answers = model.tokens([query])[0], model.tokens([text])[0]
    sums = [
        (PIECE_WEIGHTS[query.ids[at]], max(float(questions[at] @ state) for state in answers))
        for at in range(lead, len(query.ids) - 1)
    ]
    return float(sum(weight * best for weight, best in sums) / sum(weight for weight, _ in sums))


def matching(model: Model, asked: list[RerankPair]) -> Floats:
    route = Matching(model, PIECE_WEIGHTS, asked, Remembered(0), batch_tokens=64)
    return route.score(range(len(asked)))


@given(asked=pairs)
def test_rare_tokens_of_the_question_look_for_their_like_in_the_text(matcher: Model, asked: list[RerankPair]) -> None:
    sums = [each.fused + Matching.COSINE * each.cosine + Matching.MATCH * matched(matcher, each) for each in asked]

    assert matching(matcher, asked) == pytest.approx(Matching.CALIBRATION(np.array(sums)), abs=5e-3)


@given(asked=pairs)
def test_a_pair_scores_the_same_alone_and_among_others(matcher: Model, asked: list[RerankPair]) -> None:
    alone = [matching(matcher, [each])[0] for each in asked]

    assert matching(matcher, asked) == pytest.approx(alone, abs=1e-4)


@given(asked=pairs)
def test_scoring_piece_by_piece_gives_the_same_scores(matcher: Model, asked: list[RerankPair]) -> None:
    route = Matching(matcher, PIECE_WEIGHTS, asked, Remembered(0), batch_tokens=64)

    scores = [route.score(range(place, place + 1))[0] for place in range(len(asked))]

    assert scores == pytest.approx(matching(matcher, asked), abs=1e-4)


@given(asked=pairs)
def test_the_second_opinion_takes_the_better_of_text_and_heading(encoder: Model, asked: list[RerankPair]) -> None:
    route = SecondOpinion(encoder, asked, Remembered(0), batch_tokens=64)

    scores = route.score(range(len(asked)))

    def vector(text: str) -> Floats:
        (found,) = encoder.vectors(encoder.encode([text]))
        return np.asarray(found, np.float32)

    sums = [
        each.fused
        + SecondOpinion.OPINION
        * max(float(vector(each.query) @ vector(text)) for text in (each.text, each.heading) if text)
        + SecondOpinion.LEXICAL * each.lexical
        for each in asked
    ]
    assert scores == pytest.approx(SecondOpinion.CALIBRATION(np.array(sums)), abs=1e-3)


def test_what_pairs_share_costs_once(encoder: Model) -> None:
    one = pair("haus", "abc", heading="a b")

    route = SecondOpinion(encoder, [one, one, pair("haus", "abc abc", heading="a b")], Remembered(0), batch_tokens=64)

    first, second, third = route.lengths
    assert first == sum(len(each) for each in encoder.encode(["haus", "abc", "a b"]))
    assert second == 0
    assert third == len(encoder.encode(["abc abc"])[0])


@given(asked=st.lists(pairs, max_size=5), room=st.sampled_from([0, 1_000, 20_000, 1_000_000]))
def test_scores_do_not_depend_on_what_is_remembered(
    matcher: Model, encoder: Model, asked: list[list[RerankPair]], room: int
) -> None:
    tokens, vectors = Remembered(room), Remembered(room)

    for each in asked:
        places = range(len(each))
        matches = Matching(matcher, PIECE_WEIGHTS, each, tokens, batch_tokens=64).score(places)
        opinions = SecondOpinion(encoder, each, vectors, batch_tokens=64).score(places)

        assert matches == pytest.approx(matching(matcher, each), abs=1e-4)
        assert opinions == pytest.approx(
            SecondOpinion(encoder, each, Remembered(0), batch_tokens=64).score(places), abs=1e-4
        )


@given(asked=pairs)
def test_what_is_remembered_costs_nothing(encoder: Model, asked: list[RerankPair]) -> None:
    remembered = Remembered(1_000_000)
    SecondOpinion(encoder, asked, remembered, batch_tokens=64).score(range(len(asked)))

    again = SecondOpinion(encoder, asked, remembered, batch_tokens=64)

    assert again.lengths == [0] * len(asked)


@given(asked=pairs)
def test_what_others_asked_or_hold_makes_nothing_cheaper(
    matcher: Model, encoder: Model, asked: list[RerankPair]
) -> None:
    theirs = [replace(each, asker=("t", "ben"), readers=("t", "ben")) for each in asked]
    tokens, vectors = Remembered(1_000_000), Remembered(1_000_000)
    Matching(matcher, PIECE_WEIGHTS, theirs, tokens, batch_tokens=64).score(range(len(asked)))
    SecondOpinion(encoder, theirs, vectors, batch_tokens=64).score(range(len(asked)))

    ours = [replace(each, asker=("t", "anna"), readers=("t", "anna")) for each in asked]
    shared = [replace(each, asker=("t", "anna"), readers=("t", "ben")) for each in asked]

    def costs(pairs: list[RerankPair], tokens: Remembered, vectors: Remembered) -> tuple[Sequence[int], Sequence[int]]:
        return (
            Matching(matcher, PIECE_WEIGHTS, pairs, tokens, batch_tokens=64).lengths,
            SecondOpinion(encoder, pairs, vectors, batch_tokens=64).lengths,
        )

    assert costs(ours, tokens, vectors) == costs(ours, Remembered(0), Remembered(0))
    questions = sum(len(each) for each in encoder.encode(sorted({pair.query for pair in asked})))
    assert sum(costs(shared, tokens, vectors)[1]) == questions


@given(texts=st.lists(st.tuples(owned, st.integers(0, 40)), max_size=40))
def test_no_more_is_remembered_than_there_is_room_and_the_latest_stays(texts: list[tuple[Owned, int]]) -> None:
    remembered = Remembered(100)

    for text, numbers in texts:
        states = np.full(numbers, 7, np.float32)
        remembered.keep(text, states)

        if states.nbytes <= 100:
            assert remembered.among([text])[text] is states
        held = remembered.among({each for each, _ in texts})
        assert sum(each.nbytes for each in held.values()) <= 100


@pytest.mark.parametrize(("asked", "found"), [("en", ["en"] * 4), ("en", ["en", "en", "en", "de"])])
def test_english_questions_on_english_texts_ask_the_second_encoder(asked: str, found: list[str]) -> None:
    assert is_english([pair("x", "y", language=language, asked_in=asked) for language in found])


@pytest.mark.parametrize(("asked", "found"), [("en", ["en", "en", "de", "de"]), ("de", ["en"] * 4), ("de", ["de"])])
def test_other_languages_do_not(asked: str, found: list[str]) -> None:
    assert not is_english([pair("x", "y", language=language, asked_in=asked) for language in found])


def test_the_weights_that_come_with_freki_cover_the_vocabulary() -> None:
    weights = read_piece_weights()

    assert weights.shape == (250_002,)
    assert (weights > 0).all()
    assert weights.max() < 12
