"""Tables for Markdown and terminal, and plots."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from bench.peers.environments import PEERS, version_of
from bench.peers.figures import FREKI, Line
from freki.operators.evaluate.figures import NDCG

_UPDATE_COLUMNS = (
    "ingest s", "texts", "ingest CPU s", "edit s", "again", "delete s", "left", "missing", "asked", "hole", "mix",
    "part", "wrong s", "stays wrong", "peak MiB",
)  # fmt: skip
_SEARCH_COLUMNS = ("ingest s", "p50 ms", "p95 ms", "CPU ms", NDCG, "peak MiB")
_COMPARED = frozenset({"ingest s", "ingest CPU s", "edit s", "delete s", "p50 ms", "p95 ms", "CPU ms", "peak MiB"})
"""Columns with a ratio to Freki; nDCG has a difference, counts have neither."""
_WHOLE_FROM = 100
EXPLAINED = """\
In brackets: median over the rounds of the ratio to Freki in the same round (below 1 the peer needs less); for nDCG@10
the difference. `texts`: texts embedded at first; `again`: texts embedded after the edits. `left`: rows of no live
revision after edits and deletions; `missing`: live chunks without a row. `asked`: queries about documents during their
update; `hole`, `mix`, `part`: answers with no revision, with two, with one lacking its beginning or end; `wrong s`: the
longest time that a document was seen so; `stays wrong`: documents still wrong after the update. CPU and memory cover
all processes of a system; the store counts towards CPU, not memory."""


def update_table(lines: Sequence[Line]) -> list[list[str]]:
    """Return the cells of the table of updates, one column per system, header first."""
    header = ["updates", *_UPDATE_COLUMNS]
    rows = [header, *(_row(_name(line), line, _UPDATE_COLUMNS) for line in lines)]
    return [list(column) for column in zip(*rows, strict=True)]


def search_table(name: str, lines: Sequence[Line]) -> list[list[str]]:
    """Return the cells of the table of a set, header first."""
    header = [name, *_SEARCH_COLUMNS]
    return [header, *(_row(f"{_name(line)}: {line.way}", line, _SEARCH_COLUMNS, lines) for line in lines)]


def in_markdown(cells: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    header, *rows = cells
    alignment = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, alignment, *rows))


def in_terminal(cells: Sequence[Sequence[str]]) -> Table:
    """Return a terminal table."""
    header, *rows = cells
    table = Table(header[0])
    for name in header[1:]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def _name(line: Line) -> str:
    peer = PEERS[line.system]
    return f"{peer.title} {version_of(peer)}".strip()


def _row(name: str, line: Line, columns: Sequence[str], beside: Sequence[Line] = ()) -> list[str]:
    if line.error:
        return [name, line.error.replace("|", "/"), *("" for _ in columns[1:])]
    return [name, *(_cell(line, column, beside) for column in columns)]


def _cell(line: Line, column: str, beside: Sequence[Line]) -> str:
    figure = line.figures[column]
    if column == NDCG:
        return f"{figure.value:.3f}{_difference(line, beside)}"
    shown = f"{figure.value:.3g}" if figure.value < _WHOLE_FROM else f"{figure.value:.0f}"
    return f"{shown} ({figure.ratio:.2f})" if column in _COMPARED and figure.ratio is not None else shown


def _difference(line: Line, beside: Sequence[Line]) -> str:
    way = "reranked" if line.way.endswith("reranked") else "hybrid"
    ours = [each.figures[NDCG].value for each in beside if each.system == FREKI and each.way == way and each.figures]
    return "" if line.system == FREKI or not ours else f" ({line.figures[NDCG].value - ours[0]:+.3f})"


def draw(updates: Sequence[Line], searches: Mapping[str, Sequence[Line]], folder: Path) -> list[Path]:
    """Draw PNG files: times of updates, and quality against latency for each set."""
    drawn = []
    if measured := [line for line in updates if line.figures]:
        drawn.append(_bars(measured, folder / "updates.png"))
    for name, lines in searches.items():
        if measured := [line for line in lines if line.figures]:
            drawn.append(_dots(name, measured, folder / f"{name}.png"))
    return drawn


def _bars(lines: Sequence[Line], path: Path) -> Path:
    from matplotlib.figure import Figure  # noqa: PLC0415 - in the extra `bench`

    figure = Figure(figsize=(13, 4), layout="constrained")
    panels: Sequence[tuple[str, Callable[[Line], float]]] = (
        ("first ingest, s", lambda line: line.figures["ingest s"].value),
        ("edits of 5 %, s", lambda line: line.figures["edit s"].value),
        ("texts embedded for the edits", lambda line: line.figures["again"].value),
        ("longest time seen wrong, s", lambda line: line.figures["wrong s"].value),
    )
    for axes, (title, read) in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
        names = [PEERS[line.system].title for line in lines]
        colours = ["tab:red" if line.system == FREKI else "tab:blue" for line in lines]
        axes.barh(names, [read(line) for line in lines], color=colours)
        axes.set_title(title)
    figure.axes[0].invert_yaxis()
    figure.savefig(path, dpi=120)
    return path


def _dots(name: str, lines: Sequence[Line], path: Path) -> Path:
    from matplotlib.figure import Figure  # noqa: PLC0415 - in the extra `bench`

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for line in lines:
        x, y = line.figures["p50 ms"].value, line.figures[NDCG].value
        axes.plot(x, y, "o", color="tab:red" if line.system == FREKI else "tab:blue")
        label = f"{PEERS[line.system].title}: {line.way}"
        axes.annotate(label, (x, y), fontsize=8, xytext=(4, 4), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_xlabel("query latency, p50 in ms")
    axes.set_ylabel(NDCG)
    axes.set_title(name)
    figure.savefig(path, dpi=120)
    return path
