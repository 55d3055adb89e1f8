"""Styles of the text of a PDF: body, headings, and the usual step from line to line."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from freki.operators.parse_pdf.lines import TextLine

Style = tuple[float, bool]
"""Size in points, and whether it is bold."""
MAX_LEVELS = 6
"""Maximum heading levels."""
_MAX_HEADING_SHARE = 0.25
"""Maximum share of the characters in a style of headings."""
_LARGER = 0.5
"""Minimum excess of a heading over the body size, in points."""
_SMALLEST_BOLD = 0.6
"""Minimum size of bold headings relative to the body; smaller bold text labels drawings."""
_LARGEST_USUAL_STEP = 4
"""Maximum usual line step, relative to the body size."""


class Look(NamedTuple):
    """The heading styles and usual line step of a document."""

    levels: Mapping[Style, int]
    """Heading level by style."""
    step: float
    """Usual line step in points."""


def style_of(line: TextLine) -> Style:
    """Return the style of a line."""
    return line.size, line.bold


def look_of(lines: Sequence[TextLine]) -> Look:
    """Return the styles larger than the body, or as large and bold, ranked as headings, and the usual line step."""
    characters: Counter[Style] = Counter()
    for line in lines:
        characters[style_of(line)] += len(line.text)
    sizes: Counter[float] = Counter()
    for (size, _), count in characters.items():
        sizes[size] += count
    body = max(sizes, key=lambda size: (sizes[size], size), default=0.0)
    body_bold = characters[body, True] > characters[body, False]
    styles = sorted(
        (
            (size, bold)
            for (size, bold), count in characters.items()
            if count < _MAX_HEADING_SHARE * characters.total()
            and (size > body + _LARGER or (bold and not body_bold and size > _SMALLEST_BOLD * body))
        ),
        reverse=True,
    )
    steps = Counter(
        round(before.top - line.top)
        for before, line in pairwise(lines)
        if before.page == line.page and 0 < before.top - line.top < _LARGEST_USUAL_STEP * body
    )
    step = max(steps, key=lambda step: (steps[step], -step), default=body)
    return Look({style: min(rank, MAX_LEVELS) for rank, style in enumerate(styles, start=1)}, step)
