"""The model card in Markdown: description, training data, metrics and limitations."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from freki.operators.evaluate import FIGURES
from freki.training.figures import DEPTHS, USUAL, Figures, SetFigures
from freki.training.plot import Series, line_plot
from freki.training.run import RouteRun, TrainingRun, Weighing

_SMALLEST_SHOWN = 0.001

_WHAT = """# {reranker}

Model card of the reranker that reorders the candidates of hybrid search, for those who choose thresholds or weigh
its licences. English queries on English texts: cosine of a second sentence encoder between query and text or heading.
All other languages: MaxSim of rarity-weighted word pieces in the lowest layers of multilingual-e5-small. Either is
added to the hybrid scores. No encoder was trained; learned are the rarity of pieces, the weights and the calibration.
Measure it on sets of your own:

```sh
freki eval SET --a reranker=none --b reranker=local
```
"""
_MEASURED = """## Quality

The same candidates of hybrid search ({embedder} and BM25; documents not chunked), in its order and with the best
{usual} reranked. Brackets: 95 % bootstrap intervals. p: paired randomisation test, not corrected for the number of
figures. Figures that did not change for any query are omitted.
"""
_CALIBRATION = """## Calibration

![Share of relevant candidates by score]({plot})

Best {usual} candidates of each query. Unjudged candidates count as wrong, so the true share is higher.
"""
_LEARNED = """## Training

{recipe.lists} queries for learning and {recipe.held_out} held out, each with {recipe.candidates} candidates of hybrid
search, seed {recipe.seed}; no answer is in both parts. "Learned" weights maximise the likelihood of answers among
their candidates (listwise softmax); "served" ones are those in the code. Both are calibrated (Platt) and judged on the
held-out queries.
"""
_NOT_FOR = """## What it is not for

- Scores were calibrated on queries whose answer is among the documents. Otherwise the best candidate still gets a
  score: choose a threshold on your own queries.
- Scores assume candidates of Freki's hybrid search.
- It was judged on {languages} only; other languages are treated like those that are not English, unmeasured.
- It compares words and meaning: a text that negates an answer, or is outdated, scores like a right one.
- It reads only the beginning of a text, as much as its encoders take.
"""


def write_card(path: Path, run: TrainingRun, figures: Figures) -> None:
    """Write the card, and its plot in the same folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plot = path.with_suffix(".svg")
    path.write_text(card(run, figures, plot=plot.name), encoding="utf-8")
    ideal = Series(label="ideal", points=[(0.0, 0.0), (1.0, 1.0)], dashed=True)
    lines = [
        Series(label=one.name, points=[(each.score, each.right) for each in one.calibration]) for one in figures.sets
    ]
    plot.write_text(line_plot([ideal, *lines], x="score", y="share that is relevant", top=1.0), encoding="utf-8")


def card(run: TrainingRun, figures: Figures, *, plot: str) -> str:
    """Return the card; plot: path of its plot."""
    languages = " and ".join(sorted({one.language for one in figures.sets}))
    return "\n".join(
        [
            _WHAT.format(reranker=figures.reranker),
            _MEASURED.format(embedder=figures.embedder, usual=USUAL),
            *_measured(figures),
            _CALIBRATION.format(plot=plot, usual=USUAL),
            *_table(
                ("set", "calibration error (ECE)", "candidates"),
                (
                    (one.name, f"{one.error:.3f}", str(sum(each.count for each in one.calibration)))
                    for one in figures.sets
                ),
            ),
            _LEARNED.format(recipe=run.recipe),
            *_learned(run),
            _NOT_FOR.format(languages=languages),
        ]
    )


def _measured(figures: Figures) -> Iterator[str]:
    yield from _table(
        ("set", "figure", "hybrid", f"reranked {USUAL}", "difference", "p", "better / worse"),
        (row for one in figures.sets for row in _compared(one)),
    )
    yield "nDCG@10 and failed@20 by number of reranked candidates:\n"
    yield from _table(
        ("set", "language", "documents", "queries", "hybrid", *(f"best {depth}" for depth in DEPTHS)),
        (_by_depth(one) for one in figures.sets),
    )


def _compared(one: SetFigures) -> Iterator[tuple[str, ...]]:
    reranked = one.reranked[USUAL]
    for figure in FIGURES:
        if figure.name in one.hybrid:
            change = reranked.against_hybrid[figure.name]
            if not (change.better or change.worse):
                continue
            yield (
                one.name,
                figure.name,
                f"{one.hybrid[figure.name].value:.3f}",
                f"{reranked.means[figure.name].value:.3f}",
                f"{change.difference.value:+.3f} ({change.difference.low:+.3f} to {change.difference.high:+.3f})",
                _probability(change.p_randomisation),
                f"{change.better} / {change.worse}",
            )


def _by_depth(one: SetFigures) -> tuple[str, ...]:
    shown = [one.hybrid, *(one.reranked[depth].means for depth in DEPTHS)]
    figures = (f"{means['nDCG@10'].value:.3f}, {means['failed@20'].value:.3f}" for means in shown)
    return (one.name, one.language, str(one.documents), str(one.questions), *figures)


def _learned(run: TrainingRun) -> Iterator[str]:
    yield from _table(
        ("languages", "weights", "parts", "slope", "shift", "MRR, hybrid", "MRR, reranked", "ECE"),
        (row for route in run.routes for row in _weighings(route)),
    )
    yield "Training data:\n"
    yield from _table(
        ("file", "pairs", "documents", "queries", "licence", "sha256"),
        (
            (each.name, *map(str, (each.pairs, each.documents, each.questions)), each.licence, f"`{each.sha256[:16]}`")
            for each in run.files
        ),
    )
    yield f"Made on {run.made_at[:10]} in {run.took_s / 60:.0f} minutes with {', '.join(run.models)}.\n"
    yield from _table(("made with", ""), run.made_with.items())


def _weighings(route: RouteRun) -> Iterator[tuple[str, ...]]:
    yield _weighed(route, "served", route.served)
    yield _weighed(route, "learned", route.learned)


def _weighed(route: RouteRun, title: str, weighing: Weighing) -> tuple[str, ...]:
    return (
        ", ".join(route.languages),
        title,
        " + ".join(f"{weight:.2f} {part}" for part, weight in weighing.weights.items()),
        f"{weighing.slope:.2f}",
        f"{weighing.shift:.2f}",
        f"{route.mrr_found:.3f}",
        f"{weighing.mrr:.3f}",
        f"{weighing.error:.3f}",
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |\n|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '·') for cell in row)} |"
    yield ""


def _probability(value: float) -> str:
    return f"< {_SMALLEST_SHOWN}" if value < _SMALLEST_SHOWN else f"{value:.3f}"
