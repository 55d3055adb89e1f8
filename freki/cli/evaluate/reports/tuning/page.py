"""Markdown page of a tuning."""

from collections.abc import Iterable, Sequence

from freki.cli.evaluate.reports.markdown import table
from freki.cli.evaluate.show_evaluation import p_value
from freki.cli.evaluate.show_tuning import (
    checked,
    chosen_harms,
    costs,
    gained,
    harms,
    lines,
    mark,
    measured_sets,
    number,
    outcome,
    short,
    tried_with,
)
from freki.operators.evaluate.figures import FAILED
from freki.operators.evaluate.tune import MOST_LOST
from freki.streams.evaluate.answers import TIMED
from freki.streams.evaluate.tuning import TriedValue, Tuning, TuningStep

_HEAD = """# Recommended values of the retrieval options

For operators who choose `FREKI_RETRIEVAL__…` settings: the gain and the latency of each value, measured. Report of this
command, other options not shown ({made_at}, {took_min:.0f} minutes); generated, do not edit:

```sh
freki tune {sets}
```

- Gains: {figure} minus that of the value present then ("set"), as means over sets of equal weight, with 95 % bootstrap
  intervals. p: paired randomisation test, not corrected for the number of values. `{failed}`: queries without a
  relevant hit among {hits}. → marks the recommended value.
- Milliseconds: latency on this machine, one query at a time; differences are medians of pairs, {timed} queries of each
  set.
- Choice: {folds}-fold cross-validation takes the clearly faster value within one standard error of the best, else the
  present one. The present value is replaced only if held-out queries gain (p ≤ 0.05), or lose less than {lost} (lower
  end of the interval) while latency falls. "Dropped" values were clearly worse on a first part of the queries and not
  tried on the rest.
"""


def write_report(tuning: Tuning, *, plot: str) -> str:
    """Return the page as Markdown. plot: path of the picture relative to the page."""
    parts = [
        _HEAD.format(
            sets=" ".join(one.name for one in tuning.sets),
            made_at=f"{tuning.made_at[:16].replace('T', ' ')} UTC",
            took_min=tuning.took_s / 60,
            figure=tuning.figure,
            hits=tuning.hits,
            failed=FAILED,
            timed=TIMED,
            folds=tuning.folds,
            lost=MOST_LOST,
        ),
        "## What to set\n",
        "```sh\n" + "\n".join(lines(tuning)) + "\n```\n",
        *(
            f"{sentence}\n"
            for check in tuning.checks
            for sentence in (checked(check, tuning.figure), *harms(check.by_set))
        ),
        f"![Gain against cost of every value]({plot})\n",
        table(["set", "documents", "queries", "held out for the check"], _sets(tuning)),
        *(_step(tuning, step) for step in tuning.steps if step.choice.moves or not step.again),
        *_second_round([step for step in tuning.steps if step.again and not step.choice.moves]),
        *(f"Not tuned: {reason}.\n" for reason in tuning.left_out),
        *(f"Note: {remark}.\n" for remark in tuning.remarks),
        "## Made with\n",
        table(["", ""], ([name, f"`{value}`"] for name, value in tuning.made_with.items())),
    ]
    return "\n".join(parts)


def _sets(tuning: Tuning) -> Iterable[list[str]]:
    for one in tuning.sets:
        yield [one.name, "–" if one.documents is None else str(one.documents), str(one.questions), str(one.fresh)]


def _step(tuning: Tuning, step: TuningStep) -> str:
    names = measured_sets(tuning, step)
    head = [step.option, "", tuning.figure, "gain", "p", f"{FAILED} ↓", "ms p50", "± ms", *names]
    rows = (_row(tried, step, tuning.figure, names) for tried in step.values)
    sentences = [f"{outcome(step, tuning.figure)}.", *(f"\n{harm}." for harm in chosen_harms(step))]
    return "\n".join(
        [
            f"## {step.option}{', again' if step.again else ''}\n",
            f"{tried_with(step)}.\n",
            table(head, rows),
            *sentences,
            "",
        ]
    )


def _second_round(steps: Sequence[TuningStep]) -> list[str]:
    """Return a sentence naming the options that the second round did not change."""
    if not steps:
        return []
    others = f", with {steps[-1].others}," if steps[-1].others else ""
    return [f"A second round{others} changed nothing: {', '.join(step.option for step in steps)}.\n"]


def _row(tried: TriedValue, step: TuningStep, figure: str, names: list[str]) -> list[str]:
    is_present = tried.title == step.present
    sets = [tried.by_set.get(name) for name in names]
    return [
        short(tried.title, step),
        mark(tried, step),
        number(tried.figures.get(figure)),
        "" if is_present else gained(tried.gain),
        "" if is_present else p_value(tried.gain.p),
        number(tried.figures.get(FAILED)),
        f"{tried.cost.p50_ms:.0f}",
        "" if is_present else costs(tried.cost),
        *("" if is_present or gain is None else f"{gain.value:+.3f}" for gain in sets),
    ]
