"""Plot of gain against latency: one panel per option, all on one scale."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from freki.cli.evaluate.show_tuning import short
from freki.streams.evaluate.tuning import TriedValue, Tuning, TuningStep

_COLUMNS = 3
_WIDE, _TALL = 320, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 60, 40, 36
_LINE = 11.0
"""Minimum distance of two labels, in pixels."""
# Minimum ranges, so that small differences look small.
_LEAST_MS = 10.0
_LEAST_GAIN = 0.01
_GREY, _BLUE, _GREEN, _FAINT = "#8a8a8a", "#1b6ca8", "#2e7d32", "#dddddd"


class _Scale(NamedTuple):
    """Ranges of both axes of a panel."""

    left: float
    right: float
    low: float
    high: float

    def at(self, cost: float, gain: float) -> tuple[float, float]:
        across = _LEFT + (_WIDE - _LEFT - _RIGHT) * (cost - self.left) / (self.right - self.left)
        down = _TOP + (_TALL - _TOP - _BOTTOM) * (self.high - gain) / (self.high - self.low)
        return across, down


def draw(tuning: Tuning) -> str:
    """Draw each value by its difference in latency and its gain to the value set, which lies at 0.

    Up is better, left is faster. The chosen value is green; values dropped early are grey.
    """
    steps = [step for step in tuning.steps if not step.again]
    scale = _scale([tried for step in steps for tried in step.values])
    panels = [
        f'<g transform="translate({_WIDE * (place % _COLUMNS)},{_TALL * (place // _COLUMNS)})">'
        f"{_panel(step, scale, tuning.figure)}</g>"
        for place, step in enumerate(steps)
    ]
    wide, tall = _WIDE * min(_COLUMNS, max(len(steps), 1)), _TALL * max(math.ceil(len(steps) / _COLUMNS), 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}" '
        f'font-family="sans-serif" font-size="10">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(panels)
        + "\n</svg>\n"
    )


def _scale(tried: Sequence[TriedValue]) -> _Scale:
    costs = [each.cost.difference_ms for each in tried]
    gains = [each.gain.value for each in tried]
    right, left = max([*costs, _LEAST_MS]), min([*costs, -_LEAST_MS])
    high, low = max([*gains, _LEAST_GAIN]), min([*gains, -_LEAST_GAIN])
    return _Scale(left * 1.08, right * 1.08, low * 1.08, high * 1.08)


def _panel(step: TuningStep, scale: _Scale, figure: str) -> str:
    parts = [
        _text(_LEFT, 14, step.option, size=12, colour="#111111"),
        *_axes(scale),
        _text((_LEFT + _WIDE - _RIGHT) / 2, _TALL - 6, "ms more than set", anchor="middle"),
        _text(_LEFT, 26, f"{figure} more than set"),
    ]
    label_at = -math.inf
    for tried in sorted(step.values, key=lambda each: -each.gain.value):
        across, down = scale.at(tried.cost.difference_ms, tried.gain.value)
        parts.append(_dot(tried, step, scale, across, down))
        # Stack the labels of close dots.
        label_at = max(down + 3, label_at + _LINE)
        parts.append(_text(across + 6, label_at, short(tried.title, step), colour=_colour(tried, step)))
    return "".join(parts)


def _dot(tried: TriedValue, step: TuningStep, scale: _Scale, across: float, down: float) -> str:
    _, top = scale.at(0, min(tried.gain.high, scale.high))
    _, bottom = scale.at(0, max(tried.gain.low, scale.low))
    colour = _colour(tried, step)
    fill = "white" if tried.title == step.present else colour
    said = f"{tried.title}: {tried.gain.value:+.4f}, {tried.cost.difference_ms:+.1f} ms"
    return (
        f"<g><title>{escape(said)}</title>"
        f'<path d="M{across:.1f},{top:.1f}V{bottom:.1f}" stroke="{colour}" stroke-opacity="0.35" stroke-width="2"/>'
        f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3.5" fill="{fill}" stroke="{colour}" stroke-width="1.5"/></g>'
    )


def _colour(tried: TriedValue, step: TuningStep) -> str:
    stands = step.choice.value if step.choice.moves else step.present
    return _GREEN if tried.title == stands else _GREY if tried.dropped else _BLUE


def _axes(scale: _Scale) -> list[str]:
    parts = []
    for gain in _ticks(scale.low, scale.high):
        _, down = scale.at(0, gain)
        parts.append(_rule(f"M{_LEFT},{down:.1f}H{_WIDE - _RIGHT}", is_zero=gain == 0))
        parts.append(_text(_LEFT - 5, down + 3, f"{gain:+.3g}" if gain else "0", anchor="end"))
    for cost in _ticks(scale.left, scale.right):
        across, _ = scale.at(cost, 0)
        parts.append(_rule(f"M{across:.1f},{_TOP}V{_TALL - _BOTTOM}", is_zero=cost == 0))
        parts.append(_text(across, _TALL - _BOTTOM + 13, f"{cost:+.3g}" if cost else "0", anchor="middle"))
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers in the range, including 0."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _rule(path: str, *, is_zero: bool) -> str:
    return f'<path d="{path}" stroke="{_GREY if is_zero else _FAINT}" fill="none"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#444444", size: int = 10) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
    )
