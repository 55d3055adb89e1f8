"""Tuning in a terminal."""

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from freki.cli.evaluate.show_evaluation import probability
from freki.cli.words import counted
from freki.operators.evaluate import Cost, Gain, TuningVerdict
from freki.operators.evaluate.figures import FAILED, MRR
from freki.operators.evaluate.tune import LIKELY_CHANCE
from freki.streams.evaluate.tuning import Check, TriedValue, Tuning, TuningStep

PREFIX = "FREKI_RETRIEVAL__"
_LEGEND = (
    "\ngain: over the value set, mean over sets, coloured where p ≤ 0.05; failed: no relevant hit among {hits}; "
    "± ms: median difference in latency to the value set, dim where it may be chance; "
    "latencies are of this machine: {machine}"
)


def show_tuning(console: Console, tuning: Tuning) -> None:
    """Print each option with its values, the checks of all changes together, and the recommended settings."""
    console.print()
    for one in tuning.sets:
        console.print(Text(f"{one.name}: {counted(one.questions, 'question')}, {one.fresh} more for the check", "bold"))
        for note in one.notes:
            console.print(Text(f"  {note}", style="dim"))
    for step in tuning.steps:
        _show_step(console, tuning, step)
    for reason in tuning.left_out:
        console.print(Text(f"not tuned, {reason}", style="yellow"))
    for remark in tuning.remarks:
        console.print(Text(remark, style="yellow"))
    for check in tuning.checks:
        console.print(Text(checked(check, tuning.figure), style="bold"))
        for harm in harms(check.by_set):
            console.print(Text(f"  {harm}", style="red"))
    console.print(Text(_LEGEND.format(hits=tuning.hits, machine=tuning.made_with["machine"]), style="dim"))
    console.print()
    for line in lines(tuning):
        console.print(line, soft_wrap=True, highlight=False, style="bold green")


def lines(tuning: Tuning) -> list[str]:
    """Return the recommended settings."""
    return [
        f"{name}={value}{'' if name.startswith(PREFIX) else '  # in each query: there is no setting'}"
        for name, value in tuning.settings.items()
    ] or ["keep the settings"]


def outcome(step: TuningStep, figure: str) -> str:
    """Return the decision on an option in one sentence."""
    choice = step.choice
    decision = {
        TuningVerdict.BETTER: f"{choice.value} is better than {step.present}",
        TuningVerdict.CHEAPER: f"{choice.value} is as good as the best, and faster than {step.present}",
        TuningVerdict.AS_GOOD: f"{step.present} stays: none is better, or as good and clearly faster",
        TuningVerdict.UNPROVEN: f"{step.present} stays: the gain of {choice.value} does not hold on held-out queries",
    }[choice.verdict]
    worth = f"{figure} {gained(choice.gain)}, {probability(choice.gain.p)}"
    return f"{decision}. Chosen by cross-validation: {worth}; {votes(step)}"


def votes(step: TuningStep) -> str:
    """Return how many folds chose each value."""
    counts = {value.title: step.choice.by_fold.count(value.title) for value in step.values}
    return ", ".join(
        f"{title} in {count} of {len(step.choice.by_fold)} folds" for title, count in counts.items() if count
    )


def gained(gain: Gain) -> str:
    """Format a gain with its interval."""
    return f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"


def costs(cost: Cost) -> str:
    """Format the difference in milliseconds to the present value, with its interval."""
    return f"{cost.difference_ms:+.1f} ({cost.low_ms:+.1f} to {cost.high_ms:+.1f})"


def checked(check: Check, figure: str) -> str:
    """Return the gain and the latency of all changed options together, in one sentence."""
    kind = "held-out queries" if check.fresh else "queries used for the choice (optimistic)"
    asked = f"{check.gain.questions} {kind}{', shortened to keywords' if check.shortened else ''}"
    return (
        f"All together, on {asked}: {figure} {gained(check.gain)}, {probability(check.gain.p)}; "
        f"{costs(check.cost)} ms at the median, p95 {check.cost.p95_ms:.0f} ms"
    )


def chosen_harms(step: TuningStep) -> list[str]:
    """Name the sets that lose by the new value of an option."""
    chosen = next(tried for tried in step.values if tried.title == step.choice.value)
    return harms(chosen.by_set) if step.choice.moves else []


def short(title: str, step: TuningStep) -> str:
    """Strip the option's name from the title of a value."""
    return title.removeprefix(step.option).lstrip(" =")


def measured_sets(tuning: Tuning, step: TuningStep) -> list[str]:
    """Name the sets that have questions for an option."""
    return [one.name for one in tuning.sets if any(one.name in tried.by_set for tried in step.values)]


def harms(by_set: Mapping[str, Gain]) -> list[str]:
    """Name the sets that lose significantly."""
    return [
        f"{name} loses: {gained(gain)}, {probability(gain.p)}"
        for name, gain in by_set.items()
        if gain.value < 0 and gain.p <= LIKELY_CHANCE
    ]


def tried_with(step: TuningStep) -> str:
    """Return the queries and the other changed options of a step."""
    asked = f"{counted(step.questions, 'query', 'queries')}{' shortened to keywords' if step.shortened else ''}"
    return f"{asked}{f', with {step.others}' if step.others else ''}{', again' if step.again else ''}"


def mark(tried: TriedValue, step: TuningStep) -> str:
    """Return marks of a value: set, recommended (→), dropped."""
    stands = step.choice.value if step.choice.moves else step.present
    return " ".join(
        word
        for word, holds in (
            ("set", tried.title == step.present),
            ("→", tried.title == stands),
            ("dropped", tried.dropped),
        )
        if holds
    )


def _show_step(console: Console, tuning: Tuning, step: TuningStep) -> None:
    console.print()
    console.print(Text.assemble((step.option, "bold cyan"), f"  {tried_with(step)}"))
    console.print(_worth(tuning, step))
    if len(measured_sets(tuning, step)) > 1:
        console.print(_by_set(tuning, step))
    console.print(Text(outcome(step, tuning.figure)))
    for harm in chosen_harms(step):
        console.print(Text(f"  {harm}", style="red"))


def _worth(tuning: Tuning, step: TuningStep) -> Table:
    table = _table("value", "", tuning.figure, "gain, 95 %", MRR, "failed ↓", "± ms")
    for tried in step.values:
        found = mark(tried, step)
        is_present = tried.title == step.present
        table.add_row(
            short(tried.title, step),
            Text(found, style="bold green" if "→" in found else "cyan"),
            number(tried.figures.get(tuning.figure)),
            "" if is_present else Text(gained(tried.gain), style=_style(tried.gain)),
            number(tried.figures.get(MRR)),
            number(tried.figures.get(FAILED)),
            f"{tried.cost.p50_ms:.0f}" if is_present else _difference(tried.cost),
            style="dim" if tried.dropped else "",
        )
    return table


def _by_set(tuning: Tuning, step: TuningStep) -> Table:
    names = measured_sets(tuning, step)
    # Wrap names at hyphens, never numbers.
    table = _table("gain by set", *(name.replace("-", "-\n") for name in names))
    for tried in step.values:
        if tried.title != step.present:
            gains = [tried.by_set.get(name) for name in names]
            cells = ["–" if gain is None else Text(f"{gain.value:+.3f}", style=_style(gain)) for gain in gains]
            table.add_row(short(tried.title, step), *cells, style="dim" if tried.dropped else "")
    return table


def _difference(cost: Cost) -> Text:
    return Text(f"{cost.difference_ms:+.1f}", style="" if cost.is_clear else "dim")


def _table(*head: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in head:
        table.add_column(name, no_wrap=True)
    return table


def _style(gain: Gain) -> str:
    return "" if gain.p > LIKELY_CHANCE else "green" if gain.value > 0 else "red"


def number(value: float | None) -> str:
    """Format a figure, or a dash if there is none."""
    return "–" if value is None else f"{value:.3f}"
