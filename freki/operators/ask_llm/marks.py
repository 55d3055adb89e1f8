"""Marks of prompts and answers, which material must not have of its own: delimiters and citations."""

import re
from typing import Final

from freki.schemas.defusing import NAMED_CITATION, defuse

CITED: Final = r"[\[【](?:(?:quelle|source|document|dokument)[-\s]?)?\d{1,3}(?:\s*[|:,;][^\[\]【】]{0,300})?[\]】]"
"""A citation in an answer, as a pattern that ignores case."""
# After a number alone it does not matter where the bracket closes: brackets in between may be replaced.
_CITATION = re.compile(rf"{NAMED_CITATION}|[\[【](?=\d{{1,3}}(?:\s*[|:,;]|[\]】]))", re.IGNORECASE)


def delimiters(*names: str) -> re.Pattern[str]:
    """Return a pattern for the beginning of tags with these names, and of marks such as `<|im_start|>`."""
    return re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(names)}|\|))", re.IGNORECASE)


def without_delimiters(material: str, found: re.Pattern[str]) -> str:
    """Return material in which `‹` begins what looks like a delimiter; the length is kept."""
    return defuse(material, found, "‹")


def without_citations(material: str) -> str:
    """Return material in which `(` begins what would be read as a citation once copied; the length is kept."""
    return defuse(material, _CITATION, "(")
