"""The model's card, as Markdown: what it is, what it was made of, how good it is, and what it is not for."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from freki.operators.evaluate import FIGURES, Mean
from freki.training.figures import DEPTHS, USUAL, Figures, SetFigures
from freki.training.plot import Line, line_plot
from freki.training.run import RouteRun, Run, Weighing

_SMALLEST_SHOWN = 0.001

_WHAT = """# {reranker}

Reorders what hybrid search found. English questions on English texts ask a second sentence encoder how close question
and text, or heading, are; in all other languages each piece of the question, weighted by how rare it is, looks for its
closest one in the text, in the states of the lowest layers of multilingual-e5-small. Either enters a sum with what
search said before. No encoder was changed: what was learned are the rarity of pieces, the weights of the sums and their
calibration.
"""
_MEASURED = """## How good it is

The same candidates of hybrid search ({embedder} and BM25), in its order and with the best {usual} reranked; documents
are not chunked. Brackets hold 95 % of the bootstrap means; p-values are of the paired t-test and of the paired
randomisation test, not corrected for the number of figures.
"""
_CALIBRATION = """## What its scores mean

![Share of relevant candidates by score]({plot})

Of the best {usual} candidates of each question. What nobody judged counts as wrong, so that the truth lies higher.
"""
_LEARNED = """## How its weights came about

{recipe.lists} questions were drawn to learn from and {recipe.held_out} to judge by, each with {recipe.candidates}
candidates of hybrid search, seed {recipe.seed}; no answer is in both parts. Learned weights make answers likely among
their candidates (listwise softmax); served ones are those in the code. Both are calibrated (Platt) and judged by the
questions that were held out.
"""
_NOT_FOR = """## What it is not for

- Its scores were calibrated on questions whose answer is among the documents. Where it is not, the best candidate still
  gets a score; a threshold is to be chosen on your own questions.
- It reads the scores of Freki's hybrid search: with candidates of another search its own mean little.
- It was judged on {languages}. Other languages take the way of those that are not English, unmeasured.
- It compares words and meaning; it does not reason. A text that negates an answer, or is outdated, scores as well as a
  right one: no score says that a text is true.
- It reads the beginning of a text, as much as its encoders take. What stands further down it does not see.
"""


def write_card(path: Path, run: Run, figures: Figures) -> None:
    """Write the card, and its plot beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plot = path.with_suffix(".svg")
    path.write_text(card(run, figures, plot=plot.name), encoding="utf-8")
    ideal = Line(label="ideal", points=[(0.0, 0.0), (1.0, 1.0)], dashed=True)
    lines = [
        Line(label=one.name, points=[(each.score, each.right) for each in one.calibration]) for one in figures.sets
    ]
    plot.write_text(line_plot([ideal, *lines], x="score", y="share that is relevant", top=1.0), encoding="utf-8")


def card(run: Run, figures: Figures, *, plot: str) -> str:
    """Give the card; plot: where its plot lies."""
    languages = " and ".join(sorted({one.language for one in figures.sets}))
    return "\n".join(
        [
            _WHAT.format(reranker=figures.reranker),
            _MEASURED.format(embedder=figures.embedder, usual=USUAL),
            *_measured(figures),
            _CALIBRATION.format(plot=plot, usual=USUAL),
            *_table(
                ("set", "mean error of a score (ECE)", "candidates"),
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
        ("set", "figure", "hybrid", f"reranked {USUAL}", "difference", "p (t)", "p (rand.)", "better / worse"),
        (row for one in figures.sets for row in _compared(one)),
    )
    yield "By how many candidates were reranked, nDCG@10 and failed@20:\n"
    yield from _table(
        ("set", "language", "documents", "questions", "hybrid", *(f"best {depth}" for depth in DEPTHS)),
        (_by_depth(one) for one in figures.sets),
    )


def _compared(one: SetFigures) -> Iterator[tuple[str, ...]]:
    reranked = one.reranked[USUAL]
    for figure in FIGURES:
        if figure.name in one.hybrid:
            change = reranked.against_hybrid[figure.name]
            yield (
                one.name,
                figure.name,
                _mean(one.hybrid[figure.name]),
                _mean(reranked.means[figure.name]),
                f"{change.difference.value:+.3f} ({change.difference.low:+.3f} to {change.difference.high:+.3f})",
                _probability(change.p_t),
                _probability(change.p_randomisation),
                f"{change.better} / {change.worse}",
            )


def _by_depth(one: SetFigures) -> tuple[str, ...]:
    shown = [one.hybrid, *(one.reranked[depth].means for depth in DEPTHS)]
    figures = (f"{means['nDCG@10'].value:.3f}, {means['failed@20'].value:.3f}" for means in shown)
    return (one.name, one.language, str(one.documents), str(one.questions), *figures)


def _learned(run: Run) -> Iterator[str]:
    yield from _table(
        ("languages", "weights", "parts", "slope", "shift", "MRR, found", "MRR, reranked", "ECE"),
        (row for route in run.routes for row in _weighings(route)),
    )
    yield "Learned from:\n"
    yield from _table(
        ("file", "pairs", "documents", "questions", "licence", "sha256"),
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


def _mean(mean: Mean) -> str:
    return f"{mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f})"


def _probability(value: float) -> str:
    return f"< {_SMALLEST_SHOWN}" if value < _SMALLEST_SHOWN else f"{value:.3f}"
