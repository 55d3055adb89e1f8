"""The report of an ablation, to be kept: Markdown."""

from collections.abc import Sequence

from freki.cli.evaluate.reports.markdown import table
from freki.cli.evaluate.show_ablation import judged, remarks, shown, titled, verdict
from freki.cli.evaluate.show_evaluation import p_value
from freki.cli.evaluate.show_tuning import costs, gained, number
from freki.operators.evaluate import Gain
from freki.operators.evaluate.figures import FAILED
from freki.streams.evaluate.ablated import AblatedSet, Ablation, Measured

_DECIMALS = 3
"""Decimal places of a difference, as shown."""
_HEAD = """# What each step of retrieval is worth

For operators who decide which steps of retrieval to switch off: quality and latency with each step left out, one at a
time. Report of this command, other options not shown ({made_at}, {took_min:.0f} minutes); generated, do not edit:

```sh
freki ablate {sets}
```

± is the difference to "as set" with its 95 % bootstrap interval; p is of the paired randomisation test, not corrected
for the number of rows. Milliseconds are latencies on this machine, one query at a time; ± ms is the median of paired
differences with its 95 % interval. A step is shown to gain where a figure is worse without it (p ≤ 0.05). Below a
mean over sets, the tables of single sets omit rows that change nothing.
"""


def write_report(ablation: Ablation) -> str:
    """Write the page."""
    parts = [
        _HEAD.format(
            sets=" ".join(one.name for one in ablation.sets),
            made_at=f"{ablation.made_at[:16].replace('T', ' ')} UTC",
            took_min=ablation.took_s / 60,
        ),
        *(_over_sets(ablation) if ablation.overall else []),
        *(part for one in ablation.sets for part in _set(one, is_brief=bool(ablation.overall))),
        "## Options of each row\n",
        table(["row", "options"], ([row.title, f"`{row.configuration}`"] for row in ablation.sets[0].rows[1:])),
        "## Made with\n",
        table(["", ""], ([name, f"`{value}`"] for name, value in ablation.made_with.items())),
    ]
    return "\n".join(parts)


def _over_sets(ablation: Ablation) -> list[str]:
    return [
        f"## Mean of {len(ablation.sets)} sets\n",
        "Each set has the same weight.\n",
        _table(ablation.overall),
        f"{verdict(ablation.overall)}.\n",
    ]


def _set(one: AblatedSet, *, is_brief: bool) -> list[str]:
    """Write one set. is_brief: beside a mean over sets, which has all columns and the verdict."""
    documents = "" if one.documents is None else f"{one.documents} documents, "
    return [
        f"## {one.name}\n",
        " ".join(
            [
                f"{documents}{one.questions} queries, {one.timed} of them timed.",
                *(f"Note: {note}." for note in (*one.notes, *remarks(one))),
            ]
        )
        + "\n",
        _brief_table(one.rows) if is_brief else _table(one.rows),
        *([] if is_brief else [f"{verdict(one.rows)}.\n"]),
    ]


def _brief_table(rows: Sequence[Measured]) -> str:
    figure = judged(rows)
    names = [name for name in (figure, FAILED) if name in rows[0].means]
    head = ["", *map(titled, names), f"± {figure}", "p", "p50 ms"]
    changed = [row for row in rows if figure not in row.differences or _is_changed(row.differences[figure])]
    return table(head, (_row(row, names, figure)[: len(head)] for row in changed))


def _is_changed(found: Gain) -> bool:
    """Tell whether a difference or its interval shows more than zeros."""
    return any(round(value, _DECIMALS) for value in (found.value, found.low, found.high))


def _table(rows: Sequence[Measured]) -> str:
    names, figure = shown(rows), judged(rows)
    head = ["", *map(titled, names), f"± {figure}", "p", "p50 ms", "p95 ms", "± ms"]
    return table(head, (_row(row, names, figure) for row in rows))


def _row(row: Measured, names: Sequence[str], figure: str) -> list[str]:
    found = row.differences.get(figure)
    return [
        row.title,
        *(number(row.means[name].value if name in row.means else None) for name in names),
        *(["", ""] if found is None else [gained(found), p_value(found.p)]),
        f"{row.cost.p50_ms:.0f}",
        f"{row.cost.p95_ms:.0f}",
        "" if found is None else costs(row.cost),
    ]
