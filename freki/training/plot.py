"""Line plots as SVG."""

from collections.abc import Sequence
from html import escape

from freki.schemas.names import record

_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 150, 16, 44
_STEPS = 4
_COLOURS = ("#1b6ca8", "#c8553d", "#4f772d", "#7b4b94", "#8d6b1f", "#555555", "#2a9d8f", "#b5179e")


@record
class Series:
    """A series of points, drawn as a line."""

    label: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def line_plot(lines: Sequence[Series], *, x: str, y: str, top: float | None = None) -> str:
    """Return a plot of lines with axes from 0, labelled `x` and `y`.

    top: end of both axes; by default the largest values. Raises ValueError without points.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        raise ValueError("there is nothing to draw")
    right, height = (top or max(axis) or 1.0 for axis in zip(*points, strict=True))
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(point: tuple[float, float]) -> tuple[float, float]:
        return _LEFT + wide * point[0] / right, _TOP + tall * (1 - point[1] / height)

    parts = [*_axes(right, height, x, y)]
    for number, line in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down in map(at, line.points))
        dashes = ' stroke-dasharray="4 4"' if line.dashed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(_text(_WIDTH - _RIGHT + 12, _TOP + 12 + 18 * number, line.label, colour=colour))
    inner = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{inner}\n</svg>\n'
    )


def _axes(right: float, height: float, x: str, y: str) -> list[str]:
    bottom, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [_text((_LEFT + end) / 2, _HEIGHT - 8, x, anchor="middle"), _text(4, 11, y)]
    for step in range(_STEPS + 1):
        across = _LEFT + (end - _LEFT) * step / _STEPS
        down = bottom - (bottom - _TOP) * step / _STEPS
        parts.append(f'<path d="M{_LEFT},{down:.1f}H{end}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 6, down + 4, f"{height * step / _STEPS:.3g}", anchor="end"))
        parts.append(_text(across, bottom + 16, f"{right * step / _STEPS:.4g}", anchor="middle"))
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
