"""Inline SVG plots; colours come from the page's style."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from freki.operators.evaluate import Mean
from freki.schemas.names import record

RUNS = ("A", "B")
WIDTH = 640
_LABELS = 172
_RIGHT = 104
_ROW = 38
_TOP = 8
_BOTTOM = 24
_STEPS = 5
_WIDE = 1080
_APART = 7
"""Vertical distance of the dots of two runs from the middle of a row, in pixels."""
_BAR_HEIGHT = 150
_MAX_BARS = 300
"""Maximum number of bars: more would be thinner than a pixel."""


@record
class PlotRow:
    """A row of a dot plot."""

    label: str
    detail: str
    """Small text below the label."""
    means: tuple[Mean | None, ...]
    """Mean of each run."""


def dot_plot(rows: Sequence[PlotRow]) -> str:
    """Draw means with their intervals, one line per row, on a scale rounded outward to tenths."""
    means = [mean for row in rows for mean in row.means if mean is not None]
    highest = math.ceil(10 * max((mean.high for mean in means), default=1.0))
    lowest = math.floor(10 * min((mean.low for mean in means), default=0.0))
    scale = _Scale(min(lowest, highest - 1) / 10, highest / 10)
    bottom = _TOP + _ROW * len(rows)
    parts = [_grid(scale, bottom)]
    for place, row in enumerate(rows):
        middle = _TOP + _ROW * place + _ROW / 2
        parts.append(_text(0, middle - 2, row.label))
        parts.append(_text(0, middle + 12, row.detail, "faint"))
        shifts = (0,) if len(row.means) == 1 else (-_APART, _APART)
        parts += [
            _dot(scale, run, mean, middle + shift, row.label)
            for run, mean, shift in zip(RUNS, row.means, shifts, strict=False)
            if mean is not None
        ]
    return _svg(bottom + _BOTTOM, parts)


def columns(labels: Sequence[str], shares: Sequence[Sequence[float]]) -> str:
    """Draw shares (0 to 1) as columns, runs side by side. shares: (runs, labels)."""
    slot = WIDTH / len(labels)
    wide = min(34.0, slot * 0.7 / len(shares))
    tallest = max((share for run in shares for share in run), default=0) or 1.0
    base = _BAR_HEIGHT + 20
    parts = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{base}" y2="{base}"/>']
    for place, label in enumerate(labels):
        middle = slot * (place + 0.5)
        parts.append(_text(middle, base + 17, label, anchor="middle"))
        for number, run in enumerate(shares):
            left = middle + wide * (number - len(shares) / 2)
            height = _BAR_HEIGHT * run[place] / tallest
            title = f"<title>{RUNS[number]}: {run[place]:.1%} of the questions, {escape(label)}</title>"
            parts.append(
                f'<rect class="{RUNS[number]}" x="{left + 1:.1f}" y="{base - height:.1f}" width="{wide - 2:.1f}" '
                f'height="{height:.1f}">{title}</rect>'
            )
            parts.append(_text(left + wide / 2, base - height - 4, f"{100 * run[place]:.0f}", "faint", anchor="middle"))
    return _svg(base + _BOTTOM, parts)


def differences(values: Sequence[float]) -> str:
    """Draw the differences of questions, not all 0, as bars in descending order."""
    ordered = sorted(values, reverse=True)
    shown = ordered[:: 1 + len(ordered) // _MAX_BARS]
    largest = max(map(abs, ordered))
    base, reach, left = 85, 72, 44
    wide = (_WIDE - left) / max(len(shown), 1)
    parts = [
        _text(0, base - reach + 8, f"{largest:+.2f}", "faint"),
        _text(0, base + reach, f"{-largest:+.2f}", "faint"),
        f'<line class="axis" x1="{left}" x2="{_WIDE}" y1="{base}" y2="{base}"/>',
    ]
    for place, value in enumerate(shown):
        if value:
            height = max(1.0, reach * abs(value) / largest)
            parts.append(
                f'<rect class="{"up" if value > 0 else "down"}" x="{left + wide * place:.2f}" '
                f'y="{base - height if value > 0 else base:.1f}" width="{max(wide - 0.4, 0.6):.2f}" '
                f'height="{height:.1f}"><title>{value:+.3f}</title></rect>'
            )
    return _svg(2 * base, parts, width=_WIDE)


class _Scale(NamedTuple):
    """Horizontal scale of a dot plot."""

    low: float
    high: float

    def x(self, value: float) -> float:
        return _LABELS + (WIDTH - _LABELS - _RIGHT) * (value - self.low) / (self.high - self.low)


def _grid(scale: _Scale, bottom: float) -> str:
    lines = []
    for step in range(_STEPS + 1):
        tick = scale.low + (scale.high - scale.low) * step / _STEPS
        x = scale.x(tick)
        lines.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>')
        lines.append(_text(x, bottom + 16, f"{tick:.3g}", "faint", anchor="middle"))
    return "".join(lines)


def _dot(scale: _Scale, run: str, mean: Mean, y: float, label: str) -> str:
    said = f"{run}, {label}: {mean.value:.3f}, 95 % interval {mean.low:.3f} to {mean.high:.3f}"
    return (
        f'<g class="{run}"><title>{escape(said)}</title><line class="stem" '
        f'x1="{scale.x(mean.low):.1f}" x2="{scale.x(mean.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<circle cx="{scale.x(mean.value):.1f}" cy="{y:.1f}" r="4.5"/></g>'
        + _text(WIDTH - _RIGHT + 14, y + 4, f"{run} {mean.value:.3f}")
    )


def _text(x: float, y: float, text: str, style: str = "", *, anchor: str = "start") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'


def _svg(height: float, parts: Sequence[str], *, width: float = WIDTH) -> str:
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img">{"".join(parts)}</svg>'
