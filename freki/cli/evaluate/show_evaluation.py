"""Results of an evaluation in a terminal."""

from collections.abc import Callable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from freki.cli.words import counted
from freki.operators.evaluate import FIGURES, Comparison, Figure, Mean, most_changed
from freki.operators.evaluate.tune import LIKELY_CHANCE
from freki.streams.evaluate.result import Answered, Run, SetResult, breakdown, headline

_LEAST_P = 0.001
SHOWN_CHANGES = 5
QUESTION_CHARACTERS = 90
NAMES = ("A", "B")
UNJUDGED = (
    "No figure: where nothing answers a question, only false positives are judged, and those need a reranker's scores."
)
BREAKDOWNS: dict[str, Callable[[Answered], str]] = {
    "query type": lambda answer: answer.query_type,
    "language": lambda answer: "undetermined" if answer.language == "und" else answer.language,
}


def show_set(console: Console, result: SetResult) -> None:
    """Print the figures of a set and, for two runs, their comparison."""
    console.print()
    console.print(
        Text(f"{result.name}: {counted(len(result.runs[-1].answers), 'question')}, asked of {result.asked_of}", "bold")
    )
    for note in result.notes:
        console.print(Text(f"  {note}", style="dim"))
    for name, run in zip(NAMES, result.runs, strict=False):
        console.print(Text.assemble((f"{name}  ", "bold cyan"), run.title))
        for remark in run.remarks:
            console.print(Text(f"   {remark}", style="yellow"))
    console.print(_figures(result))
    if figure := headline(result.runs):
        for title, key in BREAKDOWNS.items():
            console.print(_groups(result, title, key, figure))
    if len(result.runs) > 1:
        _show_changes(console, result)
    _show_unanswered(console, result.runs[-1])
    console.print(Text(verdict(result), style="bold"))


def _show_unanswered(console: Console, run: Run) -> None:
    """Print the questions none of whose expected documents was found."""
    found = [answer for answer in run.answers if answer.relevant and answer.first_relevant is None]
    if not found:
        return
    console.print(Text(f"{counted(len(found), 'question')} without any expected document in the answer:", "yellow"))
    for answer in found[:SHOWN_CHANGES]:
        expected = ", ".join(sorted(answer.relevant))
        console.print(Text(f"  {answer.question_id}  {answer.text[:QUESTION_CHARACTERS]}  (expected {expected})"))
    if len(found) > SHOWN_CHANGES:
        console.print(Text(f"  and {len(found) - SHOWN_CHANGES} more: the report lists all", style="dim"))


def verdict(result: SetResult) -> str:
    """Return the result in one sentence, by the headline figure."""
    figure = headline(result.runs)
    if figure is None:
        return UNJUDGED
    means = [run.summary()[figure.name] for run in result.runs]
    if len(means) == 1:
        mean = means[0]
        return f"{figure.name} is {mean.value:.3f}; the 95 % interval is {mean.low:.3f} to {mean.high:.3f}."
    found = result.comparison()[figure.name]
    change = f"{figure.name} {found.difference.value:+.3f}, {probability(found.p_randomisation)}"
    if not found.better and not found.worse:
        return f"No question changes its {figure.name}: it is {means[0].value:.3f}."
    if found.p_randomisation > LIKELY_CHANCE:
        return f"The difference may well be chance: {change}."
    return f"B is {'better' if is_gain(found, figure) else 'worse'} than A: {change}."


def is_gain(found: Comparison, figure: Figure) -> bool:
    """Return whether the second run is better than the first."""
    return (found.difference.value > 0) == figure.higher_is_better


def bounded(run: Run, figure: Figure, value: str) -> str:
    """Mark a figure that is a lower bound."""
    return f"≥ {value}" if figure.name in run.lower_bounds else value


def probability(p: float) -> str:
    """Format a p-value for a sentence."""
    return f"p {'= ' if p >= _LEAST_P else ''}{p_value(p)}"


def p_value(p: float) -> str:
    """Format a p-value, never as 0."""
    return f"{p:.3f}" if p >= _LEAST_P else f"< {_LEAST_P}"


def _figures(result: SetResult) -> Table:
    comparison = result.comparison() if len(result.runs) > 1 else None
    compared = [] if comparison is None else ["B - A, 95 %", "p rand.", "p t"]
    table = Table("", *NAMES[: len(result.runs)], *compared, box=SIMPLE_HEAD, caption=_caption(result))
    summaries = [run.summary() for run in result.runs]
    for figure in FIGURES:
        if any(figure.name in summary for summary in summaries):
            name = figure.name if figure.higher_is_better else f"{figure.name} ↓"
            cells = [
                bounded(run, figure, _mean(summary.get(figure.name)))
                for run, summary in zip(result.runs, summaries, strict=True)
            ]
            rest = [] if comparison is None else _compared(comparison.get(figure.name), figure)
            table.add_row(name, *cells, *rest)
    return table


def _mean(mean: Mean | None) -> str:
    return "–" if mean is None else f"{mean.value:.3f}"


def _compared(found: Comparison | None, figure: Figure) -> list[Text | str]:
    if found is None:
        return []
    style = "" if found.p_randomisation > LIKELY_CHANCE else "green" if is_gain(found, figure) else "red"
    change = found.difference
    return [
        Text.assemble((f"{change.value:+.3f}", style), (f"  {change.low:+.3f} {change.high:+.3f}", "dim")),
        p_value(found.p_randomisation),
        p_value(found.p_t),
    ]


def _caption(result: SetResult) -> str:
    if len(result.runs) == 1:
        return "↓ lower is better"
    return "↓ lower is better; p of the paired randomisation test and of the paired t-test"


def _groups(result: SetResult, title: str, key: Callable[[Answered], str], figure: Figure) -> Table:
    runs = NAMES[: len(result.runs)]
    table = Table(title, "questions", *(f"{figure.name} {run}" for run in runs), box=SIMPLE_HEAD)
    for group in breakdown(result, key):
        table.add_row(group.name, str(group.questions), *map(_mean, group.means))
    return table


def _show_changes(console: Console, result: SetResult) -> None:
    first, second = (run.by_id for run in result.runs)
    texts = {answer.question_id: answer.text for answer in result.runs[0].answers}
    for change in most_changed(first, second, limit=SHOWN_CHANGES):
        text = texts[change.question_id][:QUESTION_CHARACTERS]
        style = "green" if change.gain > 0 else "red"
        console.print(Text.assemble((f"{change.gain:+.3f}", style), f" {change.figure}  ", text))
