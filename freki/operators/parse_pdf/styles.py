"""Styles of the text of a PDF: body, headings, and the usual step from line to line."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from freki.operators.parse_pdf.lines import TextLine

Style = tuple[float, bool, bool]
"""Size in points, whether it is bold, and whether it is drawn."""
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


class Typography(NamedTuple):
    """The heading styles and usual line steps of a document."""

    levels: Mapping[Style, int]
    """Heading level by style."""
    step: float
    """Usual line step in points."""
    scan_step: float
    """That of text which OCR laid over scans."""


def style_of(line: TextLine) -> Style:
    """Return the style of a line."""
    return line.size, line.bold, line.drawn


def typography_of(lines: Sequence[TextLine]) -> Typography:
    """Return the styles larger than the body, or as large and bold, ranked as headings, and the usual line steps.

    Scans have a body and a step of their own: OCR measures sizes, which compare with each other only.
    """
    drawn, scanned = [line for line in lines if line.drawn], [line for line in lines if not line.drawn]
    styles = sorted((style for each in (drawn, scanned) for style in _headings(_characters(each))), reverse=True)
    levels = {style: min(rank, MAX_LEVELS) for rank, style in enumerate(styles, start=1)}
    return Typography(levels, step=_usual_step(drawn), scan_step=_usual_step(scanned))


def _characters(lines: Iterable[TextLine]) -> Counter[Style]:
    characters: Counter[Style] = Counter()
    for line in lines:
        characters[style_of(line)] += len(line.text)
    return characters


def _usual_step(lines: Sequence[TextLine]) -> float:
    body = _body(_characters(lines))
    steps = Counter(
        round(before.top - line.top)
        for before, line in pairwise(lines)
        if before.page == line.page and 0 < before.top - line.top < _LARGEST_USUAL_STEP * body
    )
    return max(steps, key=lambda step: (steps[step], -step), default=body)


def _headings(characters: Mapping[Style, int]) -> Iterator[Style]:
    """Yield the styles of headings among some, each with its number of characters."""
    body, total = _body(characters), sum(characters.values())
    of_body = {bold: count for (size, bold, _), count in characters.items() if size == body}
    body_bold = of_body.get(True, 0) > of_body.get(False, 0)
    for style, count in characters.items():
        size, bold, _ = style
        is_larger = size > body + _LARGER or (bold and not body_bold and size > _SMALLEST_BOLD * body)
        if is_larger and count < _MAX_HEADING_SHARE * total:
            yield style


def _body(characters: Mapping[Style, int]) -> float:
    """Return the prevailing size; 0 if there is no text."""
    sizes: Counter[float] = Counter()
    for (size, *_), count in characters.items():
        sizes[size] += count
    return max(sizes, key=lambda size: (sizes[size], size), default=0.0)
