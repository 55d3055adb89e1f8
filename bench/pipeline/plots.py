"""PNG plots in one style: large type, units on the axes, a title that names the better direction."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SIZE_INCHES = (9, 5)
DOTS_PER_INCH = 110


@contextmanager
def figure(path: Path, *, title: str, x: str = "", y: str = "") -> Iterator[Any]:
    """Yield matplotlib axes to draw on; write the file on exit."""
    from matplotlib.figure import Figure  # with the extra `bench` only

    drawing = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    axes = drawing.subplots()
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True, alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    yield axes
    if len(axes.get_legend_handles_labels()[0]) > 1:
        drawing.legend(loc="outside lower center", ncols=2, frameon=False)
    drawing.savefig(path)


def short(value: float) -> str:
    """Format a number with at least two or three digits, without an exponent."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 10 else f"{value:.1f}" if size >= 1 else f"{value:.2f}"


def bars(path: Path, series: Mapping[str, Mapping[str, float]], *, title: str, value: str, names: str = "") -> Path:
    """Draw series -> name -> value as groups of horizontal bars, one group per name, with values at their ends."""
    groups = list(dict.fromkeys(name for values in series.values() for name in values))
    height = 0.8 / len(series)
    with figure(path, title=title, x=value, y=names) as axes:
        for number, (label, values) in enumerate(series.items()):
            places = [place + (number - (len(series) - 1) / 2) * height for place in range(len(groups))]
            drawn = axes.barh(places, [values.get(name, 0.0) for name in groups], height=height, label=label)
            axes.bar_label(drawn, fmt=short, padding=3, fontsize=8)
        axes.set_yticks(range(len(groups)), groups)
        axes.invert_yaxis()
        axes.margins(x=0.1)
    return path


def stacked(
    path: Path, series: Mapping[str, Mapping[str, float]], *, title: str, value: str, colours: Sequence[str] = ()
) -> Path:
    """Draw series -> name -> value as one horizontal bar per name, stacked from the series."""
    groups = list(dict.fromkeys(name for values in series.values() for name in values))
    with figure(path, title=title, x=value) as axes:
        if colours:
            axes.set_prop_cycle(color=colours)
        ends = [0.0] * len(groups)
        for label, values in series.items():
            widths = [values.get(name, 0.0) for name in groups]
            axes.barh(groups, widths, left=ends, label=label)
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
        axes.invert_yaxis()
    return path


def lines(  # noqa: PLR0913 - what a plot says
    path: Path,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    x: str,
    y: str,
    logarithmic: tuple[bool, bool] = (False, False),
    dashed: Collection[str] = (),
    ticks: Sequence[float] = (),
) -> Path:
    """Draw each series of points as a line.

    logarithmic: for the x and y axis; dashed: series drawn dashed, in the colour of the previous one; ticks: on x.
    """
    with figure(path, title=title, x=x, y=y) as axes:
        colour = None
        for label, points in series.items():
            style = {"linestyle": "--", "color": colour} if label in dashed else {}
            (line,) = axes.plot(*zip(*points, strict=True), marker="o", label=label, **style)
            colour = line.get_color()
        if logarithmic[0]:
            axes.set_xscale("log")
            _name_ticks(axes.xaxis)
        if logarithmic[1]:
            axes.set_yscale("log")
            _name_ticks(axes.yaxis)
        if ticks:
            axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    return path


def _name_ticks(axis: Any) -> None:
    """Label ticks with 1, 2, 5, 10, 20, … instead of powers."""
    from matplotlib.ticker import LogLocator, NullLocator  # with the extra `bench` only

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_minor_locator(NullLocator())
