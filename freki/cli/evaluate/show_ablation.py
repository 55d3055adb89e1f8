"""Ablation in a terminal: tables and verdicts."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from freki.cli.evaluate.show_evaluation import p_value, probability
from freki.cli.evaluate.show_tuning import number
from freki.cli.words import counted
from freki.operators.evaluate import FIGURES, Cost
from freki.operators.evaluate.figures import FACTS, FAILED, HIT_1, HIT_5, MRR, NDCG, RECALL_10, SPANS
from freki.streams.evaluate.ablated import JUDGED_BY, AblatedSet, Ablation, Measured

_IN_DOCUMENTS = (SPANS, FACTS, HIT_1, HIT_5)
"""Figures that judge contexts and passages, not rankings of documents."""
_WIDE = 100
"""Terminal width in columns from which MRR and Recall@10 fit beside them."""
SHOWN = (NDCG, MRR, RECALL_10, FAILED, *_IN_DOCUMENTS)
_LEGEND = (
    "±: difference of a row to `as set`, coloured where p ≤ 0.05; p: of the paired randomisation test, not corrected "
    "for the number of rows; ms: latency of one query at a time on this machine: {machine}; ± ms: median "
    "of pairs, dim where it may be chance"
)
_LOWER = frozenset(figure.name for figure in FIGURES if not figure.higher_is_better)


def show_set(console: Console, one: AblatedSet) -> None:
    """Print the results of a set."""
    console.print()
    console.print(Text(f"{one.name}: {counted(one.questions, 'question')}, {one.timed} of them timed", "bold"))
    for note in one.notes:
        console.print(Text(f"  {note}", style="dim"))
    for line in remarks(one):
        console.print(Text(f"  {line}", style="yellow"))
    console.print(_table(one.rows, console.width))
    console.print(Text(verdict(one.rows), style="bold"))


def show_overall(console: Console, ablation: Ablation) -> None:
    """Print the mean over sets and the options of each row."""
    if ablation.overall:
        console.print()
        console.print(Text(f"Mean of {counted(len(ablation.sets), 'set')} of equal weight", "bold"))
        console.print(_table(ablation.overall, console.width))
        console.print(Text(verdict(ablation.overall), style="bold"))
    console.print()
    for row in ablation.sets[0].rows[1:]:
        console.print(Text.assemble(f"{row.title}: ", (row.configuration, "cyan")))
    console.print(Text(_LEGEND.format(machine=ablation.made_with["machine"]), style="dim"))


def remarks(one: AblatedSet) -> list[str]:
    """Return each remark on the answers once, with the rows that it applies to."""
    titles_by_remark: dict[str, list[str]] = {}
    for title, each in one.remarks.items():
        for remark in each:
            titles_by_remark.setdefault(remark, []).append(title)
    return [f"{remark} ({', '.join(titles)})" for remark, titles in titles_by_remark.items()]


def shown(rows: Sequence[Measured]) -> list[str]:
    """Return the names of the figures that the set has, in order of display."""
    return [name for name in SHOWN if name in rows[0].means]


def judged(rows: Sequence[Measured]) -> str:
    """Return the name of the figure whose differences are shown."""
    return next((name for name in JUDGED_BY if name in rows[0].means), FIGURES[0].name)


def titled(name: str) -> str:
    """Mark the name of a figure where lower is better."""
    return f"{name} ↓" if name in _LOWER else name


def verdict(rows: Sequence[Measured]) -> str:
    """Return a sentence on which steps gain quality."""
    steps = [row for row in rows if row.step]
    if not steps:
        return "No step that could be left out is enabled."
    gaining = [row for row in steps if row.losses]
    harming = [row for row in steps if row.gains and not row.losses]
    others = [row for row in steps if row not in (*gaining, *harming)]
    count = f"{len(gaining)} {'is' if len(gaining) == 1 else 'are'}" if gaining else "none is"
    groups = (("not shown to gain", others), ("better left out", harming))
    return "; ".join(
        [
            f"Of {len(steps)} steps {count} shown to gain{_listed(gaining)}",
            *(f"{label}{_listed(group)}" for label, group in groups if group),
        ]
    )


def _listed(rows: Sequence[Measured]) -> str:
    return f": {', '.join(_worth(row) for row in rows)}" if rows else ""


def _worth(row: Measured) -> str:
    """Return the gain of a step by its significant figures, else by the likeliest one, and its time."""
    names = [*row.losses, *row.gains] or [_likeliest(row)]
    given = [
        f"{titled(name)} {signed(-found.value)}, {probability(found.p)}"
        for name, found in row.differences.items()
        if name in names
    ]
    return f"{row.step} ({'; '.join([*given, _taken(row.cost)])})"


def _likeliest(row: Measured) -> str:
    """Return the name of the judged figure with the lowest p-value; the first of equals."""
    return min((name for name in JUDGED_BY if name in row.differences), key=lambda name: row.differences[name].p)


def _taken(cost: Cost) -> str:
    """Return the time of a step: the time saved without it."""
    return f"{-cost.difference_ms:.0f} ms" if cost.is_clear else "no measurable time"


def signed(value: float) -> str:
    """Format a difference to 3 decimals, never as negative zero."""
    return f"{round(value, 3) + 0.0:+.3f}"


def _table(rows: Sequence[Measured], width: int) -> Table:
    names, figure = shown(rows), judged(rows)
    if width < _WIDE and not set(names).isdisjoint(_IN_DOCUMENTS):
        names = [name for name in names if name not in (MRR, RECALL_10)]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column()
    for head in (*map(titled, names), f"± {figure}", "p", "p50 ms", "p95 ms", "± ms"):
        # Wrap titles, never numbers.
        table.add_column(
            head.replace("@", "\n@").replace(" ms", "\nms").replace(" quoted", "\nquoted").replace(" found", "\nfound"),
            no_wrap=True,
            justify="right",
        )
    for row in rows:
        table.add_row(*_cells(row, names, figure))
    return table


def _cells(row: Measured, names: Sequence[str], figure: str) -> Iterator[Text | str]:
    yield row.title
    for name in names:
        yield number(row.means[name].value if name in row.means else None)
    found = row.differences.get(figure)
    style = "red" if figure in row.losses else "green" if figure in row.gains else ""
    yield "" if found is None else Text(signed(found.value), style=style)
    yield "" if found is None else p_value(found.p)
    yield f"{row.cost.p50_ms:.0f}"
    yield f"{row.cost.p95_ms:.0f}"
    yield Text(f"{row.cost.difference_ms:+.0f}", style="" if row.cost.is_clear else "dim") if row.differences else ""
