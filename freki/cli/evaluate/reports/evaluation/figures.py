"""Figures of a set as tables and plots."""

from collections.abc import Iterable

from freki.cli.evaluate.reports.evaluation.plots import PlotRow, columns, dot_plot
from freki.cli.evaluate.show_evaluation import BREAKDOWNS, NAMES, bounded, is_gain, p_value, probability
from freki.cli.words import counted
from freki.operators.evaluate import FIGURES, Comparison, Figure, Mean
from freki.operators.evaluate.tune import LIKELY_CHANCE
from freki.streams.evaluate.result import Answered, QueryGroup, SetResult, breakdown, headline

_PLACES = (("1", 1, 1), ("2", 2, 2), ("3", 3, 3), ("4–10", 4, 10), ("11–20", 11, 20), ("21 and on", 21, 200))
# A p-value of a handful of questions is meaningless.
_LEAST_TESTED = 10


def tone(result: SetResult) -> str:
    """Return `good`, `bad` or nothing by the headline figure."""
    figure = headline(result.runs)
    return _tone(result.comparison().get(figure.name), figure) if figure and len(result.runs) > 1 else ""


def figure_table(result: SetResult) -> str:
    """Return a table of the figures with their intervals and, for two runs, the comparison."""
    comparison = result.comparison() if len(result.runs) > 1 else None
    names = [f'<span class="run {name}">{name}</span>' for name in NAMES[: len(result.runs)]]
    compared = [] if comparison is None else ["B − A", "p (randomisation)", "p (t-test)", "better / same / worse"]
    rows = [table_row(["", *names, *compared], cell="th")]
    for figure, means in _measured(result):
        name = f"{figure.name}{'' if figure.higher_is_better else ' ↓'}<br><small>{figure.meaning}</small>"
        rest = [] if comparison is None else _compared(comparison.get(figure.name), figure)
        cells = [bounded(run, figure, _mean(mean)) for run, mean in zip(result.runs, means, strict=True)]
        rows.append(table_row([name, *cells, *rest]))
    return f'<table>{"".join(rows)}</table><p class="soft">↓ lower is better</p>'


def figure_plot(result: SetResult) -> str:
    """Draw the figures with their intervals; empty if there are none."""
    rows = [
        PlotRow(label=figure.name, detail="" if figure.higher_is_better else "lower is better", means=means)
        for figure, means in _measured(result)
    ]
    return dot_plot(rows) if rows else ""


def breakdown_plot(result: SetResult, title: str) -> str:
    """Draw the headline figure for each group of questions."""
    return dot_plot(
        [
            PlotRow(label=group.name, detail=_about(group), means=group.means)
            for group in breakdown(result, BREAKDOWNS[title])
        ]
    )


def place_plot(result: SetResult) -> str:
    """Draw the ranks of the first relevant documents; empty if no document was judged."""
    runs = [[answer for answer in run.answers if answer.relevant] for run in result.runs]
    labels = [*(label for label, _, _ in _PLACES), "not found"]
    return columns(labels, [_shares(answers) for answers in runs]) if all(runs) else ""


def table_row(cells: Iterable[str], *, cell: str = "td") -> str:
    """Return a table row of HTML cells."""
    return "<tr>" + "".join(f"<{cell}>{content}</{cell}>" for content in cells) + "</tr>"


def _about(group: QueryGroup) -> str:
    asked = counted(group.questions, "question")
    if group.comparison is None or group.questions < _LEAST_TESTED:
        return asked
    return f"{asked}, {probability(group.comparison.p_randomisation)}"


def _measured(result: SetResult) -> list[tuple[Figure, tuple[Mean | None, ...]]]:
    summaries = [run.summary() for run in result.runs]
    means = ((figure, tuple(summary.get(figure.name) for summary in summaries)) for figure in FIGURES)
    return [(figure, found) for figure, found in means if any(found)]


def _shares(answers: list[Answered]) -> list[float]:
    places = [answer.first_relevant for answer in answers]
    within = [sum(place is not None and low <= place <= high for place in places) for _, low, high in _PLACES]
    return [count / len(places) for count in (*within, places.count(None))]


def _mean(mean: Mean | None) -> str:
    return "–" if mean is None else f"{mean.value:.3f}<br><small>{mean.low:.3f} – {mean.high:.3f}</small>"


def _compared(found: Comparison | None, figure: Figure) -> list[str]:
    if found is None:
        return ["–"] * 4
    mean = found.difference
    bounds = f"<br><small>{mean.low:+.3f} – {mean.high:+.3f}</small>"
    change = f'<span class="{_tone(found, figure)}">{mean.value:+.3f}</span>{bounds}'
    counts = f"{found.better} / {found.same} / {found.worse}"
    return [change, p_value(found.p_randomisation), p_value(found.p_t), counts]


def _tone(found: Comparison | None, figure: Figure) -> str:
    if found is None or found.p_randomisation > LIKELY_CHANCE:
        return ""
    return "good" if is_gain(found, figure) else "bad"
