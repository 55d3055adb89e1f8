"""Headings of text documents that no paragraph is marked as: short lines in bold."""

import re
from collections.abc import Sequence

from freki.schemas.outline import Part

_LONGEST_HEADING = 120
"""Characters of a line in bold that is a heading."""
_SENTENCE_ENDS = (".", ",", ";", ":", "!", "…")
_NUMBER = re.compile(r"(?:§|Art(?:ikel|\.)?\s|TOP\s|(\d{1,3}(?:\.\d{1,3}){0,5})\.?\s)")


def bold_level(text: str) -> int:
    """Return the level of a paragraph in bold: 1, with a number below; 0 if it is long or ends like a sentence."""
    if not text or len(text) > _LONGEST_HEADING or "\n" in text or text.endswith(_SENTENCE_ENDS):
        return 0
    number = _NUMBER.match(text)
    return 2 + (number[1] or "").count(".") if number else 1


def unless_most_are_headings(parts: Sequence[Part], others: Sequence[Part]) -> tuple[Sequence[Part], str]:
    """Return the first parts and the title that they begin with, or the others if most of the first are headings."""
    if 2 * sum(part.heading_level > 0 for part in parts) > len(parts):
        return others, ""
    return parts, parts[0].text if parts and parts[0].heading_level == 1 else ""
