"""Report of an ablation in Markdown."""

from collections.abc import Sequence

from freki.cli.evaluate.reports.markdown import table
from freki.cli.evaluate.show_ablation import judged, remarks, shown, titled, verdict
from freki.cli.evaluate.show_evaluation import p_value
from freki.cli.evaluate.show_tuning import costs, gained, number
from freki.cli.words import counted
from freki.streams.evaluate.ablated import AblatedSet, Ablation, Measured

_HEAD = """# What each step of retrieval is worth

For operators who decide which steps of retrieval to switch off: quality and latency with each step left out, one at a
time. Report of this command, other options not shown ({made_at}, {took_min:.0f} minutes); generated, do not edit:

```sh
freki ablate {sets}
```

± is the difference to "as set" with its 95 % bootstrap interval; p is of the paired randomisation test, not corrected
for the number of rows. Milliseconds are latencies on this machine, one query at a time; ± ms is the median of paired
differences with its 95 % interval. A step is shown to gain where a figure is worse without it (p ≤ 0.05).
"""


def write_report(ablation: Ablation) -> str:
    """Return the report as Markdown."""
    parts = [
        _HEAD.format(
            sets=" ".join(one.name for one in ablation.sets),
            made_at=f"{ablation.made_at[:16].replace('T', ' ')} UTC",
            took_min=ablation.took_s / 60,
        ),
        *(_over_sets(ablation) if ablation.overall else [part for one in ablation.sets for part in _set(one)]),
        "## Options of each row\n",
        table(["row", "options"], ([row.title, f"`{row.configuration}`"] for row in ablation.sets[0].rows[1:])),
        "## Made with\n",
        table(["", ""], ([name, f"`{value}`"] for name, value in ablation.made_with.items())),
    ]
    return "\n".join(parts)


def _over_sets(ablation: Ablation) -> list[str]:
    figure = judged(ablation.overall)
    return [
        f"## Mean of {counted(len(ablation.sets), 'set')}\n",
        "Each set has the same weight.\n",
        _table(ablation.overall),
        f"{verdict(ablation.overall)}.\n",
        "## Sets\n",
        table(["set", "documents", "queries", "timed", "notes"], map(_about, ablation.sets)),
        f'"As set": {titled(figure)}; all others: ± {figure} and its p.\n',
        table(
            ["", *(one.name for one in ablation.sets)],
            ([row.title, *(_change(one, row.title, figure) for one in ablation.sets)] for row in ablation.overall),
        ),
    ]


def _about(one: AblatedSet) -> list[str]:
    notes = "; ".join((*one.notes, *remarks(one)))
    return [one.name, "–" if one.documents is None else str(one.documents), str(one.questions), str(one.timed), notes]


def _change(one: AblatedSet, title: str, figure: str) -> str:
    """Format the change of a figure by a row; for the first row the figure itself, a dash if there is none."""
    row = next((row for row in one.rows if row.title == title), None)
    if row is None or figure not in row.means:
        return "–"
    found = row.differences.get(figure)
    return number(row.means[figure].value) if found is None else f"{found.value:+.3f} ({p_value(found.p)})"


def _set(one: AblatedSet) -> list[str]:
    documents = "" if one.documents is None else f"{counted(one.documents, 'document')}, "
    return [
        f"## {one.name}\n",
        f"{documents}{counted(one.questions, 'query', 'queries')}, {one.timed} of them timed.\n",
        *(f"Note: {note}.\n" for note in (*one.notes, *remarks(one))),
        _table(one.rows),
        f"{verdict(one.rows)}.\n",
    ]


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
