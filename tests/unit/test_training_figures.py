import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter

from freki.schemas.index import RerankPair
from freki.training.cache import ArrayCache
from freki.training.card import card, write_card
from freki.training.dataset import PairFile
from freki.training.encoders import Encoder
from freki.training.figures import Figures, Searched, examine, search_set
from freki.training.plot import Series, line_plot
from freki.training.run import Recipe, RouteRun, TrainingRun, Weighing
from tests.unit.training_stages import silent

COUNT = 40
WORDS = ("house", "tree", "river", "stone", "market", "winter", "bridge", "garden")


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Count the first words that we know, and nothing else."""
    counts = np.array([[text.count(word) + 0.01 for word in WORDS] for text in texts])
    vectors: NDArray[np.float32] = (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)
    return vectors


ENCODER = Encoder(fingerprint="tiny@1", embed=embed)


@pytest.fixture
def searched(tmp_path: Path) -> Searched:
    """Search a set whose questions repeat a document's words but for its number."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 6)) + f" number {place}" for place in range(COUNT)]
    directory = tmp_path / "tiny"
    directory.mkdir()
    corpus = [{"_id": f"d{n}", "title": f"About {n}" if n % 2 else "", "text": text} for n, text in enumerate(texts)]
    asked = [{"_id": f"q{n}", "text": " ".join(text.split()[:4])} for n, text in enumerate(texts)]
    for name, lines in (("corpus", corpus), ("queries", asked)):
        (directory / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    qrels = [f"q{n}\td{n}\t1" for n in range(COUNT)]
    (directory / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels]))
    return search_set(directory, ENCODER, ArrayCache(tmp_path / "cache"), silent, most=None)


async def knowing(pairs: Sequence[RerankPair]) -> list[float]:
    """Score a text high if it begins as the question does."""
    return [0.95 if pair.text.split("\n")[-1].startswith(pair.query) else 0.05 for pair in pairs]


async def indifferent(pairs: Sequence[RerankPair]) -> list[float]:
    """Keep the order."""
    return [1 - place / 1000 for place, _ in enumerate(pairs)]


async def test_a_reranker_that_knows_the_answers_wins_on_every_figure(searched: Searched) -> None:
    figures = await examine(searched, knowing, lambda _: None)

    usual = figures.reranked[32]
    assert usual.means["MRR"].value > figures.hybrid["MRR"].value
    assert usual.against_hybrid["MRR"].p_randomisation < 0.05
    assert figures.error < 0.1
    assert (figures.documents, figures.questions, figures.language) == (COUNT, COUNT, "en")


async def test_a_reranker_that_keeps_the_order_changes_no_figure(searched: Searched) -> None:
    figures = await examine(searched, indifferent, lambda _: None)

    for reranked in figures.reranked.values():
        assert reranked.means == figures.hybrid
        assert all(change.p_t == change.p_randomisation == 1 for change in reranked.against_hybrid.values())


async def test_a_reranker_sees_headings_and_what_search_knows(searched: Searched) -> None:
    pairs = searched.pairs(1, 8)

    assert {pair.query for pair in pairs} == {searched.questions[1].text}
    assert any(pair.heading == "About 1" and pair.text.startswith("About 1\n") for pair in pairs)
    assert all(not pair.heading or pair.text.startswith(pair.heading) for pair in pairs)
    assert [pair.fused for pair in pairs] == sorted((pair.fused for pair in pairs), reverse=True)


def run() -> TrainingRun:
    weighing = Weighing(weights={"hybrid search": 1.0, "BM25": 0.4}, slope=2.0, shift=-3.0, mrr=0.8, error=0.02)
    return TrainingRun(
        format="freki training 1",
        made_at="2026-01-31T10:00:00+00:00",
        took_s=90.0,
        made_with={"commit": "abc"},
        models=("tiny@1",),
        recipe=Recipe(lists=10, held_out=5, seed=3),
        files=(
            PairFile(name="own-de.jsonl.zst", sha256="f" * 64, pairs=9, documents=8, questions=7, licence="CC0 | none"),
        ),
        routes=(
            RouteRun(languages=("en",), learned_from=10, held_out=5, mrr_found=0.7, served=weighing, learned=weighing),
        ),
        piece_weights="0" * 64,
    )


async def test_a_card_is_written_from_what_was_kept(searched: Searched, tmp_path: Path) -> None:
    # given a run and figures that went through JSON
    kept = [await examine(searched, knowing, lambda _: None)]
    figures = Figures(format="freki reranker figures 1", reranker="tiny@2", embedder="tiny@1", sets=tuple(kept))
    figures = TypeAdapter(Figures).validate_json(TypeAdapter(Figures).dump_json(figures))
    again = TypeAdapter(TrainingRun).validate_json(TypeAdapter(TrainingRun).dump_json(run()))

    write_card(tmp_path / "card.md", again, figures)

    text = (tmp_path / "card.md").read_text()
    assert text == card(run(), figures, plot="card.svg")
    for part in ("seed 3", "ffffffffffffffff", "CC0 · none", "nDCG@10", "What it is not for", "judged on en"):
        assert part in text
    assert ET.fromstring((tmp_path / "card.svg").read_text()).tag.endswith("svg")  # noqa: S314 - our own


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    figures = Figures(format="freki reranker figures 1", reranker="tiny@2", embedder="tiny@1", sets=())

    table: list[int] = []
    for line in [*card(run(), figures, plot="p.svg").split("\n"), ""]:
        if line.startswith("|"):
            table.append(line.count("|"))
        else:
            assert len(set(table)) <= 1
            table = []


def test_a_plot_stays_within_its_frame() -> None:
    plot = line_plot([Series(label="a < b", points=[(0, 0), (5, 10), (10, 2)])], x="step", y="loss")

    (line,) = (node for node in ET.fromstring(plot).iter() if node.tag.endswith("polyline"))  # noqa: S314 - our own
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert len(points) == 3
    assert all(0 <= x <= 560 and 0 <= y <= 300 for x, y in points)
    assert "a &lt; b" in plot


def test_nothing_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        line_plot([Series(label="empty", points=[])], x="step", y="loss")
