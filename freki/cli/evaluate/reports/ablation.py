"""The report of an ablation, to be kept: Markdown."""

from collections.abc import Sequence

from freki.cli.evaluate.reports.markdown import table
from freki.cli.evaluate.show_ablation import judged, remarks, shown, titled, verdict
from freki.cli.evaluate.show_evaluation import p_value
from freki.cli.evaluate.show_tuning import costs, gained, number
from freki.streams.evaluate.ablated import AblatedSet, Ablation, Measured

_HEAD = """# What each step of retrieval is worth

Written by `freki ablate {sets}` on {made_at} ({took_min:.0f} minutes); made anew, not edited.

Each row turns what "What the rows turn" says, and leaves the rest as set. ± is what it has more than "as set", with
the 95 % bootstrap interval; p of the paired randomisation test, not corrected for the number of rows. Milliseconds are
of this machine, one question at a time, as the asker waits: some questions were asked of all rows in turn. ± ms is the
median of pairs with its 95 % interval. A step is shown to gain where a figure is worse without it (p ≤ 0.05).
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
        *(part for one in ablation.sets for part in _set(one)),
        "## What the rows turn\n",
        table(["row", "options"], ([row.title, f"`{row.configuration}`"] for row in ablation.sets[0].rows[1:])),
        "## Made with\n",
        table(["", ""], ([name, f"`{value}`"] for name, value in ablation.made_with.items())),
    ]
    return "\n".join(parts)


def _over_sets(ablation: Ablation) -> list[str]:
    return [
        f"## Mean of {len(ablation.sets)} sets\n",
        "Each set counts the same.\n",
        _table(ablation.overall),
        f"{verdict(ablation.overall)}.\n",
    ]


def _set(one: AblatedSet) -> list[str]:
    documents = "" if one.documents is None else f"{one.documents} documents, "
    return [
        f"## {one.name}\n",
        f"{documents}{one.questions} questions, {one.timed} of them timed.\n",
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
